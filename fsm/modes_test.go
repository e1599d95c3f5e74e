package fsm

import (
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
)

func modeOp(mode rota.ClusterMode, reason string) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_SetMode{SetMode: &fsmpb.SetMode{Mode: uint32(mode), Reason: reason}}}
}

func autoMode(mode rota.ClusterMode, reason string, holds bool) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_SetMode{SetMode: &fsmpb.SetMode{Mode: uint32(mode), Reason: reason, Auto: true,
		Holds: holds}}}
}

// kinds counts the events of a kind.
func kinds(events []rota.Event, kind rota.EventKind) (found []rota.Event) {
	for _, e := range events {
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}

// dropped applies a round of one pair that no leader decided, and returns why it was dropped.
func (b *bench) dropped(job, worker string) string {
	b.t.Helper()
	e := kinds(b.entry(roundOp(b, job, worker)).Events, rota.EventAssignmentDropped)
	if len(e) != 1 {
		b.t.Fatalf("job %s: %d assignments were dropped", job, len(e))
	}
	return e[0].Text
}

func TestMode(t *testing.T) {
	t.Parallel()
	t.Run("says_so_once", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		e := kinds(b.entry(modeOp(rota.ModeReadOnly, "upgrade")).Events, rota.EventModeChanged)
		if len(e) != 1 || e[0].Payload != `{"from":"NORMAL","to":"READ_ONLY","reason":"upgrade","auto":false}` {
			t.Fatalf("events %+v", e)
		}
		a := b.entry(modeOp(rota.ModeReadOnly, "upgrade"))
		if !a.Outcomes[0].GetExisted() || len(a.Events) != 0 {
			t.Fatalf("the same again: %v, events %v", a.Outcomes[0], a.Events)
		}
		b.now += 500
		if b.ok(modeOp(rota.ModeReadOnly, "longer upgrade")).GetExisted() {
			t.Fatal("another reason has no effect")
		}
		if m := b.View.Mode(); m.Mode != rota.ModeReadOnly || m.Reason != "longer upgrade" ||
			m.Since.Clock != startClock || m.Auto {
			t.Fatalf("mode %+v", m)
		}
	})
	t.Run("refuses_bad_words", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.refuses(rota.KindInvalid, "mode", modeOp(9, "x"))
		b.refuses(rota.KindInvalid, "reason", modeOp(rota.ModeDegraded, ""))
		b.refuses(rota.KindInvalid, "reason", modeOp(rota.ModeDegraded, strings.Repeat("x", limits.MaxReasonBytes+1)))
		b.refuses(rota.KindInvalid, "mode", autoMode(rota.ModeReadOnly, "x", false))
		emptyBench(t).refuses(rota.KindUnavailable, "cluster", modeOp(rota.ModeDegraded, "x"))
	})
	t.Run("degraded_refuses_and_holds_low_priorities", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.worker("w", 1)
		b.submit("low", priority(6))
		b.ok(modeOp(rota.ModeDegraded, "slow disk"))
		o := b.refuses(rota.KindMode, "mode", submitOp(jobSpec("other", priority(6))))
		if want := "the cluster is DEGRADED (slow disk): priority 6 is refused, 0 to 5 are taken"; o.GetText() != want {
			t.Fatalf("the refusal reads %q, wanted %q", o.GetText(), want)
		}
		if o := b.ok(submitOp(jobSpec("low", priority(6)))); !o.GetExisted() {
			t.Fatal("a known id is answered before the mode")
		}
		if len(b.match()) != 0 {
			t.Fatal("a job of priority 6 was started")
		}
		if why := b.dropped("low", "w"); why != "MODE_HOLDS" {
			t.Fatalf("dropped for %s", why)
		}
		b.submit("usual", priority(5))
		l := b.match()
		if len(l) != 1 || l["usual"].Job == "" {
			t.Fatalf("%v was started", l)
		}
		b.ok(verb(rota.VerbComplete, l["usual"]))
		b.pass(20 * 60_000)
		b.state("low", rota.JobQueued) // an operator's mode holds as long as it lasts
		b.ok(modeOp(rota.ModeNormal, "disk replaced"))
		if l := b.match(); l["low"].Job == "" {
			t.Fatal("held jobs do not start in NORMAL")
		}
	})
	t.Run("holds_in_queues_made_and_ranked_anew_too", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.worker("w", 9, func(w *rota.WorkerSpec) { w.Queues = []rota.QueueName{"default", "new"} })
		b.submit("low", priority(9))
		b.ok(modeOp(rota.ModeDegraded, "x"))
		b.ok(queueOp("new"))
		b.ok(queueOp("default", "ranking", "fifo"))
		b.ok(queueOp("default", "ranking", "adaptive"))
		if len(b.match()) != 0 {
			t.Fatal("a held job was started")
		}
	})
	t.Run("read_only_starts_nothing_and_lets_running_finish", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		l := b.leased("a", "w")
		failing := func() rota.Lease { b.submit("b"); return b.match()["b"] }()
		b.submit("waiting")
		b.ok(modeOp(rota.ModeReadOnly, "upgrade"))
		b.refuses(rota.KindMode, "mode", submitOp(jobSpec("new", priority(0))))
		if r := b.View.Decide(1000); r != nil {
			t.Fatalf("rounds %v", r)
		}
		if why := b.dropped("waiting", "w"); why != "MODE_HOLDS" {
			t.Fatalf("dropped for %s", why)
		}
		b.ok(verb(rota.VerbRenew, l))
		b.ok(verb(rota.VerbComplete, l))
		b.ok(verb(rota.VerbFail, failing))
		b.ok(cancelOp("waiting"))
		b.ok(retryOpWith("waiting", b)) // a retry is not new work: it is accepted, and waits
		b.pass(60_000)
		b.state("b", rota.JobQueued)
		b.state("waiting", rota.JobQueued)
		if b.View.Decide(1000) != nil {
			t.Fatal("a retry was started")
		}
		b.ok(modeOp(rota.ModeNormal, "done"))
		if n := len(b.match()); n != 2 {
			t.Fatalf("%d jobs started after it", n)
		}
	})
	t.Run("draining_works_off_and_says_drained_once", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		l := b.leased("a", "w")
		b.submit("queued")
		b.submit("delayed", func(s *rota.JobSpec) { s.Delay = 3 * time.Second })
		b.submit("dated", func(s *rota.JobSpec) { s.NotBefore = rota.Date(startClock + 1<<40).Time() })
		b.ok(modeOp(rota.ModeDraining, "shutdown"))
		b.refuses(rota.KindMode, "mode", submitOp(jobSpec("new", priority(0))))
		finish := func(l rota.Lease) []rota.Event { return b.entry(verb(rota.VerbComplete, l)).Events }
		if e := finish(l); len(kinds(e, rota.EventDrained)) != 0 {
			t.Fatal("drained while a job is QUEUED")
		}
		if e := finish(b.match()["queued"]); len(kinds(e, rota.EventDrained)) != 0 {
			t.Fatal("drained while a job is delayed")
		}
		b.pass(3500)
		last := b.match()["delayed"]
		if b.View.Mode().Drained {
			t.Fatal("drained while a job runs")
		}
		if e := finish(last); len(kinds(e, rota.EventDrained)) != 1 || !b.View.Mode().Drained {
			t.Fatal("not drained when only jobs with a later date are left")
		}
		if e := b.pass(5000); len(kinds(e, rota.EventDrained)) != 0 {
			t.Fatal("reported drained twice")
		}
		b.ok(modeOp(rota.ModeNormal, "back"))
		if b.View.Mode().Drained {
			t.Fatal("the mode is NORMAL and still drained")
		}
		if e := b.entry(modeOp(rota.ModeDraining, "again")).Events; len(kinds(e, rota.EventDrained)) != 1 {
			t.Fatal("an idle cluster must not be drained at once")
		}
	})
}

// TestDrainedIsTrueOfNow checks that `drained` is reset by a job that a retry or a date brings back, as machines may be
// stopped because of it.
func TestDrainedIsTrueOfNow(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.worker("w", 1)
	b.submit("a")
	b.ok(cancelOp("a"))
	b.ok(modeOp(rota.ModeDraining, "shutdown"))
	if !b.View.Mode().Drained {
		t.Fatal("an idle cluster is not drained")
	}
	b.ok(retryOpWith("a", b))
	if b.View.Mode().Drained {
		t.Fatal("drained while a retried job is QUEUED")
	}
	l := b.match()["a"]
	if e := b.entry(verb(rota.VerbComplete, l)).Events; len(kinds(e, rota.EventDrained)) != 1 ||
		!b.View.Mode().Drained {
		t.Fatal("not drained when the retried job is done")
	}
}

// retryOpWith retries an ended job with its spec, like a leader.
func retryOpWith(id string, b *bench) *fsmpb.Op {
	j, _ := b.View.Job(rota.JobID(id))
	return &fsmpb.Op{Op: &fsmpb.Op_Retry{Retry: &fsmpb.Retry{Job: id, Spec: entry.SpecOp(&j.JobSpec)}}}
}

func TestModeByItself(t *testing.T) {
	t.Parallel()
	t.Run("never_over_an_operators", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		for _, mode := range []rota.ClusterMode{rota.ModeDegraded, rota.ModeReadOnly, rota.ModeDraining} {
			b.ok(modeOp(mode, "by hand"))
			b.refuses(rota.KindConflict, "mode", autoMode(rota.ModeNormal, "recovered", false))
			b.refuses(rota.KindConflict, "mode", autoMode(rota.ModeDegraded, "slow", true))
		}
		b.ok(modeOp(rota.ModeNormal, "by hand"))
		b.ok(autoMode(rota.ModeDegraded, "slow", true))
		b.ok(modeOp(rota.ModeDegraded, "slow")) // an operator confirms the mode and so owns it
		b.refuses(rota.KindConflict, "mode", autoMode(rota.ModeNormal, "recovered", false))
	})
	t.Run("is_dropped_when_stamped_in_another_term", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.lead()
		a := b.stamped(&fsmpb.Entry{Term: 1, NowMs: int64(b.now),
			Ops: []*fsmpb.Op{autoMode(rota.ModeDegraded, "slow", true)}}, 2)
		if rota.Kind(a.Outcomes[0].GetKind()) != rota.KindStale || b.View.Mode().Mode != rota.ModeNormal {
			t.Fatalf("outcome %v, mode %v", a.Outcomes[0], b.View.Mode())
		}
	})
	t.Run("refuses_without_holding_for_usage", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.worker("w", 1)
		b.submit("low", priority(8))
		b.ok(autoMode(rota.ModeDegraded, "full", false))
		b.refuses(rota.KindMode, "mode", submitOp(jobSpec("other", priority(8))))
		if len(b.match()) != 1 {
			t.Fatal("a job is still held")
		}
	})
	t.Run("holds_for_ten_minutes_at_most_then_by_turns_alone", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.every = 50
		b.ok(queueOp("default", "oldest_every", "3"))
		b.worker("w", 1)
		b.submit("low", priority(8))
		b.ok(autoMode(rota.ModeDegraded, "slow", true))
		b.pass(5 * 60_000)
		b.ok(autoMode(rota.ModeDegraded, "slower", true)) // the same period
		b.pass(5*60_000 - 250)
		if len(b.match()) != 0 {
			t.Fatal("a held job was started before ten minutes were over")
		}
		if b.View.AtRest() {
			t.Fatal("at rest while the mode waits for its ten minutes")
		}
		b.pass(500)
		b.twin = b.restored() // an ended period stays over
		if why := b.dropped("low", "w"); why != "MODE_HOLDS" {
			t.Fatalf("dropped for %s", why)
		}
		for i := range 3 {
			b.submit(string(rune('a' + i)))
			for id, l := range b.match() {
				if (id == "low") != (i == 2) {
					t.Fatalf("job %s was started as number %d", id, i)
				}
				b.ok(verb(rota.VerbComplete, l))
			}
		}
		b.state("low", rota.JobCompleted)
		b.ok(autoMode(rota.ModeNormal, "recovered", false))
		b.ok(autoMode(rota.ModeDegraded, "slow", true))
		b.submit("z", priority(0))
		if b.Header.HoldsUntil != b.Header.Clock+limits.MaxHoldsDegraded {
			t.Fatal("another stretch does not hold again")
		}
	})
}
