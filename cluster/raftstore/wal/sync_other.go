//go:build !linux

package wal

import "os"

// sync puts a file's content and its size onto the disk.
func (l *Log) sync(file *os.File) error { return l.syncWhole(file) }
