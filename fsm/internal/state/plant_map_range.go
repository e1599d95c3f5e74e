//go:build plant_map_range

package state

// mapRange fires due timers in the order of a map.
func (plants) mapRange() bool { return true }

func (plants) anyDue(s TimerSet, now int64) (Timer, bool) {
	due := make(map[Timer]bool)
	s.Ascend(Timer{}, func(t Timer) bool {
		due[t] = t.Due <= now
		return t.Due <= now
	})
	for t, is := range due {
		if is {
			return t, true
		}
	}
	return Timer{}, false
}
