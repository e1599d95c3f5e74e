package server

import "testing"

func TestGCPercent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		live, stateMost uint64
		want            int
	}{{0, 1 << 30, gcPercentMost}, {30 << 20, 1 << 30, gcPercentMost}, {100 << 20, 1 << 30, 250}, {200 << 20, 1 << 30, 150},
		{600 << 20, 1 << 30, 150}, {1 << 30, 1 << 30, 100}, {1<<30 + 1, 1 << 30, 95}, {2 << 30, 1 << 30, 50}, {6 << 30, 8 << 30, 15},
		{10 << 30, 8 << 30, 10}, {100 << 30, 8 << 30, gcPercentLeast},
		{100 << 20, 64 << 20, 100}, {256 << 20, 64 << 20, 50}, {32 << 20, 64 << 20, 100}} {
		if got := gcPercent(c.live, c.stateMost); got != c.want {
			t.Errorf("%d bytes live of %d: %d %%, want %d", c.live, c.stateMost, got, c.want)
		}
	}
}
