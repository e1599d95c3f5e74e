//go:build plant_child_early

package fsm

// childEarly releases a node once the first of its parents completes.
func (plants) childEarly(f *flow, number uint32) bool {
	return int(f.waiting[number]) < len(f.rows[number].Parents)
}
