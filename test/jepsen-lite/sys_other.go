//go:build !linux

package main

import (
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/rotasched/rota/test/rig"
)

// monotonic falls back to the wall clock where no clock is shared by processes:
// histories are right only while nobody sets it.
func monotonic() int64 { return time.Now().UnixNano() }

func networkAttributes() *syscall.SysProcAttr { return rig.Attributes() }
func routerAttributes() *syscall.SysProcAttr  { return rig.Attributes() }

func enterNetwork(string, []string, []string) error {
	return errors.New("network namespaces are known on Linux only")
}

func openTun(string) (*os.File, error) { return nil, errors.New("known on Linux only") }

const namespacesKnown = false
