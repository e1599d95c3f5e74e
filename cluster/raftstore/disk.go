package raftstore

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// FreeSpace returns how many bytes an unprivileged process may still write on the file system of path, and its total
// size in bytes. The disk watermarks use it: a full disk ends the process, so work is rejected before that.
func FreeSpace(path string) (free, total uint64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, 0, fmt.Errorf("read free space of %s: %w", path, err)
	}
	size := uint64(st.Bsize)
	return uint64(st.Bavail) * size, uint64(st.Blocks) * size, nil
}

// replaceFile writes data to path atomically: after a crash the file holds the complete old or the complete new
// content. It writes a temporary file, syncs it, renames it and syncs the directory.
func replaceFile(path string, data []byte) error {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*.tmp") // mode 0600
	if err != nil {
		return fmt.Errorf("create temporary file: %w", err)
	}
	defer os.Remove(temp.Name()) // fails after the rename, as intended
	if _, err := temp.Write(data); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), temp.Close())
	}
	if err := temp.Sync(); err != nil {
		return errors.Join(fmt.Errorf("sync %s: %w", path, err), temp.Close())
	}
	if err := temp.Close(); err != nil {
		return fmt.Errorf("close %s: %w", path, err)
	}
	if err := os.Rename(temp.Name(), path); err != nil {
		return fmt.Errorf("rename to %s: %w", path, err)
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes the names in a directory durable.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open directory: %w", err)
	}
	if err := dir.Sync(); err != nil {
		return errors.Join(fmt.Errorf("sync directory %s: %w", path, err), dir.Close())
	}
	return dir.Close()
}

// lockFile takes an exclusive lock, which the kernel releases when the process ends, and reports whether it was free.
func lockFile(file *os.File) (free bool, err error) { return flock(file, unix.LOCK_EX) }

// flock takes an exclusive or a shared lock.
func flock(file *os.File, kind int) (free bool, err error) {
	for {
		err = unix.Flock(int(file.Fd()), kind|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	return true, nil
}

// readSmallFile reads a whole file whose size must not exceed most bytes.
func readSmallFile(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return data, err
}
