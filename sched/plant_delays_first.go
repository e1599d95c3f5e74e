//go:build plant_delays_first

package sched

// delaysFirst lets a job pass that uses the first job's room and ends after it is needed.
func (plants) delaysFirst() bool { return true }
