//go:build plant_dedupe_not_in_snapshot

package state

// DedupeNotInSnapshot leaves the ids of ended jobs out of snapshots, and out of the digest, which would reveal it.
func (plants) DedupeNotInSnapshot() bool { return true }
