//go:build plant_uncapped_tick

package cluster

// uncappedTick stamps however far ahead of what has applied.
func (plants) uncappedTick() bool { return true }
