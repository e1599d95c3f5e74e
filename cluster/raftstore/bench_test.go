package raftstore

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// BenchmarkStoreAppend appends entries one by one as the leader does, with every decorator and every sync: the time
// that a single entry takes on one node.
func BenchmarkStoreAppend(b *testing.B) {
	for _, size := range []int{1 << 10, 32 << 10} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			stores, err := Open(b.TempDir(), Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer stores.Close()
			data := make([]byte, size)
			for i := range data {
				data[i] = byte(i * 7)
			}
			took := make([]time.Duration, 0, b.N)
			wrote := writtenBytes(b)
			index := uint64(0)
			b.ReportAllocs()
			for b.Loop() {
				index++
				start := time.Now()
				entry := &raft.Log{Index: index, Term: 1, Type: raft.LogCommand, Data: data}
				if err := stores.Log.StoreLogs([]*raft.Log{entry}); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(writtenBytes(b)-wrote)/float64(len(took)), "written/op")
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*9/10].Microseconds()), "p90-µs")
		})
	}
}
