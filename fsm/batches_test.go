package fsm

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
)

// batchOp opens a batch.
func batchOp(id string, size int64, change ...func(*rota.JobSpec)) *fsmpb.Op {
	s := rota.BatchSpec{ID: rota.BatchID(id), Size: size, Callback: *jobSpec("", change...)}
	return entry.BatchOp(&s)
}

// member returns a job of a batch.
func member(id, batch string, change ...func(*rota.JobSpec)) *rota.JobSpec {
	return jobSpec(id, append(change, func(s *rota.JobSpec) { s.Batch = rota.BatchID(batch) })...)
}

// batch returns a known batch.
func (b *bench) batch(id string) rota.Batch {
	b.t.Helper()
	got, ok := BatchOf(&b.View, rota.BatchID(id))
	if !ok {
		b.t.Fatalf("batch %s is not known", id)
	}
	return got
}

// counts checks the counts of a batch: state, then total, live, completed, dead, expired and cancelled.
func (b *bench) counts(id, want string) {
	b.t.Helper()
	x := b.batch(id)
	if got := fmt.Sprint(x.State, x.Total, x.Live, x.Completed, x.Dead, x.Expired, x.Cancelled); got != want {
		b.t.Fatalf("batch %s is %s, want %s", id, got, want)
	}
}

// callbacks counts the events of submitted callbacks.
func callbacks(events []rota.Event) (n int) {
	for _, e := range events {
		if e.Kind == rota.EventBatchFinished {
			n++
		}
	}
	return n
}

// TestBatch checks that the callback is submitted once, in the entry that ends the last job of a sealed batch.
func TestBatch(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(queueOp("default", "attempt_max", "1"))
	b.ok(batchOp("b", 0, func(s *rota.JobSpec) { s.Labels, s.Priority = map[string]string{"own": "1"}, 2 }))
	for i := range 4 {
		b.ok(submitOp(member(fmt.Sprint("j", i), "b",
			func(s *rota.JobSpec) { s.TTL = time.Duration(i/3) * time.Second })))
	}
	b.counts("b", "OPEN 4 4 0 0 0 0")
	if o := b.ok(submitOp(member("j0", "b"))); !o.GetExisted() {
		t.Error("the same submission counts again")
	}
	b.ok(cancelOp("j0"))
	b.worker("w", 2)
	for id, l := range b.match() {
		b.ok(verb(map[rota.JobID]rota.LeaseVerb{"j1": rota.VerbComplete, "j2": rota.VerbFail}[id], l))
	}
	if events := b.pass(2_000); callbacks(events) > 0 {
		t.Fatal("an open batch has ended")
	}
	b.counts("b", "OPEN 4 0 1 1 1 1")
	b.restored()
	a := b.entry(entry.SealOp("b"))
	if callbacks(a.Events) != 1 {
		t.Fatalf("%v", a.Events)
	}
	job := b.state("b@done", rota.JobQueued)
	want := map[string]string{"own": "1", "rota.total": "4", "rota.completed": "1", "rota.dead": "1",
		"rota.expired": "1", "rota.cancelled": "1"}
	if !maps.Equal(job.Labels, want) || job.Priority != 2 {
		t.Errorf("%v, priority %d", job.Labels, job.Priority)
	}
	if x := b.batch("b"); x.Callback != "b@done" || x.Finished.IsZero() || x.Sealed.IsZero() {
		t.Errorf("%+v", x)
	}
	b.existed(entry.SealOp("b")) // over
	b.restored()
}

// TestBatch_later checks that jobs that run again after the end only change counts.
func TestBatch_later(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(batchOp("b", 2))
	b.entry(submitOp(member("j1", "b")), submitOp(member("j2", "b")))
	b.counts("b", "SEALED 2 2 0 0 0 0")
	b.existed(entry.SealOp("b")) // its size sealed it
	b.refuses(rota.KindConflict, "batch", submitOp(member("j3", "b")))
	b.ok(cancelOp("j1"))
	b.ok(retryOp("j1")) // live again before the end
	b.ok(cancelOp("j2"))
	b.counts("b", "SEALED 2 1 0 0 0 1")
	if a := b.entry(cancelOp("j1")); callbacks(a.Events) != 1 {
		t.Fatal(a.Events)
	}
	b.ok(retryOp("j1"))
	b.counts("b", "FINISHED 2 1 0 0 0 1")
	b.ok(cancelOp("b@done"))
	b.restored()
	if a := b.entry(cancelOp("j1")); callbacks(a.Events) != 0 {
		t.Fatal(a.Events)
	}
	b.counts("b", "FINISHED 2 0 0 0 0 2")
	b.ok(retryOp("b@done"))
	b.ok(b.deleteOf("j2"))
	b.counts("b", "FINISHED 2 0 0 0 0 2") // a deleted job has ended
	b.refuses(rota.KindConflict, "batch", submitOp(member("j2", "b")))
}

// TestBatch_proof checks that a revoked completion is live again in its batch.
func TestBatch_proof(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(queueOp("default", "audit_window", "1h"))
	b.ok(batchOp("b", 1))
	l := b.completed("j", "w", func(s *rota.JobSpec) { s.RetryOnInvalidProof, s.Batch = true, "b" })
	b.counts("b", "FINISHED 1 0 1 0 0 0")
	b.ok(reportOp(l, func(s *rota.JobSpec) { s.RetryOnInvalidProof, s.Batch = true, "b" }))
	b.counts("b", "FINISHED 1 1 0 0 0 0")
	b.ok(cancelOp("j"))
	b.counts("b", "FINISHED 1 0 0 0 0 1")
}

// TestBatch_seals checks that a batch is sealed by its size, by hand, or a day after its last job, on the date.
func TestBatch_seals(t *testing.T) {
	t.Parallel()
	b := newClockwork(t)
	b.ok(batchOp("empty", 0))
	if a := b.entry(entry.SealOp("empty")); callbacks(a.Events) != 1 {
		t.Fatal(a.Events)
	}
	if got := b.state("empty@done", rota.JobQueued).Labels["rota.total"]; got != "0" {
		t.Error(got)
	}
	b.ok(batchOp("b", 0))
	b.ok(batchOp("full", 1))
	b.tick(rota.Clock(limits.BatchSeals) - 1_000)
	b.ok(submitOp(member("j", "b")))
	b.tick(2_000)
	b.counts("b", "OPEN 1 1 0 0 0 0")
	b.counts("full", "FINISHED 0 0 0 0 0 0")
	if date, ok := b.View.NextDate(); !ok || date != b.batch("b").SealsAt {
		t.Errorf("the next date is %s, want %s", date, b.batch("b").SealsAt)
	}
	b.tick(rota.Clock(limits.BatchSeals))
	b.counts("b", "SEALED 1 1 0 0 0 0")
	b.ok(cancelOp("j"))
	b.counts("b", "FINISHED 1 0 0 0 0 1")
	b.restored()
}

// TestBatch_refused checks that invalid batches, and invalid members, change nothing.
func TestBatch_refused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(tenantOp("acme"))
	b.ok(batchOp("b", 2))
	b.refuses(rota.KindNotFound, "batch", submitOp(member("j", "other")))
	b.refuses(rota.KindNotFound, "batch", submitOp(member("j", "b", func(s *rota.JobSpec) { s.Tenant = "acme" })))
	b.refuses(rota.KindInvalid, "batch", submitOp(member("j", strings.Repeat("b", rota.MaxBatchID+1))))
	b.refuses(rota.KindInvalid, "batch", scheduleOp("s", func(s *rota.ScheduleSpec) { s.Job.Batch = "b" }))
	b.refuses(rota.KindNotFound, "queue", submitOp(member("j", "b", func(s *rota.JobSpec) { s.Queue = "other" })))
	b.refuses(rota.KindConflict, "id", batchOp("b", 3))
	b.refuses(rota.KindConflict, "id", batchOp("b", 2, func(s *rota.JobSpec) { s.Priority = 1 }))
	if o := b.ok(batchOp("b", 2)); !o.GetExisted() {
		t.Error("opened twice")
	}
	for subject, op := range map[string]*fsmpb.Op{
		"id":       batchOp(strings.Repeat("b", rota.MaxBatchID+1), 0),
		"size":     batchOp("c", -1),
		"callback": batchOp("c", 0, func(s *rota.JobSpec) { s.ID = "x" }),
		"batch":    batchOp("c", 0, func(s *rota.JobSpec) { s.Batch = "b" }),
		"unique":   batchOp("c", 0, func(s *rota.JobSpec) { s.Unique = &rota.Unique{Key: "k"} }),
		"labels":   batchOp("c", 0, func(s *rota.JobSpec) { s.Labels = map[string]string{"rota.dead": "0"} }),
		"priority": batchOp("c", 0, func(s *rota.JobSpec) { s.Priority = 11 }),
	} {
		b.refuses(rota.KindInvalid, subject, op)
	}
	many := batchOp("c", 0)
	for i := range rota.MaxLabels - 4 {
		many.GetOpenBatch().Callback.Labels = append(many.GetOpenBatch().Callback.Labels,
			&fsmpb.Label{Key: fmt.Sprint("k", i), Value: "v"})
	}
	b.refuses(rota.KindInvalid, "labels", many)
	b.refuses(rota.KindNotFound, "queue", batchOp("c", 0, func(s *rota.JobSpec) { s.Queue = "other" }))
	b.refuses(rota.KindNotFound, "batch", entry.SealOp("other"))
	// Refused jobs of an entry are not counted, nor are merged ones.
	held := func(s *rota.JobSpec) { s.Unique = &rota.Unique{Key: "k", OnConflict: rota.UniqueExisting} }
	a := b.entry(submitOp(member("j1", "b", held)), submitOp(member("j2", "b", held)),
		submitOp(member("j3", "b", func(s *rota.JobSpec) { s.Priority = 11 })))
	if !a.Outcomes[1].GetExisted() || a.Outcomes[1].GetHolder() != "j1" {
		t.Errorf("%v", a.Outcomes)
	}
	b.counts("b", "OPEN 1 1 0 0 0 0")
	d := newDAG("f", [][]uint32{nil}, func(d *dag) { d.Nodes[0].Batch = "b" })
	b.ok(d.open())
	b.refuses(rota.KindInvalid, "batch", d.add()[0])
}

// TestBatch_queue checks that the queue of a callback cannot be deleted while the callback is pending.
func TestBatch_queue(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(queueOp("q"))
	b.ok(batchOp("b", 0, func(s *rota.JobSpec) { s.Queue = "q" }))
	b.refuses(rota.KindConflict, "queue", deleteQueueOp("q"))
	b.refuses(rota.KindConflict, "queue", drainOp("q", "default"))
	b.ok(entry.SealOp("b"))
	b.ok(cancelOp("b@done"))
	b.ok(deleteQueueOp("q"))
	b.counts("b", "FINISHED 0 0 0 0 0 0")
	b.restored()
}

// TestBatch_uncapped checks that caps, rates and modes do not stop a callback; requirement sets do, and then it is
// tried again each second, with one event for all tries.
func TestBatch_uncapped(t *testing.T) {
	t.Parallel()
	long(t)
	b := newClockwork(t)
	b.every = 1 << 20
	b.ok(batchOp("b", 0))
	b.ok(batchOp("c", 0, func(s *rota.JobSpec) { s.Requires = []string{"rare"} }))
	b.ok(queueOp("default", "queue_cap", fmt.Sprint(limits.MaxClassesPerQueue+1), "reject_threshold", "0"))
	for i := range limits.MaxClassesPerQueue {
		b.submit(fmt.Sprint("j", i), func(s *rota.JobSpec) { s.Requires = []string{fmt.Sprint("x", i)} })
	}
	b.ok(queueOp("default", "queue_cap", "1", "rate_limit_rps", "1"))
	b.ok(entry.SealOp("c"))
	if x := b.batch("c"); x.State != rota.BatchSealed || !strings.Contains(x.Why, "requirement sets") {
		t.Fatalf("%+v", x)
	}
	b.restored()
	var told []rota.Event
	for range 3 {
		b.walls[0] += 1_000
		b.walls[1], b.walls[2] = b.walls[0], b.walls[0]
		for _, e := range b.entry(sweepOp()).Events {
			if e.Kind == rota.EventBatchWaits {
				told = append(told, e)
			}
		}
	}
	if len(told) > 0 {
		t.Errorf("the same is reported again: %v", told)
	}
	b.refuses(rota.KindExhausted, "queue", submitOp(jobSpec("more")))
	b.ok(modeOp(rota.ModeReadOnly, "test"))
	b.ok(cancelOp("j0"))
	b.tick(9_000)
	b.counts("c", "FINISHED 0 0 0 0 0 0")
	b.ok(modeOp(rota.ModeNormal, "test"))
	b.ok(cancelOp("j1"))
	b.ok(entry.SealOp("b"))
	b.counts("b", "FINISHED 0 0 0 0 0 0")
}

// TestBatch_again checks that an id is known as long as its callback is.
func TestBatch_again(t *testing.T) {
	t.Parallel()
	b := newClockwork(t)
	b.ok(queueOp("default", "gc_horizon", "1h"))
	b.ok(queueOp("long", "gc_horizon", "30d"))
	b.ok(batchOp("b", 2))
	b.entry(submitOp(member("j1", "b", func(s *rota.JobSpec) { s.Queue = "long" })),
		submitOp(member("j2", "b", func(s *rota.JobSpec) { s.Queue = "long" })))
	b.entry(cancelOp("j1"), cancelOp("j2"))
	b.ok(retryOp("j2"))
	b.tick(3_700_000)
	b.counts("b", "FINISHED 2 1 0 0 0 1") // kept for the live job
	b.ok(cancelOp("j2"))
	b.tick(1)
	b.refuses(rota.KindNotFound, "batch", entry.SealOp("b"))
	b.refuses(rota.KindConflict, "id", batchOp("b", 2))
	b.ok(cancelOp("b@done"))
	b.tick(3_700_000)
	b.ok(batchOp("b", 2))
	// Jobs of the earlier batch do not belong to the new one.
	b.ok(retryOp("j1"))
	b.counts("b", "OPEN 0 0 0 0 0 0")
	b.ok(cancelOp("j1"))
	b.counts("b", "OPEN 0 0 0 0 0 0")
	b.restored()
}

// TestBatch_reborn checks that batches of another cluster's state continue.
func TestBatch_reborn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(batchOp("b", 1))
	b.leased("j", "w", func(s *rota.JobSpec) { s.Batch = "b" })
	m := b.restored()
	if err := m.Reincarnate(Rebirth{Cluster: "another"}); err != nil {
		t.Fatal(err)
	}
	if x, _ := BatchOf(&m.View, "b"); x.State != rota.BatchSealed || x.Live != 1 {
		t.Errorf("%+v", x)
	}
}

// TestBatch_ofMany checks that a batch of 110,000 jobs takes no larger row than one of a thousand, and that its
// callback comes once, with the last of them.
func TestBatch_ofMany(t *testing.T) {
	t.Parallel()
	long(t)
	const jobs, together = 110_000, 1_000
	b := newBench(t)
	b.ok(queueOp("default", "attempt_max", "1"))
	b.ok(batchOp("b", 0))
	m := b.Machine // the bench's twin and its checks would cost a minute
	var finished, refused int
	entries := func(each func(i int) *fsmpb.Op) (row int) {
		for first := 0; first < jobs; first += together {
			ops := make([]*fsmpb.Op, together)
			for i := range ops {
				ops[i] = each(first + i)
			}
			data, err := entry.Seal(&fsmpb.Entry{Term: b.term, NowMs: int64(b.now), Ops: ops}, m.Header.Rules)
			if err != nil {
				t.Fatal(err)
			}
			a, err := m.Apply(m.Header.Index+1, b.term, data)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range a.Outcomes {
				if o.GetKind() != 0 {
					refused++
				}
			}
			finished += callbacks(a.Events)
			flushAll(m) // ended jobs go to the archive
			if first == 0 {
				row = rowBytes(m, "b")
			}
		}
		return rowBytes(m, "b") - row
	}
	id := func(i int) string { return fmt.Sprint("j", i) }
	if more := entries(func(i int) *fsmpb.Op { return submitOp(member(id(i), "b")) }); more > 16 {
		t.Errorf("the row of %d jobs has %d bytes more than that of %d", jobs, more, together)
	}
	b.counts("b", "OPEN 110000 110000 0 0 0 0")
	if _, err := m.Apply(m.Header.Index+1, b.term, sealed(t, m, b, entry.SealOp("b"))); err != nil || finished > 0 {
		t.Fatal(err, finished)
	}
	entries(func(i int) *fsmpb.Op { return cancelOp(id(i)) })
	b.counts("b", "FINISHED 110000 0 0 0 0 110000")
	if job, ok := m.View.Job("b@done"); !ok || job.Labels["rota.total"] != "110000" ||
		job.Labels["rota.cancelled"] != "110000" || finished != 1 || refused > 0 {
		t.Errorf("%v, the callback came %d times, %d operations were refused", job.Labels, finished, refused)
	}
	if faults := m.Check(); len(faults) > 0 {
		t.Errorf("%.300q", faults)
	}
}

// sealed returns an entry of one operation.
func sealed(t *testing.T, m *Machine, b *bench, op *fsmpb.Op) []byte {
	t.Helper()
	data, err := entry.Seal(&fsmpb.Entry{Term: b.term, NowMs: int64(b.now), Ops: []*fsmpb.Op{op}}, m.Header.Rules)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// rowBytes returns the length of a batch's row.
func rowBytes(m *Machine, id rota.BatchID) int {
	var e state.Encoder
	m.batches.Rows.Get(id).Canonical(&e)
	return len(e.B)
}

// TestBatch_keptForItsCallback checks that a batch is not forgotten while its callback waits, runs, or was retried, and
// for the gc_horizon of its queue after that has ended.
func TestBatch_keptForItsCallback(t *testing.T) {
	t.Parallel()
	b := newClockwork(t)
	b.ok(switchOp(2))
	b.ok(queueOp("default", "gc_horizon", "1m", "audit_window", "1m", "attempt_max", "1", "lease_ms", "900000",
		"ack_timeout_ms", "900000"))
	b.ok(batchOp("b", 0))
	b.ok(entry.SealOp("b"))
	b.state("b@done", rota.JobQueued)
	hour := func() {
		for range 60 {
			b.tick(60_000)
		}
	}
	hour()
	b.counts("b", "FINISHED 0 0 0 0 0 0")
	b.worker("w", 1)
	l := b.match()["b@done"]
	hour()
	b.batch("b")
	b.ok(verb(rota.VerbFail, l))
	b.ok(retryOp("b@done"))
	hour()
	b.batch("b")
	b.ok(verb(rota.VerbComplete, b.match()["b@done"]))
	b.tick(30_000)
	b.batch("b")
	hour()
	if _, ok := BatchOf(&b.View, "b"); ok {
		t.Error("the batch is known an hour after its callback has ended")
	}
	b.sound()
}
