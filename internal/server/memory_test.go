package server

import "testing"

func TestGCPercent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		live uint64
		want int
	}{{0, gcPercentMost}, {30 << 20, gcPercentMost}, {100 << 20, 250}, {200 << 20, 150}, {600 << 20, 150}, {1 << 30, 100},
		{1<<30 + 1, 95}, {2 << 30, 50}, {6 << 30, 15}, {10 << 30, 10}, {100 << 30, gcPercentLeast}} {
		if got := gcPercent(c.live); got != c.want {
			t.Errorf("%d bytes live: %d %%, want %d", c.live, got, c.want)
		}
	}
}
