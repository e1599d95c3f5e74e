package fsm

import (
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/peer"
)

// TestSameID checks submissions of a known id against SPEC §16.5.
func TestSameID(t *testing.T) {
	t.Parallel()
	others := []func(*rota.JobSpec){
		func(s *rota.JobSpec) { s.Type = "else" },
		func(s *rota.JobSpec) { s.Payload = []byte("else") },
		func(s *rota.JobSpec) { s.Queue, s.Priority = "no such", 99 },
		func(s *rota.JobSpec) { s.Tenant = "else" },
		func(s *rota.JobSpec) { s.Delay = 5 * time.Millisecond },
		func(s *rota.JobSpec) { s.NotBefore = rota.Date(5).Time() },
		func(s *rota.JobSpec) { s.Labels = map[string]string{"b": "2", "a": "2"} },
	}
	spec := func() *rota.JobSpec {
		return jobSpec("j", func(s *rota.JobSpec) {
			s.Labels, s.Headers = map[string]string{"a": "1", "b": "2"}, map[string]string{"traceparent": "00-1"}
		})
	}
	hold := func(t *testing.T, b *bench, state rota.JobState) {
		t.Helper()
		again := submitOp(spec())
		again.GetSubmit().Minted = true // is not part of the job
		traced := spec()
		traced.Headers = map[string]string{"traceparent": "00-2"} // nor are headers part of the content
		for _, op := range []*fsmpb.Op{submitOp(spec()), again, submitOp(traced)} {
			if o := b.ok(op); !o.GetExisted() || rota.JobState(o.GetJobState()) != state {
				t.Fatalf("the same content: outcome %v, want %s", o, state)
			}
		}
		for i, change := range others {
			s := spec()
			change(s)
			if o := b.refuses(rota.KindConflict, "id", submitOp(s)); rota.JobState(o.GetJobState()) != state {
				t.Fatalf("change %d: outcome %v has another state than %s", i, o, state)
			}
		}
	}
	t.Run("in_every_state", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(submitOp(spec()))
		b.ok(queueOp("default", "queue_cap", "1")) // a known id is answered before admission
		hold(t, b, rota.JobQueued)
		b.worker("w", 1)
		l := b.match()["j"]
		hold(t, b, rota.JobAssigned)
		b.ok(verb(rota.VerbFail, l, func(c *peer.LeaseCommand) { c.Fail = peer.FailNoRetry }))
		hold(t, b, rota.JobDead)
		b.ok(retryOp("j"))
		hold(t, b, rota.JobQueued)
		b.ok(cancelOp("j"))
		hold(t, b, rota.JobCancelled)
	})
	t.Run("in_one_entry", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		s := spec()
		s.Fee = 7
		a := b.entry(submitOp(spec()), submitOp(s), submitOp(spec()))
		if o := a.Outcomes[0]; o.GetExisted() || entry.OutcomeError(o) != nil {
			t.Fatalf("the first: %v", o)
		}
		if err := entry.OutcomeError(a.Outcomes[1]); err == nil || err.Kind != rota.KindConflict ||
			err.Subject != "id" {
			t.Fatalf("another job: %v", err)
		}
		if o := a.Outcomes[2]; !o.GetExisted() || entry.OutcomeError(o) != nil {
			t.Fatalf("the first again: %v", o)
		}
	})
	t.Run("archived", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(submitOp(spec()))
		b.ok(cancelOp("j"))
		s, _ := b.View.StagedJob("j")
		e, err := DecodeEnded(s.Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		if o := e.Again(entry.SpecOp(spec())); !o.GetExisted() || rota.JobState(o.GetJobState()) != rota.JobCancelled {
			t.Fatalf("the same content: %v", o)
		}
		for i, change := range others {
			s := spec()
			change(s)
			if err := entry.OutcomeError(e.Again(entry.SpecOp(s))); err == nil || err.Kind != rota.KindConflict ||
				err.Subject != "id" {
				t.Fatalf("change %d: %v", i, err)
			}
		}
	})
	t.Run("of_a_workflow", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		d := diamond("wf")
		b.upload(d)
		b.ok(d.commit())
		other := diamond("wf", func(d *dag) { d.Nodes[1].Payload = []byte("else") })
		for range 2 {
			if o := b.ok(diamond("wf").open()); !o.GetExisted() {
				t.Fatalf("the same content: %v", o)
			}
			b.refuses(rota.KindConflict, "id", other.open())
			b.ok(d.cancel())
		}
	})
}
