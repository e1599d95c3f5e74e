//go:build plant_fires_twice

package schedules

// firesTwice accepts a Fire from a moment that is already decided, as another leader sends it.
func (plants) firesTwice() bool { return true }
