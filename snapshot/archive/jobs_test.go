package archive

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/peer"
)

var update = flag.Bool("update", false, "rewrite testdata: only for a new format or a new version of zstd")

const startDate = 1_700_000_000_000

// endings drives a state machine whose jobs end, as a log would.
type endings struct {
	t     testing.TB
	m     *fsm.Machine
	index rota.Index
	now   int64
}

func newEndings(t testing.TB) *endings {
	e := &endings{t: t, m: fsm.New(), now: startDate}
	e.apply(&fsmpb.Op{Op: &fsmpb.Op_BeginTerm{BeginTerm: &fsmpb.BeginTerm{Term: 1, Node: "n1", Random: make([]byte, 32),
		ClusterId: "test", StartMs: e.now}}})
	return e
}

func (e *endings) apply(ops ...*fsmpb.Op) {
	e.t.Helper()
	data, err := entry.Seal(&fsmpb.Entry{Term: 1, NowMs: e.now, Ops: ops, WallMs: []int64{e.now}}, entry.FirstRules)
	if err != nil {
		e.t.Fatal(err)
	}
	e.index++
	a, err := e.m.Apply(e.index, 1, data)
	if err != nil {
		e.t.Fatal(err)
	}
	for _, o := range a.Outcomes {
		if err := entry.OutcomeError(o); err != nil {
			e.t.Fatal(err)
		}
	}
	e.now += 1000
}

// end submits a job with a payload and cancels it.
func (e *endings) end(id string, payload []byte) {
	e.t.Helper()
	spec := rota.NewJobSpec("work", payload)
	spec.ID, spec.Tenant = rota.JobID(id), "t1"
	e.apply(&fsmpb.Op{Op: &fsmpb.Op_Submit{Submit: &fsmpb.Submit{Spec: entry.SpecOp(&spec)}}},
		&fsmpb.Op{Op: &fsmpb.Op_Cancel{Cancel: &fsmpb.Cancel{Job: id}}})
}

// again revives a job and ends it once more.
func (e *endings) again(id string) {
	e.t.Helper()
	job, _ := e.m.Job(rota.JobID(id))
	e.apply(&fsmpb.Op{Op: &fsmpb.Op_Retry{Retry: &fsmpb.Retry{Job: id, Life: job.Life, Spec: entry.SpecOp(&job.JobSpec),
		Past: fsm.PastOp(&job)}}},
		&fsmpb.Op{Op: &fsmpb.Op_Cancel{Cancel: &fsmpb.Cancel{Job: id}}})
}

func (e *endings) entries() []peer.ArchiveRecord {
	var list []peer.ArchiveRecord
	for _, s := range e.m.Staged(1<<30, 1<<40) {
		list = append(list, peer.ArchiveRecord{Seq: s.Seq, Data: s.Append(nil)})
	}
	return list
}

// jobsEnded returns n records, every third with a payload that is worth compressing.
func jobsEnded(t testing.TB, n int) []peer.ArchiveRecord {
	e := newEndings(t)
	for i := range n {
		payload := []byte(fmt.Sprint("payload ", i))
		if i%3 == 0 {
			payload = bytes.Repeat([]byte("a longer payload "), 400)
		}
		e.end(fmt.Sprintf("j%03d", i), payload)
	}
	return e.entries()
}

func openJobs(t testing.TB, path string) *Jobs {
	t.Helper()
	db, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	db.NoSync = true
	t.Cleanup(func() { _ = db.Close() })
	a, err := OpenJobs(db)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func newJobs(t testing.TB) *Jobs {
	a := openJobs(t, filepath.Join(t.TempDir(), FileName))
	if err := a.Pack(); err != nil {
		t.Fatal(err)
	}
	return a
}

func put(t testing.TB, a *Jobs, entries []peer.ArchiveRecord) {
	t.Helper()
	if err := a.Put(entries, nil); err != nil {
		t.Fatal(err)
	}
}

func TestJobs(t *testing.T) {
	t.Parallel()
	t.Run("gives_back_what_was_put_and_after_reopening", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), FileName)
		a := openJobs(t, path)
		e := newEndings(t)
		e.end("small", []byte("p"))
		e.end("large", bytes.Repeat([]byte("x"), 100_000))
		if err := a.Claim("c1", 1); err != nil {
			t.Fatal(err)
		}
		put(t, a, e.entries())
		for range 2 {
			for _, id := range []rota.JobID{"small", "large"} {
				want, _ := e.m.Job(id)
				want.Archived = true
				got, ok, err := a.Get(id)
				if err != nil || !ok || !reflect.DeepEqual(got.Job, want) {
					t.Fatalf("%s: %v %v\n%+v\n%+v", id, ok, err, got.Job, want)
				}
				if mark, ok, err := a.Mark(id); err != nil || !ok || mark.State != rota.JobCancelled {
					t.Fatalf("%s is %s", id, mark.State)
				}
			}
			if s := a.Stats(); s.Records != 2 || s.Bytes > 2000 || s.OldestDate == 0 {
				t.Fatalf("stats %+v", s)
			}
			if _, ok, err := a.Get("nothing"); ok || err != nil {
				t.Fatal(ok, err)
			}
			if stat, err := os.Stat(path); err != nil || stat.Mode() != 0o600 {
				t.Fatalf("%v, %v", stat, err)
			}
			_ = a.db.Close()
			a = openJobs(t, path)
		}
	})
	t.Run("may_be_put_twice", func(t *testing.T) {
		t.Parallel()
		a, entries := newJobs(t), jobsEnded(t, 20)
		put(t, a, entries[:12])
		before := a.Stats()
		put(t, a, entries[:12]) // the flush whose acknowledgement was lost
		if a.Stats() != before {
			t.Fatalf("%+v became %+v", before, a.Stats())
		}
		put(t, a, entries[5:])
		if s := a.Stats(); s.Records != 20 || len(a.Lacks(20, 9)) != 0 {
			t.Fatalf("%+v", s)
		}
	})
	t.Run("keeps_the_latest_end_of_a_job_in_any_order", func(t *testing.T) {
		t.Parallel()
		e := newEndings(t)
		e.end("j", nil)
		e.end("k", nil)
		e.again("j")
		entries := e.entries()
		for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {2, 0, 1}} {
			a := newJobs(t)
			for _, i := range order {
				put(t, a, entries[i:i+1])
			}
			got, ok, err := a.Get("j")
			if err != nil || !ok || got.Seq != 3 || a.Stats().Records != 2 || len(a.Lacks(3, 9)) != 0 {
				t.Fatalf("%v: %+v %v %+v", order, got, err, a.Stats())
			}
			s, err := a.Range(1, 3, 1<<20)
			if err != nil || !slices.Equal(s.Covered, []Span{{From: 1, To: 3}}) || len(s.Records) != 2 {
				t.Fatalf("%+v, %v", s, err)
			}
		}
	})
	t.Run("refuses_what_is_no_record", func(t *testing.T) {
		t.Parallel()
		a, entries := newJobs(t), jobsEnded(t, 2)
		for _, bad := range []peer.ArchiveRecord{{Seq: 7, Data: entries[0].Data}, {Seq: 1, Data: entries[0].Data[1:]},
			{Seq: 0}, {Seq: 1, Data: []byte("x")}} {
			if err := a.Put([]peer.ArchiveRecord{entries[1], bad}, nil); rota.KindOf(err) != rota.KindInvalid ||
				a.Stats().Records != 0 {
				t.Fatalf("%d: %v", bad.Seq, err)
			}
		}
	})
	t.Run("refuses_another_cluster_by_name", func(t *testing.T) {
		t.Parallel()
		a := newJobs(t)
		if err := errors.Join(a.Claim("c1", 2), a.Claim("c1", 2)); err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{a.Claim("c2", 2), a.Claim("c1", 3)} {
			if rota.KindOf(err) != rota.KindConflict || !bytes.Contains([]byte(err.Error()),
				[]byte("cluster c1, incarnation 2")) {
				t.Fatal(err)
			}
		}
	})
	t.Run("refuses_another_format", func(t *testing.T) {
		t.Parallel()
		a := newJobs(t)
		_ = a.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Put(metaFormat, []byte{9}) })
		if _, err := OpenJobs(a.db); rota.KindOf(err) != rota.KindConflict {
			t.Fatal(err)
		}
	})
}

func TestJobs_aDamagedRecordIsNeverServed(t *testing.T) {
	t.Parallel()
	a, entries := newJobs(t), jobsEnded(t, 3)
	put(t, a, entries)
	for _, seq := range []uint64{1, 2} { // one packed, one plain
		var whole []byte
		_ = a.db.View(func(tx *bbolt.Tx) error {
			whole = bytes.Clone(tx.Bucket(recordsBucket).Get(seqKey(seq)))
			return nil
		})
		for at := 0; at < len(whole); at += max(1, len(whole)/64) {
			bad := bytes.Clone(whole)
			bad[at] ^= 4
			_ = a.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(recordsBucket).Put(seqKey(seq), bad) })
			if e, ok, err := a.At(seq); ok || !errors.Is(err, ErrRecordDamaged) {
				t.Fatalf("record %d with byte %d flipped: %+v %v", seq, at, e, err)
			}
			s, err := a.Range(1, 3, 1<<20)
			if err != nil || len(s.Records) != 2 || Spans(s.Covered).Has(seq) || !Spans(s.Covered).Has(3) {
				t.Fatalf("%+v, %v", s, err)
			}
		}
		if err := a.Drop([]uint64{seq}); err != nil || !slices.Equal(a.Lacks(3, 9), Spans{{From: seq, To: seq}}) ||
			a.Holds(seq) {
			t.Fatalf("%v, %v", a.Lacks(3, 9), err)
		}
		put(t, a, entries) // from another node
		if _, ok, err := a.At(seq); !ok || err != nil || a.Stats().Records != 3 {
			t.Fatal(ok, err)
		}
	}
}

func TestJobs_retention(t *testing.T) {
	t.Parallel()
	entries := jobsEnded(t, 30)
	ended, _ := fsm.DecodeEnded(entries[9].Data)
	t.Run("takes_what_is_older_than_a_date", func(t *testing.T) {
		t.Parallel()
		a := newJobs(t)
		put(t, a, entries)
		n, err := a.Prune(ended.Job.Finished.Date, 0)
		if err != nil || n != 9 || a.Stats().Floor != 9 || len(a.Lacks(30, 9)) != 0 || !a.Holds(3) {
			t.Fatalf("%d, %v, %+v", n, err, a.Stats())
		}
		if _, ok, _ := a.Mark("j008"); ok {
			t.Fatal("a taken job is known")
		}
		if _, ok, _ := a.Mark("j009"); !ok {
			t.Fatal("a kept job is not known")
		}
		put(t, a, entries) // a replay brings nothing back
		if a.Stats().Records != 21 {
			t.Fatalf("%+v", a.Stats())
		}
		if missing, err := a.Missing([]uint64{1, 9, 10, 30}, 9); err != nil || missing != nil {
			t.Fatal(missing, err)
		}
	})
	t.Run("empties_pages_of_marks", func(t *testing.T) {
		t.Parallel()
		e := newEndings(t)
		for i := range 1_200 {
			e.end(fmt.Sprintf("j%05d", i), []byte("payload"))
		}
		all := e.entries()
		a := newJobs(t)
		put(t, a, append([]peer.ArchiveRecord{}, all...))
		kept, _ := fsm.DecodeEnded(all[1_000].Data)
		if n, err := a.Prune(kept.Job.Finished.Date, 0); err != nil || n != 1_000 {
			t.Fatal(n, err)
		}
		r, err := a.Read()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		listed := 0
		for mark, ok := r.Next(""); ok; mark, ok = r.Next(mark.ID) {
			listed++
		}
		if listed != 200 || r.Lacks() {
			t.Fatalf("%d jobs are listed, lacking %v", listed, r.Lacks())
		}
		for id, want := range map[rota.JobID]bool{"a": false, "j00000": false, "j00999": false, "j01000": true,
			"j01199": true, "z": false} {
			if _, ok, err := a.Mark(id); ok != want || err != nil {
				t.Errorf("job %s is known: %v, %v", id, ok, err)
			}
		}
	})
	t.Run("holds_to_bytes", func(t *testing.T) {
		t.Parallel()
		a := newJobs(t)
		put(t, a, entries)
		most := a.Stats().Bytes / 2
		if _, err := a.Prune(0, most); err != nil || a.Stats().Bytes > most || a.Stats().Bytes < most/2 ||
			a.Stats().Records == 0 {
			t.Fatalf("%v, %+v", err, a.Stats())
		}
	})
	t.Run("is_not_stopped_by_damage", func(t *testing.T) {
		t.Parallel()
		a := newJobs(t)
		put(t, a, entries)
		_ = a.db.Update(func(tx *bbolt.Tx) error {
			bad := bytes.Clone(tx.Bucket(recordsBucket).Get(seqKey(1)))
			bad[1] = 0x7f // a date in the far future
			return tx.Bucket(recordsBucket).Put(seqKey(1), bad)
		})
		if n, err := a.Prune(ended.Job.Finished.Date, 0); err != nil || n != 9 {
			t.Fatal(n, err)
		}
	})
}

func TestJobs_slicesAddUp(t *testing.T) {
	t.Parallel()
	from, to := newJobs(t), newJobs(t)
	entries := jobsEnded(t, 40)
	put(t, from, slices.Concat(entries[:10], entries[15:]))
	for filled := true; filled; {
		filled = false
		for _, gap := range to.Lacks(40, 9) {
			s, err := from.Range(gap.From, gap.To, 3000)
			if err == nil && len(s.Covered) > 0 {
				filled, err = true, to.Put(s.Records, s.Covered)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if gaps := to.Lacks(40, 9); !slices.Equal(gaps, Spans{{From: 11, To: 15}}) || to.Stats().Records != 35 {
		t.Fatalf("%v, %+v", gaps, to.Stats())
	}
	if err := to.Forgo(Span{From: 11, To: 15}, 5); err != nil || len(to.Lacks(40, 9)) != 0 || to.Stats().Lost != 5 {
		t.Fatalf("%v, %+v", err, to.Stats())
	}
	if missing, _ := to.Missing([]uint64{12, 16}, 9); missing != nil {
		t.Fatalf("%v are missing", missing)
	}
	if s, _ := to.Range(11, 15, 1<<20); len(s.Covered) != 0 {
		t.Fatalf("records that no node has are passed on: %+v", s)
	}
}

func TestJobs_sectionsOfABackup(t *testing.T) {
	t.Parallel()
	from := newJobs(t)
	e := newEndings(t)
	for i := range 50 {
		e.end(fmt.Sprint("j", i), bytes.Repeat([]byte{byte(i)}, 50_000))
	}
	e.again("j7")
	put(t, from, e.entries())
	if _, err := from.Prune(startDate+10_000, 0); err != nil {
		t.Fatal(err)
	}
	to := newJobs(t)
	loader := NewLoader(to)
	if err := from.Section(51, loader.Take); err != nil {
		t.Fatal(err)
	}
	a, b := from.Stats(), to.Stats()
	if a != b || a.Floor == 0 || len(to.Lacks(51, 9)) != 0 {
		t.Fatalf("%+v became %+v, lacking %v", a, b, to.Lacks(51, 9))
	}
	for _, bad := range [][]byte{nil, make([]byte, 7), make([]byte, 8+15), make([]byte, 8+16)} {
		if err := loader.Take(sectionNumbers, bad); rota.KindOf(err) != rota.KindInvalid {
			t.Fatalf("%x: %v", bad, err)
		}
	}
}

func TestSpans(t *testing.T) {
	t.Parallel()
	chance := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var s Spans
		want := map[uint64]bool{}
		for range 40 {
			from := 1 + chance.Uint64N(60)
			to := from + chance.Uint64N(6)
			switch chance.IntN(4) {
			case 0:
				s.removeSpan(Span{From: from, To: to})
				for i := from; i <= to; i++ {
					delete(want, i)
				}
			case 1:
				if chance.IntN(8) == 0 {
					s.cut(from)
					for i := range from + 1 {
						delete(want, i)
					}
				}
			default:
				s.Add(from, to)
				for i := from; i <= to; i++ {
					want[i] = true
				}
			}
			if s.Count() != uint64(len(want)) {
				t.Fatalf("%v: got %d numbers, want %d", s, s.Count(), len(want))
			}
			back, ok := parseSpans(s.append(nil))
			if !ok || !slices.Equal(back, s) {
				t.Fatalf("%v reads as %v", s, back)
			}
			gaps := s.gaps(3, 62, 100)
			for i := uint64(0); i < 70; i++ {
				if s.Has(i) != want[i] || gaps.Has(i) != (!want[i] && i >= 3 && i <= 62) {
					t.Fatalf("%v, gaps %v: %d", s, gaps, i)
				}
			}
		}
	}
}

// TestJobs_format pins the bytes of one record and one mark on disk.
func TestJobs_format(t *testing.T) {
	t.Parallel()
	a := newJobs(t)
	e := newEndings(t)
	e.end("golden", []byte("payload"))
	put(t, a, e.entries())
	var got string
	_ = a.db.View(func(tx *bbolt.Tx) error {
		got = fmt.Sprintf("record %s\nmark %s\n", hex.EncodeToString(tx.Bucket(recordsBucket).Get(seqKey(1))),
			hex.EncodeToString(marksOf(tx).leafOf(tx.Bucket(idsBucket).Cursor(),
				[]byte("golden")).body[1+len("golden")+2:]))
		return nil
	})
	path := filepath.Join("testdata", "jobs.txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || got != string(want) {
		t.Fatalf("%v, wanted\n%s got\n%s", err, want, got)
	}
}

// FuzzRecord reads any bytes as a record, as a body and as a mark.
func FuzzRecord(f *testing.F) {
	for _, e := range jobsEnded(f, 2) {
		p, _ := newPacker()
		f.Add(p.append(nil, e.Seq, 5, "id", e.Data))
		f.Add(e.Data)
		ended, _ := fsm.DecodeEnded(e.Data)
		f.Add(appendMark(nil, &ended))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		z, err := unpacker()
		if err != nil {
			t.Fatal(err)
		}
		if body, ok := unpack(z, 1, b); ok && len(body) > maxBodyBytes {
			t.Fatal("a bomb was unpacked")
		}
		recordHead(b)
		if m, ok := parseMark([]byte("id"), b); ok {
			e := fsm.Ended{Seq: m.Seq, Job: rota.Job{JobSpec: rota.JobSpec{Queue: m.Queue, Tenant: m.Tenant,
				Type: m.Type}, State: m.State}}
			if !bytes.Equal(appendMark(nil, &e), b) {
				t.Fatalf("%x is another mark", b)
			}
		}
		if e, err := fsm.DecodeEnded(b); err == nil && !e.Job.State.Terminal() {
			t.Fatalf("a job that is %s counts as ended", e.Job.State)
		}
	})
}

// noise returns n random bytes, the same for the same seed.
func noise(seed uint64, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		seed = seed*6364136223846793005 + 1442695040888963407
		b[i] = byte(seed >> 56)
	}
	return b
}

// TestReading_before walks the records backwards: each existing one once, in blocks and alone, around jobs that ended
// again, and past a damaged one, which it reports.
func TestReading_before(t *testing.T) {
	t.Parallel()
	e := newEndings(t)
	for i := range 200 {
		e.end(fmt.Sprintf("j%03d", i*37%200), []byte("payload"))
	}
	for _, id := range []string{"j000", "j001", "j150"} {
		e.again(id)
	}
	all := e.entries()
	a := openJobs(t, filepath.Join(t.TempDir(), "archive.db"))
	for from := 0; from < len(all); from += 50 {
		put(t, a, all[from:min(from+50, len(all))])
	}
	for _, alone := range [...]string{"x1", "x2"} {
		e.end(alone, bytes.Repeat([]byte("alone "), 1000))
		put(t, a, e.entries()[len(all):])
	}
	latest := map[uint64]rota.JobID{}
	of := map[rota.JobID]uint64{}
	for _, r := range e.entries() {
		ended, err := fsm.DecodeEnded(r.Data)
		if err != nil {
			t.Fatal(err)
		}
		delete(latest, of[ended.Job.ID])
		latest[r.Seq], of[ended.Job.ID] = ended.Job.ID, r.Seq
	}
	walk := func(from uint64) (seqs, damaged []uint64) {
		reading, err := a.Read()
		if err != nil {
			t.Fatal(err)
		}
		defer reading.Close()
		for mark, ok := reading.Before(from); ok; mark, ok = reading.Before(mark.Seq) {
			if latest[mark.Seq] != mark.ID || mark.Tenant != "t1" || mark.Type != "work" ||
				mark.State != rota.JobCancelled {
				t.Fatalf("%+v, of job %q", mark, latest[mark.Seq])
			}
			seqs = append(seqs, mark.Seq)
		}
		return seqs, reading.Damaged
	}
	var want []uint64
	for seq := range latest {
		want = append(want, seq)
	}
	slices.Sort(want)
	slices.Reverse(want)
	for _, from := range []uint64{1 << 63, 206, 205, 204, 203, 120, 51, 50, 2, 1, 0} {
		below := slices.DeleteFunc(slices.Clone(want), func(seq uint64) bool { return seq >= from })
		if got, damaged := walk(from); !slices.Equal(got, below) || len(damaged) != 0 {
			t.Fatalf("below %d: got %v, damaged %v; want %v", from, got, damaged, below)
		}
	}
	err := a.db.Update(func(tx *bbolt.Tx) error { // the last record is alone
		b := tx.Bucket(recordsBucket)
		value := bytes.Clone(b.Get(seqKey(want[0])))
		value[len(value)/2] ^= 1
		return b.Put(seqKey(want[0]), value)
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, damaged := walk(1 << 63); !slices.Equal(got, want[1:]) || !slices.Equal(damaged, want[:1]) {
		t.Fatalf("%v, damaged %v", got, damaged)
	}
}
