package check

import (
	"golang.org/x/sys/unix"
)

// Monotonic is the host's monotonic clock in nanoseconds, the same for all
// processes.
func Monotonic() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // never fails for this clock
	return ts.Nano()
}
