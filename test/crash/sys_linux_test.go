package crash

import "syscall"

// goesWithUs has a process end with this one, however this one ends.
func goesWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
