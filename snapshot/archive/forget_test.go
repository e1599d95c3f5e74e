package archive

import (
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/rotasched/rota"
)

func TestEvents_forgets(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), FileName)
	s, db := openEvents(t, path, 1000)
	want := eventEntries(0, 300)
	for _, part := range [][]EventEntry{want[:100], want[100:200], want[200:]} {
		if err := s.Put(part); err != nil {
			t.Fatal(err)
		}
	}
	for _, keep := range []int{300, 250, 100, 1, 0} {
		after := want[max(0, keep-1)].Index
		if keep == 0 {
			after = 0
		}
		if err := s.Forget(after); err != nil {
			t.Fatal(err)
		}
		if got := all(t, s, 0); len(got) != keep || keep > 0 && !reflect.DeepEqual(got, want[:keep]) {
			t.Fatalf("%d entries are left of %d", len(got), keep)
		}
		if from, to := s.Missing(0, 600); from != uint64(2*keep) || to != 600 {
			t.Errorf("after forgetting all but %d, %d to %d are missing", keep, from, to)
		}
		again, err := OpenEvents(db, 1000)
		if err != nil || !reflect.DeepEqual(all(t, again, 0), all(t, s, 0)) {
			t.Errorf("the disk has another view: %v", err)
		}
	}
	if err := s.Put(want); err != nil || len(all(t, s, 0)) != 300 {
		t.Error("forgotten entries are not accepted again", err)
	}
}

func TestJobs_forgets(t *testing.T) {
	t.Parallel()
	a, entries := newJobs(t), jobsEnded(t, 20)
	put(t, a, entries)
	if err := a.Forgo(Span{From: 25, To: 30}, 0); err != nil {
		t.Fatal(err)
	}
	before := a.Stats()
	if err := a.Forget(13); err != nil {
		t.Fatal(err)
	}
	if got := a.Lacks(30, 9); !slices.Equal(got, Spans{{From: 13, To: 30}}) || a.Stats().Records != 12 {
		t.Fatalf("%v lack, %d are held", got, a.Stats().Records)
	}
	if _, ok, err := a.Get("j012"); ok || err != nil {
		t.Error("a forgotten record is returned", err)
	}
	if _, ok, err := a.Get("j011"); !ok || err != nil {
		t.Error("a kept record is not returned", err)
	}
	put(t, a, entries)
	if now := a.Stats(); now.Records != before.Records || now.Bytes != before.Bytes {
		t.Errorf("%+v, before %+v", now, before)
	}
}

func TestJobs_scrub(t *testing.T) {
	t.Parallel()
	a, entries := newJobs(t), jobsEnded(t, 20)
	put(t, a, entries)
	scrub := func() (damaged []uint64, turns int) {
		for next := uint64(1); next != 0; turns++ {
			var some []uint64
			var err error
			if next, _, some, err = a.Scrub(next, 200); err != nil {
				t.Fatal(err)
			}
			damaged = append(damaged, some...)
		}
		return damaged, turns
	}
	if damaged, turns := scrub(); len(damaged) > 0 || turns < 3 {
		t.Fatalf("%v are damaged, in %d turns", damaged, turns)
	}
	_ = a.db.Update(func(tx *bbolt.Tx) error {
		for _, seq := range []uint64{1, 7, 20} {
			v := slices.Clone(tx.Bucket(recordsBucket).Get(seqKey(seq)))
			v[len(v)-1] ^= 1
			if err := tx.Bucket(recordsBucket).Put(seqKey(seq), v); err != nil {
				t.Error(err)
			}
		}
		return nil
	})
	if damaged, _ := scrub(); !slices.Equal(damaged, []uint64{1, 7, 20}) {
		t.Fatalf("%v are damaged", damaged)
	}
}

func TestEvents_dropsAChunkByItsEntry(t *testing.T) {
	t.Parallel()
	s, _ := openEvents(t, filepath.Join(t.TempDir(), FileName), 1000)
	if err := s.Put(eventEntries(0, 10)); err != nil {
		t.Fatal(err)
	}
	for _, first := range []rota.Index{10, 11, 99} { // it is intact, or does not exist
		if err := s.DropAt(first); err != nil || len(all(t, s, 0)) != 10 {
			t.Errorf("at %d: %v", first, err)
		}
	}
	damageChunk(t, s)
	if err := s.DropAt(10); err != nil {
		t.Fatal(err)
	}
	if from, to := s.Missing(0, 20); from != 0 || to != 20 {
		t.Errorf("%d to %d are missing", from, to)
	}
}

// damageChunk flips a bit at the end of the first chunk.
func damageChunk(t *testing.T, s *Events) {
	t.Helper()
	if err := s.db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(eventsBucket)
		k, v := b.Cursor().First()
		v = slices.Clone(v)
		v[len(v)-1] ^= 1
		return b.Put(slices.Clone(k), v)
	}); err != nil {
		t.Fatal(err)
	}
}
