//go:build !linux

package e2e

import "syscall"

// goesWithUs cannot be said here.
func goesWithUs() *syscall.SysProcAttr { return nil }
