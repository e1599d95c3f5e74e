//go:build !linux

package cluster

import "time"

var processStart = time.Now()

// sinceBoot is the monotonic time that leaders stamp by. Where there is no
// CLOCK_BOOTTIME, Go's monotonic clock has to do (SPEC §3.5).
func sinceBoot() time.Duration { return time.Since(processStart) }
