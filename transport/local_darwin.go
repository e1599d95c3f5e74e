package transport

import (
	"net"

	"golang.org/x/sys/unix"
)

// peerUID returns the account at the other end of a connection on this machine.
func peerUID(conn *net.UnixConn) (uid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var who *unix.Xucred
	if failed := raw.Control(func(fd uintptr) {
		who, err = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	}); failed != nil {
		return 0, failed
	}
	if err != nil {
		return 0, err
	}
	return int(who.Uid), nil
}
