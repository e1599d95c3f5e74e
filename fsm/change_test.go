package fsm

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

func to[T any](v T) *T { return &v }

// changeOf returns a change of a job in its present state.
func (b *bench) changeOf(c rota.JobChange) *fsmpb.Op {
	job, _ := b.View.Job(c.ID)
	return ChangeJobOp(&c, job.Life, job.Changes)
}

// order completes all jobs of the default queue and returns the order in which one worker gets them.
func (b *bench) order(n int) (ids []rota.JobID) {
	b.worker("taker", 1)
	for range n {
		for id, l := range b.match() {
			ids = append(ids, id)
			b.ok(verb(rota.VerbComplete, l))
		}
	}
	return ids
}

// TestChange checks changes of pending jobs against SPEC §21.2.
func TestChange(t *testing.T) {
	t.Parallel()
	urgent := func(id rota.JobID) rota.JobChange { return rota.JobChange{ID: id, Priority: to[int32](0)} }
	t.Run("tells_and_keeps", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.submit("j", func(s *rota.JobSpec) { s.Labels, s.TTL = map[string]string{"a": "1", "b": "2"}, time.Minute })
		before := b.state("j", rota.JobQueued)
		b.pass(1_000)
		payload := rota.Blob("other")
		a := b.entry(b.changeOf(rota.JobChange{ID: "j", Priority: to[int32](1), Fee: to[int64](7),
			TTL: to(5 * time.Second), Labels: map[string]string{"b": "", "c": "3"}, Payload: &payload}))
		if err := entry.OutcomeError(a.Outcomes[0]); err != nil {
			t.Fatal(err)
		}
		if len(a.Events) != 1 || a.Events[0].Kind != rota.EventJobChanged || a.Events[0].Payload !=
			`{"priority":1,"fee":7,"labels":{"b":"","c":"3"},"ttl_ms":5000,"payload_bytes":5}` {
			t.Fatalf("%+v", a.Events)
		}
		job := b.state("j", rota.JobQueued)
		if job.Priority != 1 || job.Fee != 7 || string(job.Payload) != "other" || len(job.Labels) != 2 ||
			job.Labels["a"] != "1" ||
			job.Labels["c"] != "3" || job.Enqueued != before.Enqueued || job.Submitted != before.Submitted ||
			job.Changes != 1 {
			t.Fatalf("%+v", job)
		}
		// The submission is identified by the submitted content.
		first := jobSpec("j", func(s *rota.JobSpec) {
			s.Labels, s.TTL = map[string]string{"a": "1", "b": "2"}, time.Minute
		})
		if o := b.ok(submitOp(first)); !o.GetExisted() {
			t.Fatalf("%v", o)
		}
		b.refuses(rota.KindConflict, "id", submitOp(&job.JobSpec))
		b.pass(3_999) // its time to live counts from the submission
		b.state("j", rota.JobQueued)
		b.pass(1)
		b.state("j", rota.JobExpired)
		if o := b.ok(submitOp(first)); !o.GetExisted() {
			t.Fatalf("%v", o)
		}
		b.ok(retryOp("j")) // with its changes
		if job := b.state("j", rota.JobQueued); job.Priority != 1 || job.Changes != 0 {
			t.Fatalf("%+v", job)
		}
		b.refuses(rota.KindConflict, "id", submitOp(&job.JobSpec))
	})
	t.Run("keeps_the_place_of_its_age", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("default", "ranking", "aging", "aging_factor", "1000", "oldest_every", "0"))
		for _, id := range []string{"a", "b", "c"} { // a second of age is worth a step of priority
			b.submit(id)
			b.pass(500)
		}
		b.ok(b.changeOf(rota.JobChange{ID: "c", Priority: to[int32](4)})) // older by 1 s for a, by half for b
		b.ok(b.changeOf(rota.JobChange{ID: "a", Priority: to[int32](6)}))
		if got := b.order(3); !slices.Equal(got, []rota.JobID{"c", "b", "a"}) {
			t.Fatalf("%v", got)
		}
	})
	t.Run("stays_in_line_under_fifo", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("default", "ranking", "fifo", "fair_share", "off"))
		for _, id := range []string{"a", "b", "c"} {
			b.submit(id)
		}
		b.ok(b.changeOf(urgent("b")))
		if got := b.order(3); !slices.Equal(got, []rota.JobID{"a", "b", "c"}) {
			t.Fatalf("%v", got)
		}
	})
	t.Run("goes_to_the_back_of_another_tier", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("default", "ranking", "adaptive"))
		b.submit("low", priority(8))
		b.submit("other", priority(2))
		b.pass(66_000) // low was promoted
		if job := b.state("low", rota.JobQueued); job.Tier != 2 {
			t.Fatalf("%+v", job)
		}
		b.ok(b.changeOf(rota.JobChange{ID: "low",
			Priority: to[int32](7)})) // of the same tier: it keeps the tier it reached
		if job := b.state("low", rota.JobQueued); job.Tier != 2 {
			t.Fatalf("%+v", job)
		}
		b.ok(b.changeOf(rota.JobChange{ID: "low", Priority: to[int32](2)}))
		low, other := b.JobTable.Get("low"), b.JobTable.Get("other")
		if low.Tier != 1 || low.TierSeq < other.TierSeq || low.Enqueued != other.Enqueued {
			t.Fatalf("%+v, %+v", low.LifeWords, other.LifeWords)
		}
		b.ok(b.changeOf(rota.JobChange{ID: "low", Priority: to[int32](10)}))
		if job := b.state("low", rota.JobQueued); job.Tier != 4 {
			t.Fatalf("%+v", job)
		}
	})
	t.Run("of_one_that_is_delayed", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.submit("j", func(s *rota.JobSpec) { s.Delay = 5 * time.Second })
		b.ok(b.changeOf(urgent("j")))
		b.state("j", rota.JobDelayed)
		b.pass(5_000)
		if job := b.state("j", rota.JobQueued); job.Priority != 0 {
			t.Fatalf("%+v", job)
		}
	})
	t.Run("once", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.submit("j")
		op := b.changeOf(urgent("j"))
		b.ok(op)
		b.worker("w", 1)
		if o := b.ok(op); !o.GetExisted() { // no other change came between
			t.Fatalf("%v", o)
		}
		b.ok(b.changeOf(rota.JobChange{ID: "j", Priority: to[int32](9)}))
		b.refuses(rota.KindStale, "changes", op) // a late repetition does not undo later changes
		b.ok(cancelOp("j"))
		b.ok(retryOp("j"))
		op2 := b.changeOf(urgent("j"))
		if op2.GetChangeJob().Life != 1 {
			t.Fatalf("%v", op2)
		}
		b.refuses(rota.KindStale, "changes", op)
		a := b.entry(b.changeOf(rota.JobChange{ID: "j", Priority: to[int32](9)})) // as it is
		if !a.Outcomes[0].GetExisted() || len(a.Events) != 0 {
			t.Fatalf("%v, %v", a.Outcomes, a.Events)
		}
	})
	t.Run("refuses", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.refuses(rota.KindNotFound, "job", b.changeOf(urgent("nobody")))
		l := b.leased("j", "w")
		b.refuses(rota.KindConflict, "job", b.changeOf(urgent("j")))
		b.ok(verb(rota.VerbAck, l))
		b.refuses(rota.KindConflict, "job", b.changeOf(urgent("j")))
		b.ok(verb(rota.VerbComplete, l))
		b.refuses(rota.KindConflict, "job", b.changeOf(urgent("j")))
		b.submit("k", func(s *rota.JobSpec) {
			s.Labels = make(map[string]string)
			for i := range rota.MaxLabels {
				s.Labels[strings.Repeat("k", i+1)] = "v"
			}
		})
		large := rota.Blob(make([]byte, rota.MaxPayloadBytes+1))
		for field, c := range map[string]rota.JobChange{
			"change":   {ID: "k"},
			"priority": {ID: "k", Priority: to[int32](11)},
			"fee":      {ID: "k", Fee: to[int64](-1)},
			"ttl_ms":   {ID: "k", TTL: to(-time.Millisecond)},
			"payload":  {ID: "k", Payload: &large},
			"labels":   {ID: "k", Labels: map[string]string{"one more": "v"}},
		} {
			b.refuses(rota.KindInvalid, field, b.changeOf(c))
		}
		d := diamond("wf")
		b.upload(d)
		b.ok(d.commit())
		b.refuses(rota.KindConflict, "job", b.changeOf(urgent("wf/n0")))
		b.refuses(rota.KindConflict, "job", b.changeOf(urgent("wf/n3"))) // it is BLOCKED
	})
	t.Run("a_change_of_a_held_worker's_job_keeps_the_hold", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.every = 25
		b.ok(queueOp("default", "oldest_every", "0", "lease_ms", "3600000", "ack_timeout", "3600000"))
		b.worker("w", 1)
		b.submit("first")
		b.match()
		b.submit("waits")
		for range 40 {
			b.pass(1_000)
			b.match()
		}
		if b.placement.holds.Len() != 1 {
			t.Fatalf("got %d holds, want one for the pending job", b.placement.holds.Len())
		}
		b.ok(b.changeOf(urgent("waits")))
		if b.placement.holds.Len() != 1 {
			t.Fatal("the hold ended")
		}
	})
}

// TestChange_startBy checks that a pending job accepts another deadline for its start, which ends it like one given at
// submission, and is removed by 0. It belongs to rules version 2.
func TestChange_startBy(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.submit("early")
	b.refuses(rota.KindConflict, "rules_version", b.changeOf(rota.JobChange{ID: "early", StartBy: to(time.Second)}))
	b.ok(switchOp(entry.RulesVersion))
	b.submit("late", func(s *rota.JobSpec) { s.StartBy, s.Delay = 10*time.Second, 5*time.Second })
	b.submit("never", func(s *rota.JobSpec) { s.StartBy = 3 * time.Second })
	b.refuses(rota.KindInvalid, "start_by_ms", b.changeOf(rota.JobChange{ID: "late", StartBy: to(5 * time.Second)}))
	b.refuses(rota.KindInvalid, "start_by_ms", b.changeOf(rota.JobChange{ID: "never", StartBy: to(-time.Millisecond)}))
	b.ok(queueOp("default", "ttl_abs", "1s")) // it does not affect existing jobs
	a := b.entry(b.changeOf(rota.JobChange{ID: "early", StartBy: to(4 * time.Second)}))
	if err := entry.OutcomeError(a.Outcomes[0]); err != nil || a.Events[0].Payload != `{"start_by_ms":4000}` {
		t.Fatal(err, a.Events)
	}
	b.ok(b.changeOf(rota.JobChange{ID: "never", StartBy: to(time.Duration(0))}))
	b.sound()
	b.pass(3_999)
	b.state("early", rota.JobQueued)
	b.pass(1)
	b.expired("early", rota.ReasonStartBy)
	b.pass(6_000)
	b.expired("late", rota.ReasonStartBy)
	b.state("never", rota.JobQueued)
	b.sound()
}
