//go:build !linux

package crash

import "syscall"

func goesWithUs() *syscall.SysProcAttr { return nil }
