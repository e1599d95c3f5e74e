package snapshot

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"testing"

	"github.com/rotasched/rota"
)

// A million records of about 300 bytes like a waiting job's: an id and a hash
// that are noise, names out of short lists, clocks that grow, a payload of JSON.
const benchRecords = 1_000_000

// jobs is a source that yields its rows again and again; they are many more than
// one block holds, so that no block finds a row twice.
type jobs struct {
	info    rota.SnapshotInfo
	rows    [][]byte
	records int
	bytes   int64
}

func newJobs() *jobs {
	j := &jobs{info: newState().info, records: benchRecords}
	chance := noise(11, 64*20_000)
	for i := range 20_000 {
		c := chance[64*i:]
		n := binary.LittleEndian.Uint64(c)
		row := fmt.Appendf(nil, "\x0a\x1a01K%x\x12\x08queue-%02d\x1a\x0atenant-%03d\x22\x0fimage.resize.v%d",
			c[8:20], n%20, n/20%1000, n/20_000%9)
		for k := range 6 {
			row = binary.AppendUvarint(append(row, byte(0x28+8*k)), uint64(i*7+k)*(n%1000+1))
		}
		row = append(append(row, 0x62, 32), c[20:52]...)
		row = fmt.Appendf(row, `{"source":"s3://bucket-%d/incoming/%x.jpg","width":%d,"height":%d,"quality":%d,`+
			`"callback":"https://api.example.com/v1/done/%x","trace":"%x"}`,
			n%7, c[52:56], n%4096, n/7%4096, n%100, c[56:60], c[60:64])
		j.rows = append(j.rows, row)
	}
	for i := range benchRecords {
		j.bytes += int64(len(j.rows[i%len(j.rows)]))
	}
	return j
}

func (j *jobs) Info() rota.SnapshotInfo { return j.info }

func (j *jobs) Records(yield func(byte, []byte) error) error {
	for i := range j.records {
		if err := yield(1, j.rows[i%len(j.rows)]); err != nil {
			return err
		}
	}
	return nil
}

func BenchmarkWrite(b *testing.B) {
	src := newJobs()
	b.SetBytes(src.bytes)
	b.ReportAllocs()
	var size int64
	for b.Loop() {
		info, err := Write(io.Discard, src)
		if err != nil {
			b.Fatal(err)
		}
		size = info.Bytes
	}
	b.ReportMetric(float64(src.bytes)/benchRecords, "B/record")
	b.ReportMetric(float64(size)/benchRecords, "file-B/record")
}

// nothing is a sink that keeps nothing, so that the reader alone is measured.
type nothing struct{ records int }

func (n *nothing) Add(byte, []byte) error { n.records++; return nil }
func (n *nothing) Finish() (int, error)   { return n.records, nil }

func BenchmarkRead(b *testing.B) {
	var file bytes.Buffer
	src := newJobs()
	if _, err := Write(&file, src); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(src.bytes)
	b.ReportAllocs()
	for b.Loop() {
		n, _, err := Read(bytes.NewReader(file.Bytes()),
			func(rota.SnapshotInfo) (Sink[int], error) { return &nothing{}, nil })
		if err != nil || n != benchRecords {
			b.Fatal(n, err)
		}
	}
}

// BenchmarkArchivePut writes one flush of 10,000 records, synced to disk, onto an
// archive that has some already.
func BenchmarkArchivePut(b *testing.B) {
	a := newArchive(b)
	a.db.NoSync = false
	e := newEndings(b)
	for i := range 20_000 {
		e.end(fmt.Sprintf("01K%023d", i), []byte(`{"source":"s3://bucket/incoming/4711.jpg","width":640,"height":480}`))
	}
	all := e.entries()
	put(b, a, all[:10_000])
	for b.Loop() {
		put(b, a, all[10_000:])
		b.StopTimer()
		seqs := make([]uint64, 10_000)
		for i := range seqs {
			seqs[i] = all[10_000+i].Seq
		}
		if err := a.Drop(seqs); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	s := a.Stats()
	b.ReportMetric(float64(s.Bytes)/float64(max(1, s.Records)), "B/record")
}

func BenchmarkArchiveGet(b *testing.B) {
	a := newArchive(b)
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

// BenchmarkArchiveState is what a submission beyond the tombstones costs.
func BenchmarkArchiveState(b *testing.B) {
	a := newArchive(b)
	put(b, a, jobsEnded(b, 1000))
	b.ReportAllocs()
	for b.Loop() {
		a.State("j500")
		a.State("nothing")
	}
}
