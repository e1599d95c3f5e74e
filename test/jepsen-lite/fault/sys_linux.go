package fault

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rotasched/rota/test/rig"
)

// networkAttributes give a child a network of its own, besides.
func networkAttributes() *syscall.SysProcAttr {
	a := rig.Attributes()
	a.Cloneflags = syscall.CLONE_NEWNET
	return a
}

// routerAttributes make the child that plays the router: the super-user of a
// network, and of nothing else where the caller is not the super-user.
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

// openTun makes a network device whose packets this program reads and writes. It
// is polled, so that closing it ends a read.
func openTun(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/net/tun: %w", err)
	}
	request, err := unix.NewIfreq(name)
	if err == nil {
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("make the device %s: %w", name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

const namespacesKnown = true
