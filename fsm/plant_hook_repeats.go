//go:build plant_hook_repeats

package fsm

// hookRepeats takes a stretch of events for a webhook that was decided already, as another leader
// sends it.
func (plants) hookRepeats() bool { return true }
