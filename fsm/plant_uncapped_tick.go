//go:build plant_uncapped_tick

package fsm

// uncappedTick accepts a stamp however far ahead of the clock it is.
func (plants) uncappedTick() bool { return true }
