package fsm

import (
	"fmt"
	"runtime"
	"testing"
)

// BenchmarkPendingMemory is what a pending job of 256 bytes takes of the heap, as
// bytes_per_job, with all that is filed of it. An operation is one submission.
func BenchmarkPendingMemory(b *testing.B) {
	for _, n := range []int{1_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint("pending=", n), func(b *testing.B) {
			for b.Loop() {
				before := liveHeap()
				m := fill(b, n)
				b.ReportMetric(float64(liveHeap()-before)/float64(n), "bytes_per_job")
				runtime.KeepAlive(m)
			}
		})
	}
}

// liveHeap is what lives on the heap once garbage is gone.
func liveHeap() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}
