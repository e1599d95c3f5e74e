//go:build plant_fires_twice

package fsm

// firesTwice takes a Fire from a moment that is decided already, as another leader sends it.
func (plants) firesTwice() bool { return true }
