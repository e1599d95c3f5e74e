package fsm

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/rotasched/rota"
)

// BenchmarkPendingMemory measures the heap of a pending job of 256 bytes, as bytes_per_job, including all its index
// entries. An operation is one submission.
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

// liveHeap returns the heap in use after garbage collection.
func liveHeap() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// BenchmarkFirstPage measures the first page of a list over a million live jobs: without a filter, with one that only
// matches the last job that a page looks at, and with one that matches none.
func BenchmarkFirstPage(b *testing.B) {
	const n = 1_000_000
	m := fill(b, n)
	_, far, _ := m.Numbers.Below(m.Header.JobSeq - maxScan + 2)
	for name, where := range map[string]string{"all": "", "far": "id=" + string(far.Spec.ID), "none": "label.team=film",
		"none by type": "type=x"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				page, err := m.Jobs().Page(rota.JobFilter{Where: where}, nil)
				if err != nil || name == "far" && len(page.Jobs) != 1 || name == "all" && len(page.Jobs) != 100 {
					b.Fatal(len(page.Jobs), err)
				}
			}
		})
	}
}
