//go:build !linux

package cluster

import "time"

var processStart = time.Now()

// sinceBoot returns the monotonic time that leaders stamp with. Without CLOCK_BOOTTIME it is Go's monotonic clock
// (SPEC §3.5).
func sinceBoot() time.Duration { return time.Since(processStart) }
