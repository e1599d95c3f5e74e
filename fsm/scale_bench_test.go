package fsm

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/rotasched/rota"
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

// BenchmarkFirstPage is the first page of a list over a million live jobs: of all, of a filter that
// fits the last that a page looks at alone, and of one that none fits.
func BenchmarkFirstPage(b *testing.B) {
	const n = 1_000_000
	m := fill(b, n)
	_, far, _ := m.Numbers.Below(m.Header.JobSeq - maxScan + 2)
	for name, where := range map[string]string{"all": "", "far": "id=" + string(far.Spec.ID), "none": "label.team=film", "none by type": "type=x"} {
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
