//go:build plant_turns_twice

package budgets

// turnsTwice begins a budget's period again for each leader that asks.
func (plants) turnsTwice() bool { return true }
