package millis

import (
	"math"
	"testing"
	"time"
)

// TestMillis checks that values of the wire survive the round trip, or are limited to the longest Duration, and that
// only 0 becomes 0, which means none.
func TestMillis(t *testing.T) {
	t.Parallel()
	for _, ms := range []int64{0, 1, -1, 5_000, -5_000, 1 << 43, -1 << 43} {
		if d := Duration(ms); Of(d) != ms || d != time.Duration(ms)*time.Millisecond {
			t.Errorf("%d ms become %s", ms, d)
		}
	}
	if d := Duration(math.MaxInt64); d < 292*365*24*time.Hour || Of(d) != d.Milliseconds() {
		t.Errorf("too many become %s", d)
	}
	if d := Duration(math.MinInt64); d > -292*365*24*time.Hour || Of(d) != d.Milliseconds() {
		t.Errorf("too few become %s", d)
	}
	for d, want := range map[time.Duration]int64{1: 1, -1: -1, time.Millisecond + 1: 2, -time.Millisecond - 1: -2,
		math.MaxInt64: 9_223_372_036_855} {
		if got := Of(d); got != want {
			t.Errorf("%d ns are %d ms, want %d", d, got, want)
		}
	}
}

// TestMicros checks that values of the wire survive the round trip, or are limited to the longest Duration.
func TestMicros(t *testing.T) {
	t.Parallel()
	for us, want := range map[int64]time.Duration{0: 0, 1: time.Microsecond, -5: -5 * time.Microsecond,
		math.MaxInt64: math.MaxInt64 / 1000 * 1000} {
		if got := Micros(us); got != want {
			t.Errorf("%d µs become %s, want %s", us, got, want)
		}
	}
}

// TestGiven checks that nil stays nil, and that 0 is not nil.
func TestGiven(t *testing.T) {
	t.Parallel()
	if Given(nil) != nil || Taken(nil) != nil {
		t.Error("nil does not stay nil")
	}
	for _, ms := range []int64{0, 5, -5} {
		if d := Taken(&ms); d == nil || *Given(d) != ms {
			t.Errorf("%d ms become %v", ms, d)
		}
	}
}
