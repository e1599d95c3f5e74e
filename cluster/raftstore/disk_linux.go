package raftstore

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// birthOf returns what distinguishes a directory or file from every copy of it: the
// inode, and the moment of its creation where the file system keeps one (0
// otherwise). The inode alone is not enough: ext4 hands a number that has just
// become free to the next directory made, so "remove it and copy the backup
// there" often yields the former inode. No tool can set the moment of creation.
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
