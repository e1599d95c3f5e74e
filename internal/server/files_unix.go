//go:build unix

package server

import (
	"math"
	"syscall"
)

// openFiles returns how many files this process may open.
func openFiles() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxUint64 // unknown
	}
	return uint64(limit.Cur) //nolint:unconvert // int64 on some systems
}
