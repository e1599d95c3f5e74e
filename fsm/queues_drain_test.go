package fsm

import (
	"fmt"
	"slices"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
)

func drainOp(name, to string) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_DeleteQueue{DeleteQueue: &fsmpb.DeleteQueue{Name: name, DrainTo: to}}}
}

// inQueue lists the live jobs of a queue, in the order of their ids.
func (b *bench) inQueue(name rota.QueueName) (ids []rota.JobID) {
	b.JobTable.Scan(func(id rota.JobID, j *state.JobRow) bool {
		if j.Spec.Queue == name {
			ids = append(ids, id)
		}
		return true
	})
	return ids
}

func TestDrainQueue(t *testing.T) {
	t.Parallel()
	t.Run("moves_what_waits_and_ends_with_the_last_lease", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("q", "ranking", "adaptive", "backoff_base", "0"))
		b.ok(queueOp("r", "ranking", "adaptive", "queue_cap", "1"))
		b.worker("w", 1, func(w *rota.WorkerSpec) { w.Queues = []rota.QueueName{"q"} })
		b.submit("run", queue("q"))
		l := b.match()["run"]
		b.ok(verb(rota.VerbAck, l))
		b.submit("late", queue("q"), func(s *rota.JobSpec) { s.Delay = 60_000_000_000 })
		b.submit("wait", queue("q"))
		a := b.entry(drainOp("q", "r"))
		if o := a.Outcomes[0]; o.GetKind() != 0 || o.GetLeft() != 1 {
			t.Fatal(o)
		}
		if e := kinds(a.Events, rota.EventJobChanged); len(e) != 2 || e[0].Job != "late" || e[0].Queue != "r" ||
			e[0].Payload != `{"queue":"r"}` {
			t.Errorf("%+v", a.Events)
		}
		b.sound()
		if got := b.inQueue("r"); !slices.Equal(got, []rota.JobID{"late", "wait"}) {
			t.Fatalf("r has %v", got)
		}
		b.state("late", rota.JobDelayed)
		b.state("wait", rota.JobQueued)
		b.refuses(rota.KindConflict, "queue", submitOp(jobSpec("new", queue("q"))))
		b.refuses(rota.KindConflict, "queue", deleteQueueOp("q"))
		if o := b.entry(submitOp(jobSpec("wait", queue("q")))).Outcomes[0]; o.GetKind() != 0 || !o.GetExisted() {
			t.Errorf("a job that moved is submitted again, unchanged: %v", o)
		}
		b.refuses(rota.KindConflict, "id", submitOp(jobSpec("wait", queue("r"))))
		b.ok(verb(rota.VerbFail, l))
		if o := b.ok(drainOp("q", "r")); o.GetLeft() != 0 {
			t.Fatal(o)
		}
		if b.QueueTable.Get("q") != nil || len(b.inQueue("r")) != 3 {
			t.Errorf("q is %v, r has %v", b.QueueTable.Get("q"), b.inQueue("r"))
		}
		if o := b.ok(drainOp("q", "r")); !o.GetExisted() {
			t.Errorf("again: %v", o)
		}
		b.worker("v", 3, func(w *rota.WorkerSpec) { w.Queues = []rota.QueueName{"r"} })
		if got := b.match(); len(got) != 2 {
			t.Errorf("%v get a worker", got)
		}
		b.pass(61_000)
		b.state("late", rota.JobQueued)
		b.sound()
	})
	t.Run("is_bounded_an_entry_and_goes_on_after_a_restore", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.every = 100_000
		b.ok(queueOp("q"))
		b.ok(queueOp("r"))
		const n = 2*limits.DrainMoves + 7
		for i := range n {
			b.submit(fmt.Sprintf("j%05d", i), queue("q"))
		}
		for left := n; left > 0; {
			o := b.ok(drainOp("q", "r"))
			if left -= limits.DrainMoves; int(o.GetLeft()) != max(left, 0) {
				t.Fatalf("%d are left, the answer has %d", left, o.GetLeft())
			}
			b.sound() // which restores it too
		}
		if got := len(b.inQueue("r")); got != n || b.QueueTable.Get("q") != nil {
			t.Errorf("r has %d", got)
		}
	})
	t.Run("refusals", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		for _, q := range []string{"q", "r", "s"} {
			b.ok(queueOp(q))
		}
		b.submit("j", queue("q"))
		b.submit("ended", queue("q"))
		b.ok(cancelOp("ended"))
		b.refuses(rota.KindInvalid, "drain_to", drainOp("q", "q"))
		b.refuses(rota.KindInvalid, "drain_to", drainOp("q", "no such id"))
		b.refuses(rota.KindNotFound, "queue", drainOp("q", "never"))
		b.refuses(rota.KindConflict, "queue", drainOp("default", "r"))
		flow := newDAG("f", [][]uint32{nil})
		for i := range flow.Nodes {
			flow.Nodes[i].Queue = "r"
		}
		for _, op := range []*fsmpb.Op{flow.open(), flow.add()[0], flow.commit()} {
			b.ok(op)
		}
		o := b.ok(drainOp("r", "s"))
		if o.GetLeft() != 1 { // its node stays in the queue of its workflow
			t.Fatal(o)
		}
		b.refuses(rota.KindConflict, "queue", drainOp("q", "r"))
		b.ok(queueOp("r")) // kept in the end
		b.ok(submitOp(jobSpec("k", queue("r"))))
		b.ok(flow.cancel())
		if o := b.ok(drainOp("r", "s")); o.GetLeft() != 1 { // its workflow is remembered
			t.Fatal(o)
		}
		b.refuses(rota.KindConflict, "queue", drainOp("r", "s"))
		b.refuses(rota.KindConflict, "queue", flow.retry("", 1))
		open := newDAG("g", [][]uint32{nil}).open()
		open.GetOpenWorkflow().Queue = "r"
		b.refuses(rota.KindConflict, "queue", open)
		b.ok(drainOp("q", "s"))
		b.refuses(rota.KindNotFound, "queue", retryOp("ended"))
		b.sound()
	})
	t.Run("needs_the_right_over_both", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("q"))
		b.ok(queueOp("r"))
		b.ok(roleOp("one", rota.Grant{Right: rota.RightQueue, Tenant: "*", Queue: "q"}))
		b.ok(roleOp("both", rota.Grant{Right: rota.RightQueue, Tenant: "*", Queue: "*"}))
		b.ok(tokenOp(tokenWish("a", "one")))
		b.ok(tokenOp(tokenWish("b", "both")))
		b.refuses(rota.KindDenied, "queue", by(actorNamed("a"), drainOp("q", "r")))
		b.refuses(rota.KindDenied, "queue", by(actorNamed("a"), drainOp("r", "q")))
		b.ok(by(actorNamed("b"), drainOp("q", "r")))
	})
}

// TestDrainQueue_change checks that a change of a job that moved meanwhile must be based on its new state.
func TestDrainQueue_change(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(queueOp("q"))
	b.submit("j", queue("q"))
	late := b.changeOf(rota.JobChange{ID: "j", Priority: to(int32(1))})
	b.ok(drainOp("q", "default"))
	b.refuses(rota.KindStale, "changes", late)
	if err := entry.OutcomeError(b.entry(b.changeOf(rota.JobChange{ID: "j",
		Priority: to(int32(1))})).Outcomes[0]); err != nil {
		t.Error(err)
	}
}
