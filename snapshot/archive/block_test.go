package archive

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/peer"
)

// shelf is an archive as a map, a second implementation of blocks and leaves.
type shelf struct {
	ended map[uint64]fsm.Ended
	ids   map[rota.JobID]uint64
	held  map[uint64]bool
	floor uint64
}

func (s *shelf) put(entries []peer.ArchiveRecord) {
	for _, e := range entries {
		ended, _ := fsm.DecodeEnded(e.Data)
		if e.Seq <= s.floor || s.held[e.Seq] {
			continue
		}
		s.held[e.Seq] = true
		before, known := s.ids[ended.Job.ID]
		if known && before > e.Seq {
			continue
		}
		delete(s.ended, before)
		ended.Job.Archived = true
		s.ended[e.Seq], s.ids[ended.Job.ID] = ended, e.Seq
	}
}

func (s *shelf) drop(seq uint64) {
	if e, ok := s.ended[seq]; ok {
		delete(s.ended, seq)
		delete(s.ids, e.Job.ID)
	}
	delete(s.held, seq)
}

// same compares an archive with a shelf, by everything that reads it.
func (s *shelf) same(t *testing.T, a *Jobs, last uint64) {
	t.Helper()
	seqs, ids := slices.Sorted(maps.Keys(s.ended)), slices.Sorted(maps.Keys(s.ids))
	if stats := a.Stats(); stats.Records != uint64(len(seqs)) || stats.Floor != s.floor {
		t.Fatalf("want %d records above %d: %+v", len(seqs), s.floor, stats)
	}
	slice, err := a.Range(1, last, math.MaxInt)
	var got []uint64
	for _, r := range slice.Records {
		got = append(got, r.Seq)
	}
	if err != nil || !slices.Equal(got, seqs) {
		t.Fatalf("got %v, want %v: %v", got, seqs, err)
	}
	if missing, err := a.Missing(seqs, 9); err != nil || len(missing) > 0 {
		t.Fatalf("%v are missing, %v", missing, err)
	}
	for seq := uint64(1); seq <= last; seq++ {
		e, ok, err := a.At(seq)
		want, known := s.ended[seq]
		if err != nil || ok != known || ok && e.Job.ID != want.Job.ID ||
			a.Holds(seq) != (seq <= s.floor || s.held[seq]) {
			t.Fatalf("number %d: %v %v %v", seq, ok, known, err)
		}
	}
	r, err := a.Read()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var listed []rota.JobID
	for mark, ok := r.Next(""); ok; mark, ok = r.Next(mark.ID) {
		if listed = append(listed, mark.ID); mark.Seq != s.ids[mark.ID] {
			t.Fatalf("%s is listed as number %d, not %d", mark.ID, mark.Seq, s.ids[mark.ID])
		}
	}
	if !slices.Equal(listed, ids) {
		t.Fatalf("got %v listed, want %v", listed, ids)
	}
	for _, id := range ids {
		if after, ok := r.Next(id + "\x00"); ok && after.ID <= id {
			t.Fatalf("%s comes after %s", after.ID, id)
		}
		if e, ok, err := a.Get(id); err != nil || !ok || e.Seq != s.ids[id] {
			t.Fatalf("%s: number %d, %v %v", id, e.Seq, ok, err)
		}
	}
	if next, _, damaged, err := a.Scrub(0, math.MaxInt); err != nil || next != 0 || len(damaged) > 0 {
		t.Fatalf("%v are damaged, %v", damaged, err)
	}
	whole := a.meta
	_ = a.db.View(func(tx *bbolt.Tx) error { whole.count(tx.Bucket(recordsBucket)); return nil })
	if whole.records != a.meta.records || whole.bytes != a.meta.bytes {
		t.Fatalf("%d records of %d bytes are counted, %d of %d are there", a.meta.records, a.meta.bytes, whole.records,
			whole.bytes)
	}
}

// TestJobs_blocks compares blocks of records and leaves of marks with a map, over batches of all sizes and orders, also
// after the file was reopened.
func TestJobs_blocks(t *testing.T) {
	t.Parallel()
	e, random := newEndings(t), rand.New(rand.NewPCG(5, 5))
	for i := range 900 {
		id := fmt.Sprintf("job-%03d", i/3)
		if i%2 == 0 {
			id = fmt.Sprintf("%08x-%d", random.Uint32(), i)
		}
		if _, known := e.m.Job(rota.JobID(id)); known {
			e.again(id)
			continue
		}
		e.end(id, make([]byte, random.IntN(300)))
		if i%100 == 0 {
			e.end(id+"-large", noise(uint64(i), 20_000))
		}
	}
	entries := e.entries()
	last := entries[len(entries)-1].Seq
	for seed := range uint64(6) {
		random := rand.New(rand.NewPCG(seed, 1))
		path := filepath.Join(t.TempDir(), FileName)
		a, s := openJobs(t, path), &shelf{ended: map[uint64]fsm.Ended{}, ids: map[rota.JobID]uint64{},
			held: map[uint64]bool{}}
		for range 14 {
			batch := slices.Clone(entries[random.IntN(len(entries)):])
			batch = batch[:min(len(batch), 1+random.IntN(1<<random.IntN(10)))]
			if random.IntN(3) == 0 {
				random.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
			}
			put(t, a, batch)
			s.put(batch)
			switch random.IntN(8) {
			case 0:
				_ = a.db.Close()
				a = openJobs(t, path)
			case 5:
				if err := a.Pack(); err != nil { // from then on the file has blocks of both formats
					t.Fatal(err)
				}
			case 1:
				from := 1 + random.Uint64N(last)
				if err := a.Forget(from); err != nil {
					t.Fatal(err)
				}
				for seq := from; seq <= last; seq++ {
					s.drop(seq)
				}
			case 2, 3:
				var seqs []uint64
				for range random.IntN(40) {
					seqs = append(seqs, 1+random.Uint64N(last))
					s.drop(seqs[len(seqs)-1])
				}
				if err := a.Drop(seqs); err != nil {
					t.Fatal(err)
				}
			case 4:
				bytes := a.Stats().Bytes
				before := slices.Sorted(maps.Keys(s.ended))
				pruned, err := a.Prune(0, max(1, bytes-bytes/8))
				if err != nil || pruned == 0 && len(before) > 8 {
					t.Fatal(pruned, err)
				}
				for _, seq := range before[:pruned] {
					s.drop(seq)
					s.floor = seq
				}
			}
			s.same(t, a, last)
		}
	}
}

// TestJobs_aBlockWhoseRecordsAreDamaged flips bits of a block's compressed records: the whole block is then torn, and
// the archive accepts its records again.
func TestJobs_aBlockWhoseRecordsAreDamaged(t *testing.T) {
	t.Parallel()
	a, entries := newJobs(t), jobsEnded(t, 60)
	put(t, a, entries)
	before := a.Stats()
	var key, value []byte
	_ = a.db.View(func(tx *bbolt.Tx) error {
		k, v := tx.Bucket(recordsBucket).Cursor().First()
		key, value = bytes.Clone(k), bytes.Clone(v)
		return nil
	})
	x := block{key: key, value: value, next: math.MaxUint64}
	if x.read(); len(x.packed) == 0 || len(x.appendRows(nil)) < 10 {
		t.Fatalf("the first block has %d compressed bytes", len(x.packed))
	}
	for bit := 8; bit < 8*(1+len(x.packed)); bit += 37 {
		bad := bytes.Clone(value)
		bad[bit/8] ^= 1 << (bit % 8)
		if err := a.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(recordsBucket).Put(key, bad) }); err != nil {
			t.Fatal(err)
		}
		for seq := x.first; seq <= x.last; seq++ {
			if _, ok, err := a.At(seq); ok || !errors.Is(err, ErrRecordDamaged) {
				t.Fatalf("bit %d, number %d: %v %v", bit, seq, ok, err)
			}
		}
		_, _, damaged, err := a.Scrub(0, math.MaxInt)
		if err != nil || len(damaged) != int(x.last-x.first+1) {
			t.Fatalf("bit %d: %v are damaged, not %d to %d: %v", bit, damaged, x.first, x.last, err)
		}
		if err := a.Drop(damaged); err != nil {
			t.Fatal(err)
		}
		put(t, a, entries)
		if s := a.Stats(); s != before {
			t.Fatalf("bit %d: %+v, before %+v", bit, s, before)
		}
		if _, _, damaged, err := a.Scrub(0, math.MaxInt); err != nil || len(damaged) > 0 {
			t.Fatalf("bit %d: %v are damaged still, %v", bit, damaged, err)
		}
	}
}

// TestJobs_otherFormat refuses a file of another format, whatever else is in it.
func TestJobs_otherFormat(t *testing.T) {
	t.Parallel()
	for _, format := range [][]byte{{}, {plainFormat - 1}, {Format + 1}, {Format, 0}} {
		a := newJobs(t)
		put(t, a, jobsEnded(t, 3))
		if err := a.db.Update(func(tx *bbolt.Tx) error {
			return tx.Bucket(metaBucket).Put(metaFormat, format)
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenJobs(a.db); rota.KindOf(err) != rota.KindConflict {
			t.Errorf("format %x: %v", format, err)
		}
	}
}

// TestJobs_aBlockWhosePlacesAreDamaged loses all records of the block, reports it, and accepts the records again.
func TestJobs_aBlockWhosePlacesAreDamaged(t *testing.T) {
	t.Parallel()
	a, entries := newJobs(t), jobsEnded(t, 200)
	put(t, a, entries)
	before := a.Stats()
	var first, next uint64
	if err := a.db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(recordsBucket)
		c := b.Cursor()
		_, _ = c.First()
		k, v := c.Next()
		key, bad := bytes.Clone(k), bytes.Clone(v)
		k, _ = c.Next()
		first, next = number(key), number(k)
		bad[len(bad)-blockEndSize-placeBytes/2] ^= 1
		return b.Put(key, bad)
	}); err != nil || next-first < 2 {
		t.Fatal(first, next, err)
	}
	if _, ok, err := a.At(first + 1); ok || !errors.Is(err, ErrRecordDamaged) {
		t.Error("a record of the block is returned", ok, err)
	}
	if s, err := a.Range(1, 200, math.MaxInt); err != nil ||
		!slices.Equal(s.Covered, []Span{{From: 1, To: first - 1}, {From: next, To: 200}}) {
		t.Errorf("%+v is covered, %v", s.Covered, err)
	}
	_, _, damaged, err := a.Scrub(0, math.MaxInt)
	if err != nil || len(damaged) != int(next-first) || damaged[0] != first {
		t.Fatalf("%v are damaged, not %d to %d: %v", damaged, first, next-1, err)
	}
	for _, seqs := range [][]uint64{damaged, damaged[1:2]} { // the whole block is dropped
		if err := a.Drop(seqs); err != nil {
			t.Fatal(err)
		}
		if s := a.Stats(); s.Records != 200-(next-first) || s.Bytes >= before.Bytes {
			t.Errorf("%+v after %+v", s, before)
		}
		if lacks := a.Lacks(200, 9); !slices.Equal(lacks, Spans{{From: first, To: next - 1}}) {
			t.Errorf("%v are lacking", lacks)
		}
	}
	put(t, a, entries)
	if s := a.Stats(); s != before {
		t.Errorf("%+v, before %+v", s, before)
	}
}

// TestJobs_blockBytes pins the bytes of the layouts.
func TestJobs_blockBytes(t *testing.T) {
	t.Parallel()
	a := newJobs(t)
	err := a.db.Update(func(tx *bbolt.Tx) error {
		records, ids := tx.Bucket(recordsBucket), tx.Bucket(idsBucket)
		rows := []recordRow{{seq: 7, last: 7, value: []byte("one"), size: 3},
			{seq: 9, last: 9, value: []byte("four"), size: 4}}
		plain, packed := bookkeeping{format: plainFormat}, bookkeeping{format: Format}
		return errors.Join(plain.putBlock(records, 7, 12, rows), packed.putBlock(records, 107, 112, []recordRow{
			{seq: 107, last: 107, value: []byte("one"), size: 3}, {seq: 109, last: 109, value: []byte("four"), size: 4}}),
			marks{b: ids}.edit([]markRow{{[]byte("a"), []byte("mark")}, {[]byte("bc"), []byte("m")}}, nil),
			marks{b: ids}.put(leaf{key: []byte("c"), upper: []byte("dd")}, nil, false))
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = a.db.View(func(tx *bbolt.Tx) error {
		for _, x := range []struct {
			got  []byte
			want string
		}{
			{tx.Bucket(recordsBucket).Get(seqKey(7)),
				"036f6e65666f757200000000000000070000000400000000000000090000000800000002000000000000000c79cf5e29"},
			{tx.Bucket(recordsBucket).Get(seqKey(107)),
				"0407186f6e65666f7572000000000000006b00000003000000000000006d00000007000000020000000000000070de047bf1"},
			{tx.Bucket(idsBucket).Get(firstID), "ff016100046d61726b02626300016d0000cfc84e97"},
			{tx.Bucket(idsBucket).Get([]byte("c")), "fe646400022e7a2e86"},
		} {
			if got := hex.EncodeToString(x.got); got != x.want {
				t.Errorf("got %s, want %s", got, x.want)
			}
		}
		return nil
	})
}

// FuzzBlock reads any bytes as a block and as a leaf.
func FuzzBlock(f *testing.F) {
	many, _ := hex.DecodeString(
		"036f6e65666f757200000000000000070000000400000000000000090000000800000002000000000000000c79cf5e29")
	packed, _ := hex.DecodeString(
		"0407186f6e65666f757200000000000000070000000300000000000000090000000700000002000000000000000c55e08994")
	several, _ := hex.DecodeString("ff016100046d61726b02626300016d0000cfc84e97")
	f.Add(many)
	f.Add(packed)
	f.Add(several)
	f.Fuzz(func(t *testing.T, value []byte) {
		x := block{key: seqKey(7), value: value, next: 20}
		x.read()
		for _, r := range x.appendRows(nil) {
			if r.torn != x.torn || r.seq < 7 && !x.torn && x.plain || r.seq >= 20 {
				t.Errorf("number %d", r.seq)
			}
		}
		if l, ok := readLeaf([]byte("a"), value); ok {
			l.mark([]byte("b"))
			l.appendRows(nil)
		}
	})
}
