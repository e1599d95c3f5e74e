package wal

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// sync puts a file's content and its size onto the disk.
func (l *Log) sync(file *os.File) error {
	if l.opts.NoSync {
		return nil
	}
	for {
		err := unix.Fdatasync(int(file.Fd()))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("sync %s: %w", file.Name(), err)
		}
		return nil
	}
}
