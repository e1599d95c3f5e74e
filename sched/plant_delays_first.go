//go:build plant_delays_first

package sched

// delaysFirst lets a job overtake that takes the room of the first, and ends after it is needed.
func (plants) delaysFirst() bool { return true }
