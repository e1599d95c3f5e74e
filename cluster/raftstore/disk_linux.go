package raftstore

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// birthOf returns the properties that distinguish a directory or file from every copy: the inode, and its creation time
// where the file system stores one (0 otherwise). The inode alone is not enough: ext4 assigns a freed number to the
// next directory, so "remove it and copy the backup there" often yields the same inode. No tool can set the creation
// time.
func birthOf(path string) (inode uint64, bornNanos int64, err error) {
	var st unix.Statx_t
	err = unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_SYNC_AS_STAT, unix.STATX_INO|unix.STATX_BTIME, &st)
	if err != nil {
		return 0, 0, fmt.Errorf("stat %s: %w", path, err)
	}
	if st.Mask&unix.STATX_BTIME != 0 {
		bornNanos = st.Btime.Sec*1_000_000_000 + int64(st.Btime.Nsec)
	}
	return st.Ino, bornNanos, nil
}
