package rig

import "syscall"

// Attributes returns the attributes of a process with its own group, so that this program handles the terminal's
// Ctrl-C. The process ends with this program, however that ends.
func Attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
