//go:build plant_key_not_in_snapshot

package fsm

// keyNotInSnapshot counts the leases of keys from nothing after a restore.
func (plants) keyNotInSnapshot() bool { return true }
