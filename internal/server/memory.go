package server

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// gcRoomLeast is how much garbage a server may hold beside what lives. A small heap
	// was collected many times a second at the runtime's own 100 %, some 8 % of a job's CPU.
	gcRoomLeast = 256 << 20
	// gcRoomOfState times what the cluster's rows may take is a bound, too: who bounds them
	// well below the default runs small nodes, and means the whole process.
	gcRoomOfState = 2
	// gcRoomMost is how much it may hold at most where the machine has little memory, or nobody knows how much: at 100 % a
	// state of many gigabytes took twice its size, which decides how many pending jobs a machine has room for.
	gcRoomMost = 1 << 30
	// gcRoomShare is the part of the memory that what lives leaves over, and garbage may take even if that is more. The rest is for
	// the pages of files, and for other processes.
	gcRoomShare = 4
	// gcPercentMost bounds the same for the smallest heaps, gcPercentLeast for the
	// largest: marking all that lives takes the same time however little it finds.
	gcPercentMost, gcPercentLeast = 400, 10
	// startLeaves is the largest heap that is collected once the server has started. More than half of an empty node's heap is
	// garbage of its start. A larger heap takes time to collect while the node catches up, and needs the memory again.
	startLeaves = 64 << 20
)

// tuneGC lets garbage take one and a half times what lives before it is collected, but gcRoomLeast at least, and at most gcRoomMost
// or the share of machine's memory that gcRoomShare says. Where gcRoomOfState times stateMost is less than
// gcRoomLeast, that bounds it, and so does what lives. With as much as lives, the runtime's own
// measure, marking took 16 % of a loaded server's CPU once it remembered 300,000 ended jobs. A limit on all memory was refused, as the
// collector would never rest once the state is greater. GOGC, where it is set, is left alone. machine is how many bytes the process
// may use, 0 where that is not known.
func tuneGC(ctx context.Context, stateMost func() int64, machine uint64) {
	if os.Getenv("GOGC") != "" {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	now := 0
	look := func() bool {
		metrics.Read(live)
		if want := gcPercent(live[0].Value.Uint64(), uint64(max(stateMost(), 0)), machine); want != now {
			debug.SetGCPercent(want)
			now = want
		}
		return ctx.Err() == nil
	}
	if look() {
		afterCollections(look)
	}
}

// afterCollections calls look after each collection, by which alone what lives changes, until it returns false.
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

// gcPercent is the room for garbage in percent of what lives, in steps so that it seldom
// changes.
func gcPercent(live, stateMost, machine uint64) int {
	left := machine - min(machine, live)
	room := min(max(live+live/2, gcRoomLeast), max(gcRoomMost, left/gcRoomShare))
	if small := gcRoomOfState * stateMost; small < gcRoomLeast {
		room = min(room, small, live) // the state may double until the next look
	}
	percent := room * 100 / max(live, 1)
	if percent >= 100 {
		return int(min(gcPercentMost, percent/50*50))
	}
	return int(max(gcPercentLeast, percent/5*5))
}
