//go:build unix && !linux

package raftstore

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// birthOf returns the inode; the creation time is read on Linux only.
func birthOf(path string) (inode uint64, bornNanos int64, err error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, 0, fmt.Errorf("stat %s: %w", path, err)
	}
	return uint64(st.Ino), 0, nil
}
