package fault

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rotasched/rota/test/rig"
)

// networkAttributes also give a child a separate network.
func networkAttributes() *syscall.SysProcAttr {
	a := rig.Attributes()
	a.Cloneflags = syscall.CLONE_NEWNET
	return a
}

// routerAttributes make the child that plays the router: the super-user of a network, and of nothing else if the caller
// is not the super-user.
func routerAttributes() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGTERM}
	if os.Geteuid() != 0 {
		a.Cloneflags |= syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return a
}

// enterNetwork replaces this process by a program in another process's network.
func enterNetwork(path string, argv, environ []string) error {
	runtime.LockOSThread() // a network belongs to a thread until exec leaves only this one
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter network %s: %w", path, err)
	}
	return syscall.Exec(argv[0], argv, environ)
}

const namespacesKnown = true
