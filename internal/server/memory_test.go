package server

import (
	"runtime"
	"testing"
	"time"
)

func TestGCPercent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		live, maxState, machine uint64
		want                    int
	}{{0, 1 << 30, 0, maxGcPercent}, {30 << 20, 1 << 30, 0, maxGcPercent}, {100 << 20, 1 << 30, 0, 250},
		{200 << 20, 1 << 30, 0, 150},
		{600 << 20, 1 << 30, 0, 150}, {1 << 30, 1 << 30, 0, 100}, {1<<30 + 1, 1 << 30, 0, 95},
		{2 << 30, 1 << 30, 0, 50}, {6 << 30, 8 << 30, 0, 15},
		{10 << 30, 8 << 30, 0, 10}, {100 << 30, 8 << 30, 0, minGcPercent},
		{100 << 20, 64 << 20, 0, 100}, {256 << 20, 64 << 20, 0, 50}, {32 << 20, 64 << 20, 0, 100},
		{100 << 20, 1 << 30, 24 << 30, 250}, {1 << 30, 1 << 30, 4 << 30, 100}, {1 << 30, 1 << 30, 24 << 30, 150},
		{6 << 30, 8 << 30, 8 << 30, 15},
		{6 << 30, 8 << 30, 24 << 30, 75}, {20 << 30, 8 << 30, 24 << 30, minGcPercent},
		{30 << 30, 8 << 30, 24 << 30, minGcPercent}} {
		if got := gcPercent(c.live, c.maxState, c.machine); got != c.want {
			t.Errorf("%d bytes live of %d: %d %%, want %d", c.live, c.maxState, got, c.want)
		}
	}
}

// TestAfterCollections checks that look is called after each collection, until it returns false.
func TestAfterCollections(t *testing.T) {
	t.Parallel()
	heard := make(chan bool)
	afterCollections(func() bool { return <-heard })
	for _, more := range []bool{true, true, false} {
		await(t, heard, more)
	}
	for range 20 {
		runtime.GC()
		select {
		case heard <- true:
			t.Fatal("it listens after its end")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// await runs collections until look has been called.
func await(t *testing.T, heard chan<- bool, more bool) {
	t.Helper()
	for range 1000 {
		runtime.GC()
		select {
		case heard <- more:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Fatal("no collection was reported")
}
