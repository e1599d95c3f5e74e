//go:build !linux

package rig

import "syscall"

// Attributes give a process its own group, so that the terminal's Ctrl-C is this
// program's to handle.
func Attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
