//go:build plant_same_id_rejoin

package cluster

// sameIDRejoin takes a node for itself by its id alone, though it forgot its votes.
func (plants) sameIDRejoin() bool { return true }
