//go:build plant_fencing_off

package fsm

// fencingOff lets any session and any worker act on a lease.
func (plants) fencingOff() bool { return true }
