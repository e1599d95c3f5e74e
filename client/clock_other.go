//go:build !linux

package client

import "time"

var processStart = time.Now()

// sinceBoot is the local time that leases are judged by. Where there is no
// clock that counts suspended time, the monotonic one must do (SPEC §3.5).
func sinceBoot() time.Duration { return time.Since(processStart) }
