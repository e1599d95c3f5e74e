package snapshot

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"testing"

	"github.com/rotasched/rota"
)

// A million records of about 300 bytes like those of pending jobs: random ids and hashes, names from short lists,
// growing clocks, a JSON payload.
const benchRecords = 1_000_000

// jobs is a source that repeats its rows; there are many more of them than one block holds, so that no block has a row
// twice.
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

// nothing is a sink that discards all records, so that only the reader is measured.
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
