package snapshot

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/rotasched/rota"
)

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	t.Run("any records in blocks of any size", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(r *rapid.T) {
			var rows []row
			for range rapid.IntRange(0, 40).Draw(r, "records") {
				body := strings.Repeat(string(rapid.SliceOfN(rapid.Byte(), 0, 30).Draw(r, "record")),
					rapid.IntRange(1, 20).Draw(r, "times"))
				rows = append(rows, row{rapid.Byte().Draw(r, "kind"), body})
			}
			s := newState(rows...)
			s.info.ClusterID = rota.ClusterID(rapid.StringMatching(`[A-Za-z0-9._:-]{0,64}`).Draw(r, "cluster"))
			s.info.Incarnation = rapid.Uint64().Draw(r, "incarnation")
			s.info.Index = rota.Index(rapid.Uint64().Draw(r, "index"))
			s.info.Term = rapid.Uint64().Draw(r, "term")
			s.info.Clock = rota.Clock(rapid.Int64().Draw(r, "clock"))
			s.info.Date = rota.Date(rapid.Int64().Draw(r, "date"))
			s.info.RulesVersion = rapid.Uint32().Draw(r, "rules")
			var b bytes.Buffer
			wrote, err := write(&b, s, rapid.IntRange(1, 500).Draw(r, "block"))
			if err != nil {
				r.Fatal(err)
			}
			got, read, _, err := load(b.Bytes())
			if err != nil {
				r.Fatal(err)
			}
			want := formatOne(s)
			if got.info != want || !reflect.DeepEqual(got.rows, s.rows) {
				r.Fatalf("got %+v, wanted %+v", got, s)
			}
			want.Records, want.Bytes = uint64(len(rows)), int64(b.Len())
			if inspected, err := Inspect(&b); err != nil || inspected != want || read != want || wrote != want {
				r.Fatalf("wrote %+v, read %+v, inspected %+v (%v)", wrote, read, inspected, err)
			}
		})
	})
	t.Run("records around the block size and the largest", func(t *testing.T) {
		t.Parallel()
		var rows []row
		for _, n := range []int{BlockBytes - 5, BlockBytes - 4, BlockBytes - 3, 0, BlockBytes, MaxRecordBytes, 3} {
			rows = append(rows, row{9, strings.Repeat("x", n)})
		}
		s := newState(rows...)
		got, _, _, err := load(pack(t, s, BlockBytes))
		if err != nil || !reflect.DeepEqual(got.rows, s.rows) {
			t.Fatalf("other records: %v", err)
		}
	})
	t.Run("noise, which compresses not at all", func(t *testing.T) {
		t.Parallel()
		noise := string(noise(7, 3*BlockBytes+17))
		s := newState(row{1, noise[:BlockBytes-4]}, row{1, noise[:1]}, row{1, noise})
		if got, _, _, err := load(pack(t, s, BlockBytes)); err != nil || !reflect.DeepEqual(got.rows, s.rows) {
			t.Fatalf("other records: %v", err)
		}
	})
	t.Run("a reader that comes in drops", func(t *testing.T) {
		t.Parallel()
		b := pack(t, small(), 128)
		for _, r := range []io.Reader{iotest.OneByteReader(bytes.NewReader(b)),
			iotest.HalfReader(bytes.NewReader(b)),
			iotest.DataErrReader(bytes.NewReader(b))} {
			if info, err := Inspect(r); err != nil || info.Bytes != int64(len(b)) {
				t.Fatalf("%+v, %v", info, err)
			}
		}
	})
}

// noise is n bytes without pattern, the same for the same seed.
func noise(seed uint64, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		seed = seed*6364136223846793005 + 1442695040888963407
		b[i] = byte(seed >> 56)
	}
	return b
}

func TestReadKeepsOthersErrors(t *testing.T) {
	t.Parallel()
	whole := pack(t, small(), 128)
	cause := rota.Refusef(rota.KindUnavailable, "link", "the other node went away")
	t.Run("of the reader, wherever it fails", func(t *testing.T) {
		t.Parallel()
		for n := range len(whole) + 1 {
			r := io.MultiReader(bytes.NewReader(whole[:n]), iotest.ErrReader(cause))
			k := &sink{}
			s, _, err := Read(r, func(rota.SnapshotInfo) (Sink[*state], error) { return k, nil })
			if !errors.Is(err, cause) || rota.KindOf(err) != rota.KindUnavailable || s != nil || k.finished != 0 ||
				errors.As(err, new(*DamagedError)) {
				t.Fatalf("after %d bytes: %v", n, err)
			}
		}
	})
	t.Run("of who makes the sink, before any block is read", func(t *testing.T) {
		t.Parallel()
		refusal := rota.Refusef(rota.KindConflict, "cluster_id", "snapshot is of cluster blue-7, this is red-1")
		r := bytes.NewReader(whole)
		_, _, err := Read(r, func(info rota.SnapshotInfo) (Sink[*state], error) {
			if info.ClusterID != "blue-7" || info.Index != 4711 || info.Records != 0 || info.Bytes != 0 {
				t.Errorf("info is %+v", info)
			}
			return nil, refusal
		})
		if at := int64(len(whole) - r.Len()); !errors.Is(err, refusal) || rota.KindOf(err) != rota.KindConflict ||
			at != cut(t, whole)[1].start {
			t.Fatalf("%d bytes read: %v", at, err)
		}
	})
	t.Run("of a sink's Add", func(t *testing.T) {
		t.Parallel()
		k := &sink{addErr: io.ErrClosedPipe}
		s, _, err := Read(bytes.NewReader(whole), func(rota.SnapshotInfo) (Sink[*state], error) { return k, nil })
		if !errors.Is(err, io.ErrClosedPipe) || !strings.Contains(err.Error(), "record 3 of kind 1, in block ") ||
			rota.KindOf(err) != rota.KindInternal || s != nil || k.finished != 0 {
			t.Fatal(err)
		}
	})
	t.Run("of a sink's Finish", func(t *testing.T) {
		t.Parallel()
		other := small()
		other.info.Digest.Lo++
		s, info, k, err := load(pack(t, other, 128))
		if rota.KindOf(err) != rota.KindInvalid || s != nil || info != (rota.SnapshotInfo{}) || k.finished != 1 ||
			!strings.Contains(err.Error(), "the state at index 4711 does not verify: digest is ") {
			t.Fatal(err)
		}
	})
}

// full is a writer with room for so many bytes.
type full struct {
	room int
	err  error
}

func (f *full) Write(b []byte) (int, error) {
	n := min(f.room, len(b))
	if f.room -= n; n < len(b) {
		return n, f.err
	}
	return n, nil
}

// deaf is a source that goes on after a refused yield.
type deaf struct{ *state }

func (d deaf) Records(yield func(byte, []byte) error) error {
	for _, r := range d.rows {
		_ = yield(r.kind, []byte(r.record))
	}
	return nil
}

// broken is a source that fails after its records.
type broken struct{ *state }

func (b broken) Records(yield func(byte, []byte) error) error {
	return errors.Join(b.state.Records(yield), io.ErrNoProgress)
}

func TestWriteRefuses(t *testing.T) {
	t.Parallel()
	t.Run("a writer that is full, wherever", func(t *testing.T) {
		t.Parallel()
		for n := range len(pack(t, small(), 128)) {
			for _, err := range []error{io.ErrClosedPipe, nil} {
				want := err
				if want == nil {
					want = io.ErrShortWrite
				}
				info, err := write(&full{n, err}, deaf{small()}, 128)
				if !errors.Is(err, want) || info != (rota.SnapshotInfo{}) {
					t.Fatalf("room for %d: %+v, %v", n, info, err)
				}
			}
		}
	})
	t.Run("a source that fails, and leaves no end marker", func(t *testing.T) {
		t.Parallel()
		var b bytes.Buffer
		if _, err := Write(&b, broken{small()}); !errors.Is(err, io.ErrNoProgress) {
			t.Fatal(err)
		}
		mustBeDamaged(t, b.Bytes(), -1, "snapshot is truncated ")
	})
	t.Run("a record beyond the cap", func(t *testing.T) {
		t.Parallel()
		s := newState(row{1, "a"}, row{4, strings.Repeat("x", MaxRecordBytes+1)})
		_, err := Write(io.Discard, s)
		if rota.KindOf(err) != rota.KindInvalid || !strings.Contains(err.Error(),
			"record 2 of kind 4 too long: got 16777217 bytes, maximum 16777216") {
			t.Fatal(err)
		}
	})
	t.Run("a cluster id that is none", func(t *testing.T) {
		t.Parallel()
		s := newState()
		s.info.ClusterID = "a b"
		if _, err := Write(io.Discard, s); rota.KindOf(err) != rota.KindInvalid {
			t.Fatal(err)
		}
	})
}
