package millis

import (
	"math"
	"time"
)

// Duration returns ms milliseconds, at most the longest Duration.
func Duration(ms int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	return time.Duration(max(-most, min(ms, most))) * time.Millisecond
}

// Micros returns us microseconds, at most the longest Duration.
func Micros(us int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Microsecond)
	return time.Duration(max(-most, min(us, most))) * time.Microsecond
}

// Of returns a duration in milliseconds, rounded away from zero, because 0 means none and less than a millisecond must
// not become 0.
func Of(d time.Duration) int64 {
	ms := d.Milliseconds()
	switch rest := d - Duration(ms); {
	case rest > 0:
		ms++
	case rest < 0:
		ms--
	}
	return ms
}

// Given returns Of(*d), and nil for nil.
func Given(d *time.Duration) *int64 {
	if d == nil {
		return nil
	}
	ms := Of(*d)
	return &ms
}

// Taken returns Duration(*ms), and nil for nil.
func Taken(ms *int64) *time.Duration {
	if ms == nil {
		return nil
	}
	d := Duration(*ms)
	return &d
}
