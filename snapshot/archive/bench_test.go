package archive

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"syscall"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
)

// benchEnded returns many records of about 600 bytes: those of a few jobs, each with different ids and numbers. Ids
// grow, or are random.
func benchEnded(b *testing.B, n int, growing bool) []incoming {
	few := jobsEnded(b, 2)
	body := few[1].Data
	ended, err := fsm.DecodeEnded(body)
	if err != nil {
		b.Fatal(err)
	}
	chance := noise(3, 500+8*n)
	data := append(bytes.Clone(body), chance[:500]...) // only its length counts here
	rows := make([]incoming, n)
	for i := range rows {
		mark := markOf(&ended)
		mark.Seq, mark.ID = uint64(i+1), rota.JobID(fmt.Sprintf("01K%023d", i^3)) // jobs end slightly out of order
		if !growing {
			mark.ID = rota.JobID(fmt.Sprintf("%x-%d", chance[500+8*i:500+8*i+8], i))
		}
		rows[i] = incoming{mark: mark, ended: ended.Job.Finished.Date, data: data}
	}
	return rows
}

// BenchmarkPut fills an archive with 140,000 records in flushes of 7,000, without waiting for the disk: it measures CPU
// time.
func BenchmarkPut(b *testing.B) {
	for _, growing := range []bool{true, false} {
		b.Run(fmt.Sprintf("growing=%v", growing), func(b *testing.B) {
			const n, flush = 140_000, 7_000
			rows := benchEnded(b, n, growing)
			b.ReportAllocs()
			var stats Stats
			var spent time.Duration
			for b.Loop() {
				b.StopTimer()
				a := newJobs(b)
				b.StartTimer()
				spent -= cpuTime(b)
				for at := 0; at < n; at += flush {
					if err := a.put(rows[at:at+flush], nil, 0); err != nil {
						b.Fatal(err)
					}
				}
				spent += cpuTime(b)
				stats = a.Stats()
			}
			b.ReportMetric(float64(stats.Bytes)/n, "B/record")
			b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N)/n, "cpu-ns/job")
		})
	}
}

// BenchmarkEncodeEvents makes chunks of entries like those of a loaded node: three events a job, random ids, names from
// short lists, growing clocks.
func BenchmarkEncodeEvents(b *testing.B) {
	const entries, events = 64, 128
	chance := noise(5, 16*entries*events)
	list := make([]EventEntry, entries)
	for i := range list {
		e := EventEntry{Index: rota.Index(i + 1), Before: uint64(events * i), Count: events}
		copy(e.Chain[:], chance[16*i:])
		for k := range events {
			n := events*i + k
			e.Bytes = fmt.Appendf(e.Bytes,
				"\x0a\x62\x12\x1a01K%x\x1a\x08queue-%02d\x22\x0atenant-%03d\x2a\x0bworker-%04d\x30",
				chance[4*(n/3):4*(n/3)+11], n%20, n%1000, n%4)
			e.Bytes = binary.AppendUvarint(e.Bytes, uint64(1_700_000_000_000+n))
		}
		list[i] = e
	}
	b.ReportAllocs()
	spent, size := -cpuTime(b), 0
	for b.Loop() {
		size = len(EncodeEvents(list))
	}
	b.ReportMetric(float64((spent+cpuTime(b)).Nanoseconds())/float64(b.N)/(entries*events), "cpu-ns/event")
	b.ReportMetric(float64(size)/(entries*events), "B/event")
}

// cpuTime returns the CPU time that this process has used: wall-clock time grows on a busy machine.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Skip(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkGet(b *testing.B) {
	a := newJobs(b)
	e := newEndings(b)
	for i := range 20_000 {
		e.end(fmt.Sprintf("01K%023d", i), []byte(`{"source":"s3://bucket/incoming/4711.jpg","width":640,"height":480}`))
	}
	put(b, a, e.entries())
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i = (i + 7919) % 20_000
		if _, ok, err := a.Get(rota.JobID(fmt.Sprintf("01K%023d", i))); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}

// BenchmarkPrune deletes the maximum of one transaction, of records that are alone and of records in blocks.
func BenchmarkPrune(b *testing.B) {
	for _, flush := range []int{blocksFrom - 1, 1_000} {
		b.Run(fmt.Sprintf("flush=%d", flush), func(b *testing.B) {
			rows := benchEnded(b, pruneAtOnce-1, true)
			for b.Loop() {
				b.StopTimer()
				a := newJobs(b)
				for at := 0; at < len(rows); at += flush {
					if err := a.put(rows[at:min(at+flush, len(rows))], nil, 0); err != nil {
						b.Fatal(err)
					}
				}
				b.StartTimer()
				if n, err := a.Prune(math.MaxInt64, 0); n != len(rows) || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}

// BenchmarkMark measures the cost of a submission beyond the tombstones.
func BenchmarkMark(b *testing.B) {
	a := newJobs(b)
	put(b, a, jobsEnded(b, 1000))
	b.ReportAllocs()
	for b.Loop() {
		a.Mark("j500")
		a.Mark("nothing")
	}
}
