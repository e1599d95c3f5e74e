package server

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// minGcRoom is how much garbage a server may hold in addition to live data. At the runtime's own 100 % a small
	// heap was collected many times a second, some 8 % of a job's CPU.
	minGcRoom = 256 << 20
	// gcRoomOfState times the limit on the cluster's rows is a bound, too: an operator who sets that limit well below
	// the default runs small nodes, and means the whole process.
	gcRoomOfState = 2
	// maxGcRoom is the maximum of garbage if the machine has little memory, or an unknown amount: at 100 % a state of
	// many gigabytes took twice its size, which decides how many pending jobs a machine has room for.
	maxGcRoom = 1 << 30
	// gcRoomShare is the part of the memory left over by live data that garbage may use even if that is more. The rest
	// is for the page cache, and for other processes.
	gcRoomShare = 4
	// maxGcPercent bounds the same for the smallest heaps, minGcPercent for the largest: marking all live data takes
	// the same time however little garbage it finds.
	maxGcPercent, minGcPercent = 400, 10
	// startLeaves is the largest heap that is collected once the server has started. More than half of an empty node's
	// heap is garbage of its start. A larger heap takes time to collect while the node catches up, and needs the memory
	// again.
	startLeaves = 64 << 20
)

// tuneGC lets garbage grow to one and a half times the live data before it is collected, but to minGcRoom at least,
// and at most to maxGcRoom or the share of machine's memory given by gcRoomShare. If gcRoomOfState times maxState is
// less than minGcRoom, that bounds it, and so does the live data. With the runtime's own measure, as much garbage as
// live data, marking took 16 % of a loaded server's CPU once it remembered 300,000 ended jobs. A limit on all memory
// was rejected, because the collector would never rest once the state is larger. If GOGC is set, it is left alone.
// machine is how many bytes the process may use, 0 if unknown.
func tuneGC(ctx context.Context, maxState func() int64, machine uint64) {
	if os.Getenv("GOGC") != "" {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	now := 0
	look := func() bool {
		metrics.Read(live)
		if want := gcPercent(live[0].Value.Uint64(), uint64(max(maxState(), 0)), machine); want != now {
			debug.SetGCPercent(want)
			now = want
		}
		return ctx.Err() == nil
	}
	if look() {
		afterCollections(look)
	}
}

// afterCollections calls look after each collection, the only time when live data changes, until it returns false.
func afterCollections(look func() bool) {
	runtime.AddCleanup(new(collected), func(func() bool) {
		if look() {
			afterCollections(look)
		}
	}, look)
}

// collected is an object that becomes garbage at once, too large for the allocator to pack it with others.
type collected [64]byte

// returnMemory collects a small heap and returns the free memory to the system.
func returnMemory() {
	size := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	if metrics.Read(size); size[0].Value.Uint64() <= startLeaves {
		debug.FreeOSMemory()
	}
}

// gcPercent returns the room for garbage in percent of live data, in steps so that it seldom changes.
func gcPercent(live, maxState, machine uint64) int {
	left := machine - min(machine, live)
	room := min(max(live+live/2, minGcRoom), max(maxGcRoom, left/gcRoomShare))
	if small := gcRoomOfState * maxState; small < minGcRoom {
		room = min(room, small, live) // the state may double until the next look
	}
	percent := room * 100 / max(live, 1)
	if percent >= 100 {
		return int(min(maxGcPercent, percent/50*50))
	}
	return int(max(minGcPercent, percent/5*5))
}
