//go:build plant_key_not_in_snapshot

package keys

// keyNotInSnapshot restarts the counts of keys' leases at 0 after a restore.
func (plants) keyNotInSnapshot() bool { return true }
