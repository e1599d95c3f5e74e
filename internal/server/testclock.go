//go:build testclock

package server

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/rotasched/rota/cluster"
)

// testClockKey names a file that moves this process's wall clock: only in a build for tests of faults, where the
// machine's clock cannot be set for one process. Monotonic time and timers stay true.
const testClockKey = "ROTA_TEST_CLOCK"

// testClockFresh is how long the file's content is used without reading it again.
const testClockFresh = 50 * time.Millisecond

// testDeadKey sets how long a voter is silent before it counts as dead: a test of faults cannot wait ten minutes.
const testDeadKey = "ROTA_TEST_DEAD_AFTER"

// world is the real one except for the wall clock, if a file is named, and for autopilot's patience, if set.
func world() (w cluster.Environment) {
	if path := os.Getenv(testClockKey); path != "" {
		w.Wall = (&testClock{path: path}).now
	}
	if after, err := time.ParseDuration(os.Getenv(testDeadKey)); err == nil {
		w.DeadAfter = after
	}
	return w
}

// testClock is a wall clock that is wrong by what a file sets.
type testClock struct {
	path   string
	mu     sync.Mutex
	looked time.Time
	shifts []testShift
}

// testShift is a line of the file: milliseconds that the clock is ahead, parts in a million by which it is fast since a
// moment in true Unix milliseconds. All lines of the file add up.
type testShift struct{ ahead, fast, since int64 }

func (c *testClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.looked.IsZero() || now.Sub(c.looked) >= testClockFresh {
		c.looked = now
		c.look()
	}
	wall := now.UnixMilli()
	for _, s := range c.shifts {
		wall += s.ahead + (now.UnixMilli()-s.since)*s.fast/1_000_000
	}
	return time.UnixMilli(wall)
}

// look reads the file. Without a file the clock is right; a file that cannot be read completely changes nothing.
func (c *testClock) look() {
	text, err := os.ReadFile(c.path)
	if os.IsNotExist(err) {
		c.shifts = nil
		return
	}
	if err != nil {
		return
	}
	var shifts []testShift
	for _, row := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if row == "" {
			continue
		}
		var s testShift
		if n, err := fmt.Sscanf(row, "%d %d %d", &s.ahead, &s.fast, &s.since); err != nil || n != 3 {
			return
		}
		shifts = append(shifts, s)
	}
	c.shifts = shifts
}
