//go:build plant_nonatomic_restore

package fsm

// Unfinished gives the machine away before anything of it is verified.
func (l *Loader) Unfinished() *Machine { return l.m }
