package sim

import "math/rand/v2"

// wallLeap is how often the nodes' wall clocks leap.
const wallLeap = 20_000

// walls reads the wall clock of every node: up to an hour off, another hour every
// 20 s (in lives with schedules now and then, else up to a second), as operators and broken time servers have it. They may move dates, and
// nothing else. They are drawn apart from the world's chance, so that each seed
// lives the life that it lived before they were there.
func (w *World) walls() []int64 {
	clocks := make([]int64, len(w.nodes))
	for i := range clocks {
		chance := rand.New(rand.NewPCG(w.Seed, uint64(i)<<48|uint64(w.now/wallLeap)))
		off := chance.Int64N(2*3_600_000) - 3_600_000
		if w.Schedules && w.now/wallLeap%4 != 0 { // else no date would be in time
			off /= 3_600
		}
		clocks[i] = startClock + int64(w.now) + off
	}
	return clocks
}
