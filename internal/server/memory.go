package server

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// gcRoomLeast is how much garbage a server may hold beside what lives. A small heap
	// was collected many times a second at the runtime's own 100 %, some 8 % of a job's CPU.
	gcRoomLeast = 256 << 20
	// gcRoomOfState times what the cluster's rows may take is a bound, too: who bounds them
	// well below the default runs small nodes, and means the whole process.
	gcRoomOfState = 2
	// gcRoomMost is how much it may hold at most: at 100 % a state of many gigabytes took
	// twice its size, which decides how many pending jobs a machine has room for.
	gcRoomMost = 1 << 30
	// gcPercentMost bounds the same for the smallest heaps, gcPercentLeast for the
	// largest: marking all that lives takes the same time however little it finds.
	gcPercentMost, gcPercentLeast = 400, 10
	// gcEvery is how often the living heap is looked at. A look costs some microseconds; with one in 2 s
	// a burst into an empty server took five times what it left, as small heaps have room for that.
	gcEvery = 100 * time.Millisecond
)

// tuneGC lets garbage take half as much again as lives before it is collected, but
// gcRoomLeast at least and gcRoomMost at most. Where gcRoomOfState times stateMost is less than
// gcRoomLeast, that bounds it, and so does what lives. With as much as lives, the runtime's own
// measure, marking took 16 % of a loaded server's CPU once it remembered 300,000 ended jobs. A limit on all memory was refused, as the
// collector would never rest once the state is greater. GOGC, where it is set, is left alone.
func tuneGC(ctx context.Context, stateMost func() int64) {
	if os.Getenv("GOGC") != "" {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	tick := time.NewTicker(gcEvery)
	defer tick.Stop()
	for now := 0; ; {
		metrics.Read(live)
		if want := gcPercent(live[0].Value.Uint64(), uint64(max(stateMost(), 0))); want != now {
			debug.SetGCPercent(want)
			now = want
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// gcPercent is the room for garbage in percent of what lives, in steps so that it seldom
// changes.
func gcPercent(live, stateMost uint64) int {
	room := min(max(live+live/2, gcRoomLeast), gcRoomMost)
	if small := gcRoomOfState * stateMost; small < gcRoomLeast {
		room = min(room, small, live) // the state may double until the next look
	}
	percent := room * 100 / max(live, 1)
	if percent >= 100 {
		return int(min(gcPercentMost, percent/50*50))
	}
	return int(max(gcPercentLeast, percent/5*5))
}
