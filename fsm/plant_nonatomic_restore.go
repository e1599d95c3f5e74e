//go:build plant_nonatomic_restore

package fsm

// Unfinished returns the machine before anything in it is verified.
func (l *Loader) Unfinished() *Machine { return l.m }
