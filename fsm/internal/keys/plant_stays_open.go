//go:build plant_stays_open

package keys

// staysOpen never lets an open key probe.
func (plants) staysOpen() bool { return true }
