package wal

import (
	"errors"
	"os"
)

// syncWhole puts a file with all that the system knows of it onto the disk.
func (l *Log) syncWhole(file *os.File) error {
	if l.opts.NoSync {
		return nil
	}
	return file.Sync()
}

// syncDir puts the names of the files onto the disk.
func (l *Log) syncDir() error {
	if l.opts.NoSync {
		return nil
	}
	return syncDir(l.dir)
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
