//go:build plant_uncapped_tick

package cluster

// uncappedTick stamps without a limit ahead of the applied clock.
func (plants) uncappedTick() bool { return true }
