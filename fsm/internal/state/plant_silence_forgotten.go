//go:build plant_silence_forgotten

package state

// silenceForgotten leaves the leases of a silent worker open to their deadlines.
func (plants) silenceForgotten() bool { return true }
