package sim

import "math/rand/v2"

// wallLeap is the interval at which the nodes' wall clocks leap.
const wallLeap = 20_000

// walls reads the wall clock of every node: up to an hour off, a different hour every 20 s (in lives with schedules
// only now and then, else up to a second), as with operators and broken time servers. They may move dates, and nothing
// else. They are drawn from a random source of their own, so that each seed runs the same life as before they existed.
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
