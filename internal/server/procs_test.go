package server

import (
	"os"
	"runtime"
	"testing"
)

func TestProcs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		found int
		set   string
		want  int
	}{{1, "", 3}, {2, "", 4}, {64, "", 66}, {2, "2", 2}, {8, "8", 8}} {
		if got := procs(c.found, c.set); got != c.want {
			t.Errorf("%d processors, GOMAXPROCS %q: %d run at a time, want %d", c.found, c.set, got, c.want)
		}
	}
}

// TestRoomForDisks is not parallel: it changes the whole process.
func TestRoomForDisks(t *testing.T) {
	if os.Getenv("GOMAXPROCS") != "" {
		t.Skip("GOMAXPROCS is set")
	}
	roomForDisks()
	now := runtime.GOMAXPROCS(0)
	if roomForDisks(); runtime.GOMAXPROCS(0) != now || now <= diskProcs {
		t.Errorf("%d run in parallel after the second server of a process, %d after the first", runtime.GOMAXPROCS(0),
			now)
	}
}
