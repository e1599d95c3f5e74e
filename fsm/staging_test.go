package fsm

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
)

// TestStaging_theDigestDoesNotKnowOfFlushes applies one log to a machine that never flushes, one that flushes after
// every entry, and one restored from a snapshot without records: retries, proofs and retention must behave alike.
func TestStaging_theDigestDoesNotKnowOfFlushes(t *testing.T) {
	t.Parallel()
	b := emptyBench(t)
	b.keepLog = true
	b.lead()
	l := b.leased("done", "w1", func(s *rota.JobSpec) { s.RetryOnInvalidProof = true })
	b.ok(verb(rota.VerbAck, l))
	b.ok(verb(rota.VerbComplete, l, output("out")))
	for i := range 6 {
		b.submit(fmt.Sprint("j", i))
		b.ok(cancelOp(fmt.Sprint("j", i)))
	}
	b.ok(retryOp("j1"))
	b.ok(cancelOp("j1"))
	b.ok(retryOp("j1"))
	b.ok(&fsmpb.Op{Op: &fsmpb.Op_ReportProof{ReportProof: &fsmpb.ReportProof{Job: "done", Lease: l.ID[:],
		Reason: "wrong"}}})
	b.walls = []int64{startClock + int64(sevenDays) + 100_000}
	b.pass(1000)
	if b.ended.tombs.Len() != 0 || !b.View.Forgetful() {
		t.Fatalf("%d tombstones are left", b.ended.tombs.Len())
	}
	flushing := New()
	for i, entry := range b.log {
		if _, err := flushing.Apply(rota.Index(i+1), 1, entry); err != nil {
			t.Fatal(err)
		}
		flushAll(flushing)
		if i%5 == 0 {
			f := flushing.Freeze()
			f.Archived()
			loader, _ := NewLoader(f.Info())
			if err := f.Records(loader.Add); err != nil {
				t.Fatal(err)
			}
			var err error
			if flushing, err = loader.Finish(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if flushing.View.Digest() != b.View.Digest() {
		t.Fatalf("digest %s, without flushes %s", flushing.View.Digest(), b.View.Digest())
	}
	if s := b.View.Staging(); s.Records != 8 || s.Last != 8 || s.Oldest != 1 || s.Since == 0 || s.Dropped != 0 {
		t.Fatalf("%+v", s)
	}
}

func flushAll(m *Machine) {
	var seqs []uint64
	for _, s := range m.View.Staged(1<<30, 1<<50) {
		seqs = append(seqs, s.Seq)
	}
	m.View.Archived(seqs)
}

func TestStaged(t *testing.T) {
	t.Parallel()
	b := busyBench(t)
	for i := range 5 {
		b.submit(fmt.Sprint("s", i), func(s *rota.JobSpec) {
			s.Payload, s.Limits, s.Labels = make([]byte, 1000), map[string]int64{"depth": 2,
				"width": 1}, map[string]string{"a": "b"}
		})
		b.ok(cancelOp(fmt.Sprint("s", i)))
	}
	t.Run("reads_back_as_the_job", func(t *testing.T) {
		for _, s := range b.View.Staged(1<<30, 1<<50) {
			want, _ := b.View.Job(s.ID)
			data := s.Append([]byte("x"))[1:]
			got, err := DecodeEnded(data)
			if err != nil || got.Seq != s.Seq || !reflect.DeepEqual(got.Job, want) ||
				!reflect.DeepEqual(s.Ended(), got) {
				t.Fatalf("%v\n%+v\n%+v", err, got.Job, want)
			}
			for n := range len(data) {
				if _, err := DecodeEnded(data[:n]); err == nil {
					t.Fatalf("%d bytes of %d are accepted", n, len(data))
				}
			}
			if _, err := DecodeEnded(append(bytes.Clone(data), 0)); err == nil {
				t.Fatal("bytes behind a record are accepted")
			}
		}
	})
	t.Run("comes_oldest_first_and_bounded", func(t *testing.T) {
		all := b.View.Staged(1<<30, 1<<50)
		for i, s := range all {
			if s.Seq != uint64(i+1) {
				t.Fatalf("number %d is at position %d", s.Seq, i)
			}
		}
		if got := b.View.Staged(3, 1<<50); len(got) != 3 {
			t.Fatalf("%d of 3", len(got))
		}
		if got := b.View.Staged(1<<30, 1); len(got) != 1 {
			t.Fatalf("%d for one byte", len(got))
		}
	})
	t.Run("leaves_by_number_only", func(t *testing.T) {
		before := b.View.Staging()
		b.View.Archived([]uint64{2, 2, 99})
		if s := b.View.Staging(); s.Records != before.Records-1 || s.Bytes >= before.Bytes || len(b.Check()) > 0 {
			t.Fatalf("%+v %q", s, b.Check())
		}
		if seqs := b.Freeze().Unstaged(); len(seqs) != 1 || seqs[0] != 2 {
			t.Fatalf("%v", seqs)
		}
		flushAll(b.Machine)
		if s := b.View.Staging(); s.Records != 0 || s.Bytes != 0 || s.Oldest != 0 {
			t.Fatalf("%+v", s)
		}
		if job, ok := b.View.Job("s1"); !ok || !job.RecordDropped || job.State != rota.JobCancelled {
			t.Fatalf("%+v", job)
		}
	})
}

func TestStaging_beyondItsBoundTheOldestAreCounted(t *testing.T) {
	t.Parallel()
	long(t)
	b := newBench(t)
	b.every = 1 << 30
	body := make([]byte, rota.MaxPayloadBytes)
	n := limits.RecordBytesCap/rota.MaxPayloadBytes + 10
	for i := range n {
		b.submit(fmt.Sprint("j", i), func(s *rota.JobSpec) { s.Payload = body })
		b.ok(cancelOp(fmt.Sprint("j", i)))
	}
	s := b.View.Staging()
	if s.Dropped == 0 || s.Bytes > limits.RecordBytesCap || s.Records+int(s.Dropped) != n || s.Oldest != s.Dropped+1 {
		t.Fatalf("%+v", s)
	}
	b.sound()
}

func TestRetry_takesThePayloadOfItsOwnJobOnly(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.submit("j")
	b.ok(cancelOp("j"))
	for name, change := range map[string]func(*rota.JobSpec){
		"id": func(s *rota.JobSpec) { s.ID = "k" }, "queue": func(s *rota.JobSpec) { s.Queue = "other" },
		"type": func(s *rota.JobSpec) { s.Type = "play" }, "tenant": func(s *rota.JobSpec) { s.Tenant = "t2" },
	} {
		op := retryOp("j")
		op.GetRetry().Spec = entry.SpecOp(jobSpec("j", change))
		if o := b.refuses(rota.KindInvalid, "spec", op); o.GetKind() == 0 {
			t.Fatal(name)
		}
	}
	op := retryOp("j")
	op.GetRetry().Spec = entry.SpecOp(jobSpec("j", func(s *rota.JobSpec) { s.Priority = 11 }))
	b.refuses(rota.KindInvalid, "priority", op)
	op.GetRetry().Spec.Labels = make([]*fsmpb.Label, rota.MaxLabels+1)
	b.refuses(rota.KindInvalid, "labels", op)
	b.ok(retryOp("j"))
	if job, _ := b.View.Job("j"); string(job.Payload) != string(jobSpec("j").Payload) {
		t.Fatalf("%+v", job)
	}
}

// history is an archive as read by a list.
type history []Ended

func (h history) Next(after rota.JobID) (mark Mark, ok bool) {
	for _, e := range h {
		if e.Job.ID > after && (!ok || e.Job.ID < mark.ID) {
			mark, ok = Mark{e.Job.ID, e.Seq, e.Job.Queue, e.Job.Tenant, e.Job.Type, e.Job.State}, true
		}
	}
	return mark, ok
}

func (h history) Before(seq uint64) (mark Mark, ok bool) {
	for _, e := range h {
		if e.Seq < seq && e.Seq > mark.Seq {
			mark, ok = Mark{e.Job.ID, e.Seq, e.Job.Queue, e.Job.Tenant, e.Job.Type, e.Job.State}, true
		}
	}
	return mark, ok
}

func (h history) Ended(seq uint64) (rota.Job, bool) {
	for _, e := range h {
		if e.Seq == seq {
			e.Job.Archived = true
			return e.Job, true
		}
	}
	return rota.Job{}, false
}

// TestPage_mergesTheArchive has jobs that are live, live again, staged, archived with and without their tombstone: each
// is listed once, complete, at every page size.
func TestPage_mergesTheArchive(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	end := func(ids ...string) {
		for _, id := range ids {
			b.submit(id)
			b.ok(cancelOp(id))
		}
	}
	end("a1", "m1", "z1", "revived", "again")
	var h history
	archive := func() {
		for _, s := range b.View.Staged(100, 1<<40) {
			h = append(h, s.Ended())
		}
		flushAll(b.Machine)
	}
	b.ok(retryOp("revived"))
	b.ok(retryOp("again"))
	archive()
	b.walls = []int64{startClock + int64(sevenDays) + 1000}
	b.pass(1000) // the existing tombstones are dropped
	b.ok(cancelOp("again"))
	end("a2", "m2")
	archive()
	end("a3", "z2")
	b.submit("live")
	for limit := 1; limit < 14; limit++ {
		for want, f := range map[string]rota.JobFilter{
			"[live revived z2 a3 m2 a2 again z1 m1 a1]": {}, "[z2 a3 m2 a2 again z1 m1 a1]": {State: rota.JobCancelled},
			"[live revived]": {State: rota.JobQueued},
			"[]":             {Tenant: "nobody"},
		} {
			f.Limit = limit
			got := []rota.JobID{}
			for {
				page, err := b.View.Jobs().Page(f, h)
				if err != nil || len(page.Jobs) > limit {
					t.Fatal(len(page.Jobs), err)
				}
				for _, j := range page.Jobs {
					if got = append(got, j.ID); j.RecordDropped || len(j.Payload) == 0 {
						t.Fatalf("%+v", j)
					}
				}
				if f.Cursor = page.NextCursor; f.Cursor == "" {
					break
				}
			}
			if fmt.Sprint(got) != want {
				t.Fatalf("pages of %d: got %v, want %s", limit, got, want)
			}
		}
	}
}

// TestRecordBytesCountAllThatAUserFills checks that a record's heap is bounded by its counted bytes, whichever of a
// job's lists are filled to their limits.
func TestRecordBytesCountAllThatAUserFills(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("k", rota.MaxLabelBytes)
	lists := map[string]func(*rota.JobSpec){
		"requires":  func(s *rota.JobSpec) { s.Requires = slices.Repeat([]string{text}, rota.MaxLabels) },
		"data_keys": func(s *rota.JobSpec) { s.DataKeys = slices.Repeat([]string{text}, rota.MaxDataKeys) },
		"headers": func(s *rota.JobSpec) {
			s.Headers = map[string]string{"baggage": strings.Repeat("b", rota.MaxHeadersBytes-7)}
		},
		"limits": func(s *rota.JobSpec) {
			s.Limits = map[string]int64{}
			for i := range rota.MaxLimits {
				s.Limits[fmt.Sprint(text[:100], i)] = 1
			}
		},
	}
	bare := (&state.Record{Spec: new(state.Specs).Keep(jobSpec("j"))}).Bytes()
	for name, fill := range lists {
		full := &state.Record{Spec: new(state.Specs).Keep(jobSpec("j", fill))}
		e := state.Encoder{}
		state.EncodeSpec(&e, full.Spec)
		if got, least := full.Bytes()-bare, int64(len(e.B))/2; got < least {
			t.Errorf("%s to their limit count for %d bytes, the record has %d more", name, got, len(e.B))
		}
	}
}

// TestStaged_byQueue compares the reported numbers of staged records per queue with the records, as they come and go.
func TestStaged_byQueue(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(queueOp("other"))
	want := func(m *Machine, first, other int64) {
		t.Helper()
		for name, n := range map[rota.QueueName]int64{"default": first, "other": other} {
			if q, _ := m.View.Queue(name); q.Staged != n || q.CancelledTotal != 2 {
				t.Fatalf("queue %s reports %d staged jobs, want %d", name, q.Staged, n)
			}
		}
	}
	for i, queue := range []rota.QueueName{"default", "other", "default", "other"} {
		id := string(rune('a' + i))
		b.submit(id, func(s *rota.JobSpec) { s.Queue = queue })
		b.ok(cancelOp(id))
	}
	want(b.Machine, 2, 2)
	want(b.restored(), 2, 2)
	b.View.Archived([]uint64{1, 1, 2, 3})
	want(b.Machine, 0, 1)
	flushAll(b.Machine)
	want(b.Machine, 0, 0)
}
