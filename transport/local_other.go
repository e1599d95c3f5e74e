//go:build !linux && !darwin

package transport

import (
	"errors"
	"net"
)

// peerUID fails: this system has no known way to get the account.
func peerUID(*net.UnixConn) (int, error) { return 0, errors.ErrUnsupported }
