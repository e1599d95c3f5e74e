//go:build !linux

package client

import "time"

var processStart = time.Now()

// sinceBoot returns the local time that leases are judged by. Where no clock counts suspended time, the monotonic clock
// is used (SPEC §3.5).
func sinceBoot() time.Duration { return time.Since(processStart) }
