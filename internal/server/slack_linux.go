package server

import (
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// timerSlack is by how much the kernel may wake a server's threads late. While anything runs, a thread of Go's runtime
// checks every 20 µs whether a system call takes long, for example fsync: with Linux' slack of 50 µs a third of a quiet
// server's time (DESIGN.md). A server's timers may fire that much later.
const timerSlack = 2 * time.Millisecond

// WakeLate sets that slack for all threads of this process. Call it first in main, before signal.Notify: until then
// signals end the process. A thread inherits the slack of the thread that creates it, and the runtime creates some
// before main, so the program is executed once more in the same process. WakeLate returns if that fails, or if the
// slack is large enough already.
func WakeLate() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if slackIsLong() || unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(timerSlack), 0, 0, 0) != nil || !slackIsLong() {
		return
	}
	if binary, err := os.Executable(); err == nil {
		_ = syscall.Exec(binary, os.Args, os.Environ()) // returns only on failure: then nothing has changed
	}
}

// slackIsLong reports whether this thread has the slack. Threads of real-time classes have none, whatever is set.
func slackIsLong() bool {
	ns, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	return err == nil && time.Duration(ns) >= timerSlack
}
