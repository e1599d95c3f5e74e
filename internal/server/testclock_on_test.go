//go:build testclock

package server

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

const testClockBuilt = true

// TestTestClock moves the wall clock by a file, in fake time.
func TestTestClock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "clock")
	synctest.Test(t, func(t *testing.T) {
		c := &testClock{path: path}
		say := func(format string, args ...any) {
			t.Helper()
			if err := os.WriteFile(path, fmt.Appendf(nil, format, args...), 0o600); err != nil {
				t.Fatal(err)
			}
			time.Sleep(testClockFresh)
		}
		ahead := func(want time.Duration) {
			t.Helper()
			if got := time.Duration(c.now().UnixMilli()-time.Now().UnixMilli()) * time.Millisecond; got != want {
				t.Errorf("the clock is %s ahead, want %s", got, want)
			}
		}
		ahead(0) // no file
		since := time.Now().UnixMilli()
		say("3600000 0 0\n")
		ahead(time.Hour)
		say("-1000 0 0\n5 50000 %d\n", since)
		time.Sleep(10*time.Second - 2*testClockFresh)
		ahead(-995*time.Millisecond + 500*time.Millisecond)
		say("-1000 0")
		ahead(-995*time.Millisecond + 502*time.Millisecond) // torn: as before
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(testClockFresh)
		ahead(0)
	})
}

// TestDeadAfter checks the setting that replaces autopilot's ten minutes in tests of faults.
func TestDeadAfter(t *testing.T) {
	t.Setenv(testDeadKey, "8s")
	if w := world(); w.DeadAfter != 8*time.Second || w.Wall != nil {
		t.Errorf("%+v", w)
	}
}
