//go:build plant_no_fsync

package raftstore

// noFsync never syncs writes to the disk.
func (plants) noFsync() bool { return true }
