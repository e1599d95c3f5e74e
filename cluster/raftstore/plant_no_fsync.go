//go:build plant_no_fsync

package raftstore

// noFsync never asks the disk to keep what was written.
func (plants) noFsync() bool { return true }
