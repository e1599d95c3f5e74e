package main

import (
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// timerSlack is by how much the kernel may wake a server's threads late. While anything runs, a thread of Go's runtime
// looks every 20 µs whether a system call takes long, fsync for one: with Linux' slack of 50 µs a third of a quiet
// server's time. Nothing that a server waits for by the clock is due to less than a millisecond.
const timerSlack = 2 * time.Millisecond

// sleepLong gives this process that slack. A thread has the slack of the one that made it, and the runtime makes its own
// before main: so the program begins anew, as the same process. Where that cannot be, or the slack is as large already,
// sleepLong returns, and all goes on.
func sleepLong() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if slackIsLong() || unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(timerSlack), 0, 0, 0) != nil || !slackIsLong() {
		return
	}
	if binary, err := os.Executable(); err == nil {
		_ = syscall.Exec(binary, os.Args, os.Environ()) // returns only where it failed: then everything is as before
	}
}

// slackIsLong reports whether this thread has the slack. Threads of real-time classes have none, whatever is set.
func slackIsLong() bool {
	ns, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	return err == nil && time.Duration(ns) >= timerSlack
}
