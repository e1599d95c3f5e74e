//go:build plant_uncapped_tick

package fsm

// uncappedTick takes a stamp however far ahead of the clock.
func (plants) uncappedTick() bool { return true }
