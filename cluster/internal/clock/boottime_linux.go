package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// SinceBoot returns the monotonic time that leaders stamp with; it includes the time that the machine was suspended
// (SPEC §3.5).
func SinceBoot() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic("cluster: CLOCK_BOOTTIME cannot be read: " + err.Error())
	}
	return time.Duration(t.Nano())
}
