package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/rotasched/rota"
)

// row is a record as the tests keep it.
type row struct {
	kind   byte
	record string
}

// state is the tests' state machine: rows, and a digest over them as a multiset.
type state struct {
	info rota.SnapshotInfo
	rows []row
}

func newState(rows ...row) *state {
	s := &state{rows: rows, info: rota.SnapshotInfo{ClusterID: "blue-7", Incarnation: 2, Index: 4711, Term: 9,
		Clock: 123_456, Date: 1_750_000_000_000, RulesVersion: 3}}
	s.info.Digest = digestOf(rows)
	return s
}

func digestOf(rows []row) (d rota.Digest) {
	for _, r := range rows {
		h := xxh3.HashString128(string(r.kind) + r.record)
		d.Hi, d.Lo = d.Hi+h.Hi, d.Lo+h.Lo
	}
	return d
}

func (s *state) Info() rota.SnapshotInfo { return s.info }

func (s *state) Records(yield func(kind byte, record []byte) error) error {
	for _, r := range s.rows {
		if err := yield(r.kind, []byte(r.record)); err != nil {
			return err
		}
	}
	return nil
}

// sink builds a state, counts its calls, and fails as configured.
type sink struct {
	info          rota.SnapshotInfo
	rows          []row
	finished      int
	addErr        error
	refuseDigests bool
}

func (s *sink) Add(kind byte, record []byte) error {
	if s.addErr != nil && len(s.rows) == 2 {
		return s.addErr
	}
	s.rows = append(s.rows, row{kind, string(record)})
	clear(record) // Bytes lent by the reader must not be used later.
	return nil
}

func (s *sink) Finish() (*state, error) {
	s.finished++
	if got := digestOf(s.rows); got != s.info.Digest || s.refuseDigests {
		return nil, rota.Refusef(rota.KindInvalid, "digest", "digest is %s, %s was written", got, s.info.Digest)
	}
	return &state{info: s.info, rows: s.rows}, nil
}

// load reads b into a new sink and returns the sink too.
func load(b []byte) (*state, rota.SnapshotInfo, *sink, error) {
	k := &sink{}
	s, info, err := Read(bytes.NewReader(b), func(info rota.SnapshotInfo) (Sink[*state], error) {
		k.info = info
		return k, nil
	})
	return s, info, k, err
}

// pack writes s with small blocks, so that a small file has many of them.
func pack(t testing.TB, s *state, blockBytes int) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := write(&b, s, blockBytes); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// small returns a state of every awkward record, about a kilobyte.
func small() *state {
	rows := []row{{0, ""}, {255, "\x00"}, {1, strings.Repeat("job", 90)}}
	for i := range 16 {
		rows = append(rows, row{byte(i % 5), fmt.Sprintf("record %d of worker-%x", i, i*i*i*7919)})
	}
	return newState(rows...)
}

// mustRefuse checks that Read and Inspect refuse b alike and that the sink was not asked for its state, and returns the
// refusal.
func mustRefuse(t testing.TB, b []byte) error {
	t.Helper()
	s, info, k, err := load(b)
	if err == nil || s != nil || info != (rota.SnapshotInfo{}) {
		t.Fatalf("damage was read: state %v, info %+v, error %v", s, info, err)
	}
	if k.finished != 0 {
		t.Fatalf("Finish was called on damage: %v", err)
	}
	_, err2 := Inspect(bytes.NewReader(b))
	if err2 == nil || err2.Error() != err.Error() {
		t.Fatalf("Read and Inspect differ: %v, %v", err, err2)
	}
	if kind := rota.KindOf(err); kind != rota.KindInvalid && kind != rota.KindConflict {
		t.Fatalf("refusal has kind %v: %v", kind, err)
	}
	return err
}

// mustBeDamaged is mustRefuse for bytes that began as a snapshot.
func mustBeDamaged(t testing.TB, b []byte, offset int64, text string) {
	t.Helper()
	err := mustRefuse(t, b)
	var d *DamagedError
	if !errors.As(err, &d) {
		t.Fatalf("no DamagedError in %v", err)
	}
	if !strings.Contains(err.Error(), text) || !strings.Contains(d.Reason, text) {
		t.Fatalf("refusal: got %q, want %q in it", err, text)
	}
	if offset >= 0 && d.Offset != offset {
		t.Fatalf("offset: got %d, want %d: %v", d.Offset, offset, err)
	}
}

// collect receives records without a digest.
func collect(rows *[]row) func(rota.SnapshotInfo) (func(byte, []byte) error, error) {
	return func(rota.SnapshotInfo) (func(byte, []byte) error, error) {
		return func(kind byte, record []byte) error {
			*rows = append(*rows, row{kind, string(record)})
			return nil
		}, nil
	}
}

// TestReadState skips what a later version may add after a state; records of the state's own kinds go to its sink.
func TestReadState(t *testing.T) {
	t.Parallel()
	s := newState(row{1, "a job"}, row{FirstSection - 1, "of a kind to come"})
	s.rows = append(s.rows, row{FirstSection, "of a history"}, row{255, "of a later version"})
	k := &sink{}
	got, info, err := ReadState(bytes.NewReader(pack(t, s, 128)), func(info rota.SnapshotInfo) (Sink[*state], error) {
		k.info = info
		return k, nil
	})
	if err != nil || len(got.rows) != 2 || info.Records != 4 {
		t.Errorf("%+v, %d records, %v", got, info.Records, err)
	}
}
