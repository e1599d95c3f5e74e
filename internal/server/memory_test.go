package server

import (
	"runtime"
	"testing"
	"time"
)

func TestGCPercent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		live, stateMost uint64
		want            int
	}{{0, 1 << 30, gcPercentMost}, {30 << 20, 1 << 30, gcPercentMost}, {100 << 20, 1 << 30, 250}, {200 << 20, 1 << 30, 150},
		{600 << 20, 1 << 30, 150}, {1 << 30, 1 << 30, 100}, {1<<30 + 1, 1 << 30, 95}, {2 << 30, 1 << 30, 50}, {6 << 30, 8 << 30, 15},
		{10 << 30, 8 << 30, 10}, {100 << 30, 8 << 30, gcPercentLeast},
		{100 << 20, 64 << 20, 100}, {256 << 20, 64 << 20, 50}, {32 << 20, 64 << 20, 100}} {
		if got := gcPercent(c.live, c.stateMost); got != c.want {
			t.Errorf("%d bytes live of %d: %d %%, want %d", c.live, c.stateMost, got, c.want)
		}
	}
}

// TestAfterCollections: each collection is heard of, until nobody listens.
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

// await collects until somebody takes the answer.
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
	t.Fatal("no collection was heard of")
}
