package archive

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/rotasched/rota"
)

// scrubAll scrubs a whole archive as a node does.
func scrubAll(t *testing.T, a *Jobs) (torn int, damaged []uint64) {
	t.Helper()
	marks, err := a.ScrubMarks("", math.MaxInt)
	if err != nil || marks.Next != "" {
		t.Fatal(marks, err)
	}
	damaged = marks.Damaged
	for next := uint64(1); next != 0; {
		var some []uint64
		if next, _, some, err = a.Scrub(next, math.MaxInt); err != nil {
			t.Fatal(err)
		}
		damaged = append(damaged, some...)
	}
	if err := errors.Join(a.Drop(damaged), a.Completed(marks.Partial)); err != nil {
		t.Fatal(err)
	}
	return marks.Torn, damaged
}

// rekey moves the value of the second key to a different key.
func rekey(t *testing.T, a *Jobs, bucket []byte, change func(key []byte)) (key, next []byte) {
	t.Helper()
	if err := a.db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucket)
		c := b.Cursor()
		_, _ = c.First()
		k, v := c.Next()
		key, v = bytes.Clone(k), bytes.Clone(v)
		k, _ = c.Next()
		next = bytes.Clone(k)
		wrong := bytes.Clone(key)
		change(wrong)
		return errors.Join(b.Delete(key), b.Put(wrong, v))
	}); err != nil {
		t.Fatal(err)
	}
	return key, next
}

// TestJobs_aBlockUnderAWrongKey checks that its records do not count as missing, whether its numbers seem to begin
// later, or within those of the previous block.
func TestJobs_aBlockUnderAWrongKey(t *testing.T) {
	t.Parallel()
	for _, shift := range []int{4, -4} {
		e := newEndings(t)
		for _, id := range ids(200) {
			e.end(string(id), []byte("payload"))
			if e.index%40 == 0 {
				e.again(string(id))
			}
		}
		a, entries := newJobs(t), e.entries()
		put(t, a, entries)
		before, last := a.Stats(), entries[len(entries)-1].Seq
		key, behind := rekey(t, a, recordsBucket, func(key []byte) { key[7] = byte(int(key[7]) + shift) })
		first, next := number(key), number(behind)
		for seq := first; seq < next; seq++ {
			if _, ok, err := a.At(seq); ok || !errors.Is(err, ErrRecordDamaged) {
				t.Fatalf("number %d, shifted by %d: %v %v", seq, shift, ok, err)
			}
		}
		if s, err := a.Range(first, next-1, math.MaxInt); err != nil || len(s.Covered) != 0 {
			t.Fatalf("%+v is covered, %v", s.Covered, err)
		}
		torn, damaged := scrubAll(t, a)
		slices.Sort(damaged)
		if damaged = slices.Compact(damaged); torn != 0 || len(damaged) != int(next-first) || damaged[0] != first {
			t.Fatalf("%v are damaged, not %d to %d", damaged, first, next-1)
		}
		if lacks := a.Lacks(last, 9); !slices.Equal(lacks, Spans{{From: first, To: next - 1}}) {
			t.Fatalf("%v are lacking", lacks)
		}
		if err := a.Put(entries, nil); err != nil || a.Stats() != before {
			t.Fatalf("%+v, before %+v: %v", a.Stats(), before, err)
		}
		if torn, damaged := scrubAll(t, a); torn+len(damaged) > 0 {
			t.Fatalf("%v are damaged still", damaged)
		}
	}
}

func ids(n int) (all []rota.JobID) {
	for i := range n {
		all = append(all, rota.JobID("job-")+rota.JobID(rune('a'+i/26))+rota.JobID(rune('a'+i%26)))
	}
	return all
}

// TestJobs_aLeafUnderAWrongKey checks that its jobs do not count as missing, and that the scrub restores their marks
// from the records, even if new ones were added in between.
func TestJobs_aLeafUnderAWrongKey(t *testing.T) {
	t.Parallel()
	for _, shift := range []int{3, -3} {
		e := newEndings(t)
		for i, id := range ids(200) {
			if i%7 != 3 {
				e.end(string(id), []byte("payload"))
			}
		}
		a := newJobs(t)
		put(t, a, e.entries())
		key, next := rekey(t, a, idsBucket, func(key []byte) { key[len(key)-1] = byte(int(key[len(key)-1]) + shift) })
		between := func(id rota.JobID) bool { return string(id) >= string(key) && string(id) < string(next) }
		check := func(repaired bool) {
			t.Helper()
			for i, id := range ids(200) {
				_, ok, err := a.Get(id)
				switch known := i%7 != 3; {
				case repaired && (ok != known || err != nil), !ok && err == nil && known, ok && !known,
					!repaired && !ok && between(id) && !errors.Is(err, ErrMarksDamaged):
					t.Fatalf("%s, shifted by %d: %v %v", id, shift, ok, err)
				}
			}
			r, err := a.Read()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			n := uint64(0)
			for mark, ok := r.Next(""); ok; mark, ok = r.Next(mark.ID) {
				n++
			}
			if r.Lacks() == repaired || repaired && n != a.Stats().Records {
				t.Fatalf("%d jobs are listed of %d, lacking: %v", n, a.Stats().Records, r.Lacks())
			}
		}
		check(false)
		for i, id := range ids(200) {
			if i%14 == 3 {
				e.end(string(id), []byte("payload"))
			}
		}
		put(t, a, e.entries())
		for i, id := range ids(200) { // new ones are reported, and not mistaken for all
			if _, ok, err := a.Get(id); i%14 == 3 && (!ok || err != nil) || !ok && err == nil && i%7 != 3 {
				t.Fatalf("%s, shifted by %d: %v %v", id, shift, ok, err)
			}
		}
		for i, id := range ids(200) {
			if i%14 == 10 {
				e.end(string(id), []byte("payload"))
			}
		}
		put(t, a, e.entries())
		records := a.Stats().Records
		if _, damaged := scrubAll(t, a); len(damaged) > 0 || a.Stats().Records != records ||
			len(a.Lacks(records, 9)) > 0 {
			t.Fatalf("%v are damaged, %+v", damaged, a.Stats())
		}
		for _, id := range ids(200) {
			if e, ok, err := a.Get(id); !ok || err != nil || e.Job.ID != id {
				t.Fatalf("%s is not found again: %v", id, err)
			}
		}
		if torn, damaged := scrubAll(t, a); torn+len(damaged) > 0 {
			t.Fatalf("%d leaves and records %v are damaged still", torn, damaged)
		}
	}
}

// TestJobs_bookkeepingIsVerified flips each bit of the data on held numbers.
func TestJobs_bookkeepingIsVerified(t *testing.T) {
	t.Parallel()
	a := newJobs(t)
	put(t, a, jobsEnded(t, 3))
	if err := a.Forgo(Span{From: 5, To: 6}, 2); err != nil {
		t.Fatal(err)
	}
	all := make(map[string][]byte)
	_ = a.db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(metaBucket).ForEach(func(k, v []byte) error {
			all[string(k)] = bytes.Clone(v)
			return nil
		})
	})
	for key, value := range all {
		for bit := range 8 * len(value) {
			bad := bytes.Clone(value)
			bad[bit/8] ^= 1 << (bit % 8)
			_ = a.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Put([]byte(key), bad) })
			if _, err := OpenJobs(a.db); err == nil {
				t.Errorf("bit %d of %s passes as sound", bit, key)
			}
		}
		_ = a.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Delete([]byte(key)) })
		if _, err := OpenJobs(a.db); err == nil {
			t.Errorf("the lack of %s passes as sound", key)
		}
		_ = a.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Put([]byte(key), value) })
	}
	_ = a.db.Update(func(tx *bbolt.Tx) error { return tx.DeleteBucket(metaBucket) })
	if _, err := OpenJobs(a.db); rota.KindOf(err) != rota.KindInternal {
		t.Errorf("records without bookkeeping pass as sound: %v", err)
	}
}
