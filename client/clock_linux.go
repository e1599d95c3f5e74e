package client

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot returns the local time that leases are judged by: it is monotonic and counts time during which the machine
// was suspended (SPEC §3.5).
func sinceBoot() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic("client: CLOCK_BOOTTIME cannot be read: " + err.Error())
	}
	return time.Duration(t.Nano())
}
