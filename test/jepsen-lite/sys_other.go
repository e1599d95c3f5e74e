//go:build !linux

package main

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// monotonic falls back to the wall clock where no clock is shared by processes:
// histories are right only while nobody sets it.
func monotonic() int64 { return time.Now().UnixNano() }

func childAttributes() *syscall.SysProcAttr   { return &syscall.SysProcAttr{Setpgid: true} }
func networkAttributes() *syscall.SysProcAttr { return childAttributes() }
func routerAttributes() *syscall.SysProcAttr  { return childAttributes() }

func enterNetwork(string, []string, []string) error {
	return errors.New("network namespaces are known on Linux only")
}

func openTun(string) (*os.File, error) { return nil, errors.New("known on Linux only") }

const namespacesKnown = false
