//go:build plant_map_range

package fsm

// mapRange fires what is due in the order of a map.
func (groundPlants) mapRange() bool { return true }

func (groundPlants) anyDue(s timerSet, now int64) (timer, bool) {
	due := make(map[timer]bool)
	s.Ascend(timer{}, func(t timer) bool {
		due[t] = t.due <= now
		return t.due <= now
	})
	for t, is := range due {
		if is {
			return t, true
		}
	}
	return timer{}, false
}
