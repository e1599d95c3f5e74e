package fsm

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/peer"
)

// newConfirming is a bench under the rules by which a lease outlives its job, with long leases.
func newConfirming(t *testing.T) *bench {
	b := newBench(t)
	b.ok(switchOp(entry.RulesVersion))
	b.ok(queueOp("default", "lease_ms", "600000", "ack_timeout_ms", "600000"))
	return b
}

// TestCancel_confirmed lets a worker confirm the end of a lease whose job was cancelled: until then the lease uses the
// worker's room and the job's retry waits; the confirmation frees both at once.
func TestCancel_confirmed(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]struct {
		v      rota.LeaseVerb
		change func(*peer.LeaseCommand)
	}{"decline": {rota.VerbDecline, nil}, "completion": {rota.VerbComplete, nil}, "failure": {rota.VerbFail, nil},
		"snooze": {rota.VerbFail, func(c *peer.LeaseCommand) { c.Fail, c.After = peer.FailSnooze, time.Hour }}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newConfirming(t)
			l := b.leased("j", "w")
			b.ok(verb(rota.VerbAck, l))
			a := b.entry(cancelOp("j"))
			i := slices.IndexFunc(a.Events, func(e rota.Event) bool { return e.Kind == rota.EventLeaseRevoked })
			if i < 0 || a.Events[i].Reason != rota.ReasonCancelledByUser || a.Events[i].Session != l.Session ||
				a.Events[i].Lease != l.ID {
				t.Fatalf("its worker is not notified: %+v", a.Events)
			}
			b.state("j", rota.JobCancelled)
			if w, _ := b.View.Worker("w"); w.Open != 1 || len(w.Leases) != 1 ||
				w.Leases[0].Revoked != rota.ReasonCancelledByUser {
				t.Fatalf("the worker has room while its handler runs: %+v", w)
			}
			b.refuses(rota.KindStale, "lease", verb(rota.VerbRenew, l, func(c *peer.LeaseCommand) { c.Ordinal = 1 }))
			o := b.refuses(rota.KindConflict, "job", b.deleteOf("j"))
			if !strings.Contains(o.GetText(), "has not confirmed") {
				t.Fatal(o.GetText())
			}
			b.ok(retryOp("j"))
			if j := b.state("j", rota.JobDelayed); j.Due.Clock != l.Deadline.Clock {
				t.Fatalf("due at %d, the lease ends at %d", j.Due.Clock, l.Deadline.Clock)
			}
			b.whyNames("j", "WORKER_NOT_STOPPED",
				"worker w has not confirmed that it stopped work on job j, which ended (CANCELLED)")
			b.pass(1_000)
			b.state("j", rota.JobDelayed)
			change := how.change
			if change == nil {
				change = func(*peer.LeaseCommand) {}
			}
			a = b.entry(verb(how.v, l, change))
			if taken := entry.OutcomeError(a.Outcomes[0]) == nil; taken != (how.v == rota.VerbDecline) {
				t.Fatalf("answered %v", a.Outcomes[0])
			}
			if e := a.Events[0]; e.Kind != rota.EventLeaseCancelled || e.Reason != rota.ReasonCancelledByUser ||
				e.Job != "j" {
				t.Fatalf("%+v", a.Events)
			}
			b.state("j", rota.JobQueued)
			if w, _ := b.View.Worker("w"); w.Open != 0 || w.Failed != 0 {
				t.Fatalf("%+v", w)
			}
			if len(b.match()) != 1 {
				t.Fatal("the retry is not placed")
			}
		})
	}
}

// TestCancel_unconfirmed checks that the lease of a worker that never confirms ends at its deadline, or by silence, and
// frees everything.
func TestCancel_unconfirmed(t *testing.T) {
	t.Parallel()
	ends := map[string]func(b *bench, l rota.Lease){
		"deadline": func(b *bench, l rota.Lease) { b.pass(l.Deadline.Clock - b.now) },
		"silence": func(b *bench, l rota.Lease) {
			b.ok(reachOp("w", l.Session, false, b.now))
			b.pass(rota.SilenceEnds)
		},
		"taken over": func(b *bench, l rota.Lease) {
			b.ok(registerOp("w", 100, "another", true))
			b.refuses(rota.KindStale, "session", verb(rota.VerbComplete, l))
			b.ok(verb(rota.VerbDecline, l)) // the node hears the old process
		},
		"gone":      func(b *bench, l rota.Lease) { b.ok(goneOp("w", l.Session, "w")) },
		"retired":   func(b *bench, _ rota.Lease) { b.ok(statusOp("w", rota.WorkerRetired, 0)) },
		"suspended": func(b *bench, _ rota.Lease) { b.ok(statusOp("w", rota.WorkerSuspended, 0)) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newConfirming(t)
			l := b.leased("j", "w")
			b.ok(verb(rota.VerbAck, l))
			b.ok(cancelOp("j"))
			b.ok(retryOp("j"))
			b.state("j", rota.JobDelayed)
			end(b, l)
			b.state("j", rota.JobQueued)
			if b.leasing.leases.Len() != 0 {
				t.Fatal("the lease is open")
			}
			b.restored()
		})
	}
}

// TestCancel_again checks that a retry cancelled while it waits leaves nothing to wait for once the worker has
// confirmed.
func TestCancel_again(t *testing.T) {
	t.Parallel()
	b := newConfirming(t)
	l := b.leased("j", "w")
	for range 2 {
		b.ok(cancelOp("j"))
		b.ok(retryOp("j"))
		b.state("j", rota.JobDelayed)
	}
	b.ok(cancelOp("j"))
	b.ok(verb(rota.VerbDecline, l))
	b.ok(retryOp("j"))
	b.state("j", rota.JobQueued)
	b.ok(cancelOp("j"))
	b.ok(b.deleteOf("j"))
}

// TestCancel_sleepsOn checks that a retry that would wake when its old lease ends by silence sleeps on if the worker
// reports again.
func TestCancel_sleepsOn(t *testing.T) {
	t.Parallel()
	b := newConfirming(t)
	l := b.leased("j", "w")
	b.ok(verb(rota.VerbAck, l))
	b.ok(reachOp("w", l.Session, false, b.now))
	b.ok(cancelOp("j"))
	b.ok(retryOp("j"))
	due := b.state("j", rota.JobDelayed).Due.Clock
	b.ok(reachOp("w", l.Session, true, b.now))
	b.pass(due - b.now + 1_000)
	if j := b.state("j", rota.JobDelayed); j.Due.Clock != l.Deadline.Clock {
		t.Fatalf("due at %d, the lease ends at %d", j.Due.Clock, l.Deadline.Clock)
	}
	b.ok(verb(rota.VerbDecline, l))
	b.state("j", rota.JobQueued)
}

// TestTTL_confirmed checks that a job whose time to live ends behaves like a cancelled job.
func TestTTL_confirmed(t *testing.T) {
	t.Parallel()
	b := newConfirming(t)
	l := b.leased("j", "w", func(s *rota.JobSpec) { s.TTL = 4 * time.Second })
	b.pass(4_000)
	b.expired("j", rota.ReasonTTLAbsolute)
	b.ok(retryOp("j"))
	b.state("j", rota.JobDelayed)
	b.ok(verb(rota.VerbDecline, l))
	b.state("j", rota.JobQueued)
}

// TestCancel_keepsItsKeys checks that under each rule of a key the next job waits until the worker of the cancelled one
// has stopped.
func TestCancel_keepsItsKeys(t *testing.T) {
	t.Parallel()
	rules := map[string]rota.KeyRule{"concurrency": {Name: "k", Concurrency: 1},
		"sequence":          {Name: "k", Sequence: rota.SequenceSkip},
		"blocking sequence": {Name: "k", Sequence: rota.SequenceBlock}}
	for name, rule := range rules {
		for _, late := range []bool{false, true} { // the rule is set after the job was cancelled
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				b := newConfirming(t)
				if !late {
					b.ok(SetKeyRuleOp(&rule))
				}
				keyed := func(s *rota.JobSpec) { s.Keys = []string{"k:1"} }
				a := b.leased("a", "w", keyed)
				b.ok(verb(rota.VerbAck, a))
				b.ok(cancelOp("a"))
				if late {
					b.ok(SetKeyRuleOp(&rule))
				}
				b.submit("b", keyed)
				if len(b.match()) != 0 {
					t.Fatal("b starts while a's handler runs")
				}
				b.whyNames("b", "WORKER_NOT_STOPPED",
					"a slot of key k:1: worker w has not confirmed that it stopped work on job a")
				b.restored()
				b.ok(DeleteKeyRuleOp("", "k", ""))
				b.ok(SetKeyRuleOp(&rule))
				if len(b.match()) != 0 {
					t.Fatal("the rule was set again, and b starts")
				}
				b.ok(verb(rota.VerbDecline, a))
				if _, ok := b.match()["b"]; !ok {
					t.Fatal("b does not start once a's worker has stopped")
				}
			})
		}
	}
}

// TestCancel_keepsItsUniqueKey checks that a job submitted with the unique key of a cancelled one starts once the
// worker of that has stopped.
func TestCancel_keepsItsUniqueKey(t *testing.T) {
	t.Parallel()
	for _, how := range []string{rota.UniqueRefuse, rota.UniqueExisting, rota.UniqueReplace, rota.UniqueExtend} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			b := newConfirming(t)
			unique := func(s *rota.JobSpec) { s.Unique = &rota.Unique{Key: "u", OnConflict: how} }
			a := b.leased("a", "w", unique)
			b.ok(cancelOp("a"))
			o := b.ok(submitOp(jobSpec("b", unique)))
			if o.GetExisted() {
				t.Fatalf("it was merged into a job that has ended: %v", o)
			}
			b.state("b", rota.JobDelayed)
			b.whyNames("b", "WORKER_NOT_STOPPED", "work on job a")
			if how == rota.UniqueExtend {
				b.entry(submitOp(jobSpec("c", unique, func(s *rota.JobSpec) { s.Delay = time.Second })))
				b.state("b", rota.JobDelayed)
			}
			b.restored()
			b.ok(cancelOp("b"))
			b.ok(submitOp(jobSpec("d", unique, func(s *rota.JobSpec) { s.Delay = 5 * time.Second })))
			b.ok(verb(rota.VerbDecline, a))
			if j := b.state("d", rota.JobDelayed); j.Due.Clock != b.now+5_000 {
				t.Fatalf("its own delay ends at %d, it is %d", j.Due.Clock, b.now)
			}
			b.pass(5_000)
			b.state("d", rota.JobQueued)
		})
	}
	t.Run("a scope that is not held while pending", func(t *testing.T) {
		t.Parallel()
		b := newConfirming(t)
		unique := func(s *rota.JobSpec) { s.Unique = &rota.Unique{Key: "u", Scope: []string{rota.UniqueRunning}} }
		a := b.leased("a", "w", unique)
		b.ok(cancelOp("a"))
		b.submit("b", unique)
		b.submit("c", unique)
		b.state("b", rota.JobDelayed)
		b.ok(verb(rota.VerbDecline, a))
		b.state("b", rota.JobQueued)
		b.state("c", rota.JobQueued)
	})
}

// TestSchedule_confirmed checks that under overlap cancel the next run starts when the worker of the cancelled one
// confirms, and that runs replaced by newer dates before they began have not failed.
func TestSchedule_confirmed(t *testing.T) {
	t.Parallel()
	b := newClockwork(t)
	b.ok(switchOp(entry.RulesVersion))
	b.ok(queueOp("default", "lease_ms", "600000", "ack_timeout_ms", "600000"))
	b.ok(registerOp("w", 5, "s", false))
	b.ok(scheduleOp("s", func(s *rota.ScheduleSpec) { s.Overlap = rota.OverlapCancel }))
	b.tick(60_000)
	b.ok(b.fireOp("s", b.Header.Date()))
	var l rota.Lease
	for _, l = range b.match() {
		b.ok(verb(rota.VerbAck, l))
	}
	for range 3 {
		b.tick(60_000)
		b.ok(b.fireOp("s", b.Header.Date()))
	}
	s := b.schedule("s")
	if s.Runs != 4 || s.Failed != 1 || len(s.Live) != 1 {
		t.Fatalf("the one that ran is cancelled, two never began: %+v", s)
	}
	run := string(s.Live[0])
	b.state(run, rota.JobDelayed)
	b.whyNames(run, "WORKER_NOT_STOPPED", "work on job "+string(l.Job))
	b.ok(triggerOp("s", "now"))
	b.state("s@+now", rota.JobQueued) // next to the live run
	b.ok(cancelOp("s@+now"))
	b.restored()
	b.ok(verb(rota.VerbDecline, l))
	b.state(run, rota.JobQueued)
	if len(b.match()) != 1 {
		t.Fatal("it is not placed")
	}
}

// TestWorkflow_confirmed checks that a node released by a retry of its workflow waits for the worker of its cancelled
// lease.
func TestWorkflow_confirmed(t *testing.T) {
	t.Parallel()
	b := newConfirming(t)
	d := diamond("wf")
	b.worker("w", 5)
	b.upload(d)
	b.ok(d.commit())
	l := b.match()["wf/n0"]
	b.ok(verb(rota.VerbAck, l))
	b.ok(d.cancel())
	b.entry()
	b.ok(d.retry("", 1))
	b.entry()
	b.state("wf/n0", rota.JobDelayed)
	b.ok(verb(rota.VerbDecline, l))
	b.state("wf/n0", rota.JobQueued)
}

// TestCancel_logs checks that the confirming verb carries the log of its handler.
func TestCancel_logs(t *testing.T) {
	t.Parallel()
	b := newConfirming(t)
	l := b.leased("j", "w")
	b.ok(cancelOp("j"))
	b.refuses(rota.KindConflict, "lease", KeepLogOp("j", l.ID, "w", []byte("early")))
	b.ok(verb(rota.VerbDecline, l, func(c *peer.LeaseCommand) { c.Log = []byte("last words") }))
	b.keeps(l, "last words")
}

// TestCancel_keepsItsQueue checks that a queue is not deleted, and not drained to its end, while a lease in it has
// outlived its job.
func TestCancel_keepsItsQueue(t *testing.T) {
	t.Parallel()
	b := newConfirming(t)
	b.ok(queueOp("other"))
	b.ok(registerOp("w", 5, "w", false, func(s *rota.WorkerSpec) { s.Queues = []rota.QueueName{"other"} }))
	b.submit("j", func(s *rota.JobSpec) { s.Queue = "other" })
	l := b.match()["j"]
	b.ok(cancelOp("j"))
	gone := func(to string) *fsmpb.Op {
		return &fsmpb.Op{Op: &fsmpb.Op_DeleteQueue{DeleteQueue: &fsmpb.DeleteQueue{Name: "other", DrainTo: to}}}
	}
	b.refuses(rota.KindConflict, "queue", gone(""))
	if o := b.ok(gone("default")); o.GetLeft() != 1 {
		t.Fatalf("%v", o)
	}
	b.ok(verb(rota.VerbDecline, l))
	b.ok(gone("default"))
	if b.QueueTable.Get("other") != nil {
		t.Fatal("the queue is there")
	}
}

// TestProgress_final checks that the last report of an attempt is kept, however soon it comes, and at most one of the
// other reports per second.
func TestProgress_final(t *testing.T) {
	t.Parallel()
	for version, kept := range map[uint32]int32{entry.FirstRules: 20, entry.RulesVersion: 80} {
		b := newBench(t)
		b.ok(switchOp(version))
		l := b.leased("j", "w")
		report := func(percent, ordinal int32) []rota.Event {
			return b.entry(verb(rota.VerbProgress, l, func(c *peer.LeaseCommand) {
				c.Progress, c.Text, c.Ordinal = percent, "note", ordinal
			})).Events
		}
		report(20, 0)
		report(60, 0)
		report(80, peer.FinalReport)
		if events := report(80, peer.FinalReport); len(events) != 0 {
			t.Errorf("a kept report is reported again: %+v", events)
		}
		report(90, peer.FinalReport) // within the second: no attempt has two
		if a := b.entry(verb(rota.VerbComplete, l)); entry.OutcomeError(a.Outcomes[0]) != nil {
			t.Fatal(a.Outcomes[0])
		}
		if j := b.state("j", rota.JobCompleted); j.Progress != kept {
			t.Errorf("rules version %d keep %d%%, want %d%%", version, j.Progress, kept)
		}
	}
}

// TestCancel_foreseen checks that forecasts assume that the worker confirms at once.
func TestCancel_foreseen(t *testing.T) {
	t.Parallel()
	b := newConfirming(t)
	b.leased("j", "w")
	b.ok(cancelOp("j"))
	b.ok(retryOp("j"))
	s, err := b.Freeze().Sketch("j", 10)
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.Machine()
	if err != nil {
		t.Fatal(err)
	}
	if j, _ := m.View.Job("j"); j.State != rota.JobQueued || len(m.View.Decide(10)) != 1 {
		t.Fatalf("it is %s", j.State)
	}
}

// TestCancel_firstRules checks that under rules version 1 a cancelled lease ends at once, and its retry waits as
// before.
func TestCancel_firstRules(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	l := b.leased("j", "w")
	b.ok(verb(rota.VerbAck, l))
	b.ok(cancelOp("j"))
	if b.leasing.leases.Len() != 0 {
		t.Fatal("the lease is open")
	}
	b.ok(switchOp(entry.RulesVersion))
	b.ok(retryOp("j"))
	if j := b.state("j", rota.JobDelayed); j.Due.Clock != l.Deadline.Clock {
		t.Fatalf("due at %d, the lease would end at %d", j.Due.Clock, l.Deadline.Clock)
	}
	b.pass(l.Deadline.Clock - b.now)
	b.state("j", rota.JobQueued)
}

// TestCancel_reborn checks that in a state that becomes another cluster's nothing waits for workers of the old one,
// except for its pause.
func TestCancel_reborn(t *testing.T) {
	t.Parallel()
	for _, pause := range []rota.Clock{0, 5_000} {
		b := newConfirming(t)
		l := b.leased("retried", "w")
		b.ok(cancelOp("retried"))
		b.ok(retryOp("retried"))
		m := b.restored()
		if err := m.Reincarnate(Rebirth{Cluster: "other", Pause: pause}); err != nil {
			t.Fatal(err)
		}
		j, _ := m.View.Job("retried")
		if want := map[rota.Clock]rota.JobState{0: rota.JobQueued, 5_000: rota.JobDelayed}[pause]; j.State != want ||
			pause > 0 &&
				j.Due.Clock != m.Header.Clock+pause || m.leasing.leases.Len() != 0 {
			t.Errorf("pause %d: %s, due at %d, lease %s", pause, j.State, j.Due.Clock, l.ID)
		}
	}
}
