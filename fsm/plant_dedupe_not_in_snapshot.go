//go:build plant_dedupe_not_in_snapshot

package fsm

// dedupeNotInSnapshot leaves the ids of ended jobs out of snapshots, and out of the digest, which would tell.
func (groundPlants) dedupeNotInSnapshot() bool { return true }
