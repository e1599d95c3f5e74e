package client

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot is the local time that leases are judged by: monotonic, and it
// counts the time that the machine was suspended (SPEC §3.5).
func sinceBoot() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic("client: CLOCK_BOOTTIME cannot be read: " + err.Error())
	}
	return time.Duration(t.Nano())
}
