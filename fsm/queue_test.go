package fsm

import (
	"fmt"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
)

func TestQueue(t *testing.T) {
	t.Parallel()
	t.Run("changes_order_without_losing_anybodys_place", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.submit("old-low", func(s *rota.JobSpec) { s.Priority = 10 })
		b.pass(1000)
		b.submit("new-high", func(s *rota.JobSpec) { s.Priority = 0 })
		n := 0
		first := func(want rota.JobID) {
			t.Helper()
			n++
			b.worker(fmt.Sprint("w", n), 1)
			l := b.match()
			if _, ok := l[want]; !ok {
				t.Fatalf("placed %v, want %s", l, want)
			}
			for _, lease := range l {
				b.ok(verb(rota.VerbDecline, lease))
			}
			b.ok(statusOp(fmt.Sprint("w", n), rota.WorkerDraining, 0))
			b.pass(1000) // a declined job waits a moment
		}
		first("new-high")
		b.ok(queueOp("default", "ranking", "fifo"))
		first("old-low")
		b.ok(queueOp("default", "ranking", "aging", "aging_factor", "1ms"))
		first("old-low")
		b.ok(queueOp("default", "aging_factor", "10s", "fair_share", "off"))
		first("new-high")
	})
	t.Run("keeps_shares_when_refiled", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.worker("w", 4)
		tenant := func(name rota.TenantID) func(*rota.JobSpec) { return func(s *rota.JobSpec) { s.Tenant = name } }
		for i := range 4 {
			b.submit(fmt.Sprint("a", i), tenant("a"))
		}
		b.match()
		b.ok(queueOp("default", "ranking", "fifo"))
		b.submit("a9", tenant("a"))
		b.submit("b9", tenant("b"))
		b.worker("v", 1)
		if _, ok := b.match()["b9"]; !ok {
			t.Fatal("the tenant without leases was not first")
		}
	})
	t.Run("refuses_unknown_keys_and_values", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.refuses(rota.KindInvalid, "queue", queueOp("a b"))
		b.refuses(rota.KindInvalid, "key", queueOp("default", "no_such", "1"))
		b.refuses(rota.KindInvalid, "key", queueOp("default", "\u212aey", "1"))
		b.refuses(rota.KindInvalid, "lease_ms", queueOp("default", "lease_ms", "9223372036854775807"))
		b.refuses(rota.KindInvalid, "weight", queueOp("default", "weight", "0"))
		b.refuses(rota.KindInvalid, "renew_beta_permille", queueOp("default", "beta", "NaN"))
		b.refuses(rota.KindInvalid, "ack_timeout_ms", queueOp("default", "lease_ms", "100"))
		b.refuses(rota.KindInvalid, "preset", &fsmpb.Op{Op: &fsmpb.Op_SetQueue{SetQueue: &fsmpb.SetQueue{Name: "q",
			Preset: "x"}}})
		if o := b.ok(queueOp("default")); !o.GetExisted() {
			t.Fatalf("outcome %v", o)
		}
	})
	t.Run("places_nothing_while_paused", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.worker("w", 1)
		b.submit("j")
		rounds := b.View.Decide(10)
		b.ok(queueOp("default", "paused", "on"))
		if len(b.match()) != 0 {
			t.Fatal("placed from a paused queue")
		}
		a := b.entry(&fsmpb.Op{Op: &fsmpb.Op_Round{Round: rounds[0]}})
		if len(a.Events) != 1 || a.Events[0].Kind != rota.EventAssignmentDropped || a.Events[0].Text != "QUEUE_PAUSED" {
			t.Fatalf("events %+v", a.Events)
		}
	})
	t.Run("keeps_its_place_when_its_weight_changes", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("q2", "weight", "1000000"))
		b.worker("w", 10, func(w *rota.WorkerSpec) { w.Queues = append(w.Queues, "q2") })
		for range 3 {
			for i := range 10 {
				b.submit(fmt.Sprintf("d%d-%d", b.Header.Index, i))
				b.submit(fmt.Sprintf("q%d-%d", b.Header.Index, i), func(s *rota.JobSpec) { s.Queue = "q2" })
			}
			for _, l := range b.match() {
				b.ok(verb(rota.VerbComplete, l))
			}
			b.ok(queueOp("q2", "weight", "1"))
			b.ok(queueOp("default", "weight", "1000000"))
			b.ok(queueOp("default", "weight", "1"))
			b.ok(queueOp("q2", "weight", "1000000"))
		}
		if q := b.QueueTable.Get("default"); q.Turn > 100 {
			t.Fatalf("turn %d", q.Turn)
		}
	})
}

func TestRound(t *testing.T) {
	t.Parallel()
	round := func(epoch uint64, pairs ...*fsmpb.Pair) *fsmpb.Op {
		return &fsmpb.Op{Op: &fsmpb.Op_Round{Round: &fsmpb.Round{Epoch: epoch, Queue: "default", Pairs: pairs}}}
	}
	t.Run("drops_with_a_reason_what_no_longer_holds", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("q2"))
		b.worker("w", 1)
		b.worker("drains", 1)
		b.ok(statusOp("drains", rota.WorkerDraining, 0))
		b.submit("j")
		b.submit("k")
		b.submit("delayed", func(s *rota.JobSpec) { s.Delay = time.Second })
		b.submit("elsewhere", func(s *rota.JobSpec) { s.Queue = "q2" })
		b.submit("needs", func(s *rota.JobSpec) { s.Requires = []string{"gpu"} })
		a := b.entry(round(1, &fsmpb.Pair{Job: "gone", Worker: "w"}, &fsmpb.Pair{Job: "delayed", Worker: "w"},
			&fsmpb.Pair{Job: "elsewhere", Worker: "w"}, &fsmpb.Pair{Job: "j", Worker: "nobody"},
			&fsmpb.Pair{Job: "j", Worker: "drains"}, &fsmpb.Pair{Job: "needs", Worker: "w"},
			&fsmpb.Pair{Job: "j", Worker: "w"}, &fsmpb.Pair{Job: "j", Worker: "w"}, &fsmpb.Pair{Job: "k", Worker: "w"}))
		var got []string
		for _, e := range a.Events {
			got = append(got, e.Kind.String()+" "+e.Text)
		}
		want := "[assignmentDropped JOB_GONE assignmentDropped JOB_DELAYED assignmentDropped OTHER_QUEUE" +
			" assignmentDropped NO_SUCH_WORKER assignmentDropped NOT_ACTIVE assignmentDropped CAPABILITY_MISSING jobAssigned " +
			" assignmentDropped JOB_ASSIGNED assignmentDropped NO_FREE_SLOT]"
		if fmt.Sprint(got) != want {
			t.Fatalf("got events %s\nwant %s", got, want)
		}
	})
	t.Run("is_told_of_queues_that_nothing_is_left_for", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		const queues = 5
		all := func(s *rota.WorkerSpec) {
			for i := range queues {
				s.Queues = append(s.Queues, rota.QueueName(fmt.Sprint("q", i)))
			}
		}
		for i := range queues {
			b.ok(queueOp(fmt.Sprint("q", i)))
		}
		b.worker("w", 2, all)
		for i := range 2 * queues {
			b.submit(fmt.Sprint("j", i), func(s *rota.JobSpec) { s.Queue = rota.QueueName(fmt.Sprint("q", i%queues)) })
		}
		// The first queue takes both slots. The others' rounds count, and settle their turns.
		rounds, text := b.View.Decide(1000), ""
		for _, r := range rounds {
			text += fmt.Sprint(r.Epoch, " ", r.Queue, " ", len(r.Pairs), "; ")
		}
		if want := "1 q0 2; 2 q1 0; 3 q2 0; 4 q3 0; 5 q4 0; "; text != want {
			t.Fatalf("got rounds %s\nwant %s", text, want)
		}
		b.entry(opsOf(rounds)...)
		if len(b.placement.rounds) != queues || b.placement.rounds[0].placed != 2 {
			t.Fatalf("noted %v", b.placement.rounds)
		}
		// Two rounds of a queue in one entry are noted as one.
		b.entry(opsOf([]*fsmpb.Round{{Epoch: 6, Queue: "q1"}, {Epoch: 7, Queue: "q3"}, {Epoch: 8, Queue: "q1"}})...)
		if len(b.placement.rounds) != 2 {
			t.Fatalf("noted %v", b.placement.rounds)
		}
	})
	t.Run("refuses_epochs_out_of_order", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.refuses(rota.KindStale, "epoch", round(0))
		b.refuses(rota.KindStale, "epoch", round(2))
		b.ok(round(1))
		b.refuses(rota.KindStale, "epoch", round(1))
		b.refuses(rota.KindInvalid, "height", &fsmpb.Op{Op: &fsmpb.Op_Round{Round: &fsmpb.Round{Epoch: 2,
			Queue:  "default",
			Height: 1 << 60}}})
	})
	t.Run("gives_queues_their_turns_by_weight", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.every = 50
		b.ok(queueOp("heavy", "weight", "3"))
		b.worker("w", 1, func(w *rota.WorkerSpec) { w.Queues = append(w.Queues, "heavy") })
		for i := range 100 {
			b.submit(fmt.Sprint("d", i))
			b.submit(fmt.Sprint("h", i), func(s *rota.JobSpec) { s.Queue = "heavy" })
		}
		heavy := 0
		for range 40 {
			for _, l := range b.match() {
				b.ok(verb(rota.VerbComplete, l))
				if l.Job[0] == 'h' {
					heavy++
				}
			}
		}
		if heavy < 29 || heavy > 31 {
			t.Fatalf("%d of 40 went to the queue of weight 3 next to one of 1", heavy)
		}
	})
	t.Run("saves_no_turns_up_for_a_queue_that_was_idle", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.every = 50
		b.ok(queueOp("idle"))
		b.worker("w", 1, func(w *rota.WorkerSpec) { w.Queues = append(w.Queues, "idle") })
		serve := func(n int) (idle int) {
			for range n {
				for _, l := range b.match() {
					b.ok(verb(rota.VerbComplete, l))
					if l.Job[0] == 'i' {
						idle++
					}
				}
			}
			return idle
		}
		for i := range 100 {
			b.submit(fmt.Sprint("d", i))
		}
		serve(50)
		for i := range 50 {
			b.submit(fmt.Sprint("i", i), func(s *rota.JobSpec) { s.Queue = "idle" })
		}
		if got := serve(20); got < 9 || got > 11 {
			t.Fatalf("%d of 20 went to the queue that was idle", got)
		}
	})
}
