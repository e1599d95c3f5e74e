//go:build !linux

package clock

import "time"

var processStart = time.Now()

// SinceBoot returns the monotonic time that leaders stamp with. Without CLOCK_BOOTTIME it is Go's monotonic clock
// (SPEC §3.5).
func SinceBoot() time.Duration { return time.Since(processStart) }
