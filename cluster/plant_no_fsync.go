//go:build plant_no_fsync

package cluster

// noFsync never asks the disk to keep what was written.
func (storePlants) noFsync() bool { return true }
