//go:build plant_turns_twice

package fsm

// turnsTwice begins a budget's period again for each leader that asks.
func (plants) turnsTwice() bool { return true }
