package fsm

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/peer"
)

func newerBench(t *testing.T) *bench {
	b := newBench(t)
	b.ok(switchOp(entry.RulesVersion))
	return b
}

// TestInterrupt_triesAgain ends an attempt, counted or not: the lease is revoked, and the job is tried again once its
// worker has confirmed, or its silence is over.
func TestInterrupt_triesAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		counted bool
		confirm bool
		max     int64
		want    string
	}{
		{"uncounted", false, true, 2, "QUEUED INTERRUPTED 0"},
		{"counted", true, true, 2, "DELAYED INTERRUPTED_COUNTED 1"},
		{"counted, its last attempt", true, true, 1, "DEAD INTERRUPTED_COUNTED 0"},
		{"uncounted, by silence", false, false, 2, "QUEUED INTERRUPTED 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newerBench(t)
			l := b.leased("j", "w", func(s *rota.JobSpec) { s.Retry.Attempts = c.max })
			b.ok(verb(rota.VerbAck, l))
			op := InterruptOp(&b.View, "j", c.counted)
			a := b.entry(op)
			if err := entry.OutcomeError(a.Outcomes[0]); err != nil || a.Events[0].Kind != rota.EventLeaseRevoked ||
				!strings.HasPrefix(a.Events[0].Reason.String(), "INTERRUPTED") {
				t.Fatalf("%v, events %+v", err, a.Events)
			}
			b.existed(op)
			b.refuses(rota.KindStale, "lease", verb(rota.VerbRenew, l, func(c *peer.LeaseCommand) { c.Ordinal = 1 }))
			b.refuses(rota.KindConflict, "lease", InterruptOp(&b.View, "j", !c.counted))
			if c.confirm {
				b.ok(verb(rota.VerbDecline, l))
			} else {
				b.ok(reachOp("w", l.Session, false, b.now))
				b.pass(40_000)
			}
			j, _ := b.View.Job("j")
			if got := fmt.Sprint(j.State, " ", j.Reason, " ", j.Attempt); got != c.want {
				t.Fatalf("%s, want %s", got, c.want)
			}
			if !j.State.Terminal() {
				b.existed(op) // a repetition ends no other attempt
			}
			b.sound()
		})
	}
}

// TestInterrupt_refuses names the jobs without an attempt to end.
func TestInterrupt_refuses(t *testing.T) {
	t.Parallel()
	b := newerBench(t)
	b.refuses(rota.KindNotFound, "job", InterruptOp(&b.View, "none", false))
	b.submit("waits")
	b.refuses(rota.KindConflict, "job", InterruptOp(&b.View, "waits", false))
	b.submit("over")
	b.ok(cancelOp("over"))
	b.refuses(rota.KindConflict, "job", InterruptOp(&b.View, "over", false))
	l := b.leased("failed", "w")
	op := InterruptOp(&b.View, "failed", false)
	b.ok(verb(rota.VerbFail, l))
	b.refuses(rota.KindStale, "lease", op)
	b.run(diamond("wf"))
	b.refuses(rota.KindConflict, "job", InterruptOp(&b.View, "wf/n3", false))
	old := newBench(t)
	old.refuses(rota.KindConflict, "rules_version",
		&fsmpb.Op{Op: &fsmpb.Op_InterruptJob{InterruptJob: &fsmpb.InterruptJob{Job: "j"}}})
	old.refuses(rota.KindConflict, "rules_version",
		&fsmpb.Op{Op: &fsmpb.Op_RunJobNow{RunJobNow: &fsmpb.RunJobNow{Job: "j"}}})
}

// TestInterrupt_ofNode ends an attempt of a node of a RUNNING workflow, which continues.
func TestInterrupt_ofNode(t *testing.T) {
	t.Parallel()
	b := newerBench(t)
	d := diamond("wf")
	b.run(d)
	b.worker("w", 4)
	l := b.match()["wf/n0"]
	b.ok(verb(rota.VerbAck, l))
	b.ok(InterruptOp(&b.View, "wf/n0", false))
	b.ok(verb(rota.VerbDecline, l))
	b.state("wf/n0", rota.JobQueued)
	b.match()
	b.completeAll("wf/n0")
	b.stands(d, "RUNNING: CQQB")
}

// TestRunNow_keepsAttempts queues jobs before their time: delayed, dated, backing off, snoozed.
func TestRunNow_keepsAttempts(t *testing.T) {
	t.Parallel()
	b := newerBench(t)
	b.submit("delayed", func(s *rota.JobSpec) { s.Delay = time.Hour })
	b.submit("dated", func(s *rota.JobSpec) { s.NotBefore = time.UnixMilli(int64(b.Header.Date()) + 3_600_000) })
	failed := b.leased("failed", "w")
	b.ok(verb(rota.VerbFail, failed))
	snoozed := b.leased("snoozed", "w2")
	b.ok(verb(rota.VerbFail, snoozed, func(c *peer.LeaseCommand) { c.Fail, c.After = peer.FailSnooze, time.Hour }))
	for id, attempt := range map[string]int32{"delayed": 0, "dated": 0, "failed": 1, "snoozed": 0} {
		b.state(id, rota.JobDelayed)
		op := RunNowOp(&b.View, rota.JobID(id))
		b.ok(op)
		if j := b.state(id, rota.JobQueued); j.Attempt != attempt || !j.Due.IsZero() {
			t.Fatalf("job %+v", j)
		}
		b.existed(op)
	}
	b.sound()
	// A late repetition does not affect the next wait.
	op := &fsmpb.Op{Op: &fsmpb.Op_RunJobNow{RunJobNow: &fsmpb.RunJobNow{Job: "failed", Attempt: 1,
		DueClockMs: int64(b.now) + 1}}}
	var l rota.Lease
	for id, given := range b.match() {
		if id == "failed" {
			l = given
		}
	}
	if l.Job == "" {
		t.Fatal("the job was not placed")
	}
	b.ok(verb(rota.VerbFail, l))
	b.refuses(rota.KindStale, "due", op)
}

// TestRunNow_refuses names the jobs that cannot be queued before their time.
func TestRunNow_refuses(t *testing.T) {
	t.Parallel()
	b := newerBench(t)
	b.refuses(rota.KindNotFound, "job", RunNowOp(&b.View, "none"))
	b.submit("over")
	b.ok(cancelOp("over"))
	b.refuses(rota.KindConflict, "job", RunNowOp(&b.View, "over"))
	b.run(diamond("wf"))
	b.refuses(rota.KindConflict, "job", RunNowOp(&b.View, "wf/n3"))
	b.submit("waits", func(s *rota.JobSpec) { s.Delay = time.Hour })
	op := RunNowOp(&b.View, "waits")
	op.GetRunJobNow().DueClockMs++
	b.refuses(rota.KindStale, "due", op)
	// The worker of a cancelled lease may still be running: the retry waits for that.
	b.leased("j", "w")
	b.ok(cancelOp("j"))
	b.ok(retryOp("j"))
	b.state("j", rota.JobDelayed)
	b.refuses(rota.KindConflict, "job", RunNowOp(&b.View, "j"))
}

// TestRunNow_waitsForWorker refuses to start a job whose unique key belonged to a cancelled one, while that job's
// worker has not confirmed that it stopped. The rest of the job's own delay can then be cut short.
func TestRunNow_waitsForWorker(t *testing.T) {
	t.Parallel()
	b := newerBench(t)
	unique := func(s *rota.JobSpec) { s.Unique = &rota.Unique{Key: "k"} }
	l := b.leased("j", "w", unique)
	b.ok(cancelOp("j"))
	b.refuses(rota.KindConflict, "job", InterruptOp(&b.View, "j", false))
	b.submit("next", unique, func(s *rota.JobSpec) { s.Delay = time.Hour })
	b.state("next", rota.JobDelayed)
	o := b.refuses(rota.KindConflict, "job", RunNowOp(&b.View, "next"))
	if !strings.Contains(o.GetText(), "has not confirmed that it stopped") {
		t.Fatal(o.GetText())
	}
	b.ok(verb(rota.VerbDecline, l))
	b.state("next", rota.JobDelayed)
	b.ok(RunNowOp(&b.View, "next"))
	b.state("next", rota.JobQueued)
	b.sound()
}

// TestRunNow_ofNodeThatWaits checks that the retry of a single node is refused, and names no command that is refused
// too while the worker of its cancelled attempt has not confirmed.
func TestRunNow_ofNodeThatWaits(t *testing.T) {
	t.Parallel()
	b := newerBench(t)
	d := diamond("wf")
	b.run(d)
	b.worker("w", 4)
	l := b.match()["wf/n0"]
	b.ok(verb(rota.VerbAck, l))
	b.ok(cancelOp("wf/n0"))
	for b.flows.workflows.Get("wf").State == rota.WorkflowRunning {
		b.entry(sweepOp())
	}
	b.ok(d.retry("", 1))
	b.entry(sweepOp())
	b.state("wf/n0", rota.JobDelayed)
	b.refuses(rota.KindConflict, "job", RunNowOp(&b.View, "wf/n0"))
	o := b.refuses(rota.KindConflict, "job", retryOp("wf/n0"))
	if !strings.Contains(o.GetText(), "`rota job why wf/n0`") {
		t.Fatal(o.GetText())
	}
	b.ok(verb(rota.VerbDecline, l))
	b.state("wf/n0", rota.JobQueued)
	b.sound()
}

// TestInterrupt_thenCancel ends a job while its worker has yet to confirm an interruption or a takeover: the lease
// outlives it, and ends like that of a cancelled job, whatever happens to the worker.
func TestInterrupt_thenCancel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		first, after func(b *bench, l rota.Lease)
	}{
		{"interrupted", func(b *bench, _ rota.Lease) { b.ok(InterruptOp(&b.View, "j", true)) },
			func(b *bench, l rota.Lease) { b.ok(verb(rota.VerbDecline, l)) }},
		{"its worker dies", func(b *bench, _ rota.Lease) { b.ok(InterruptOp(&b.View, "j", true)) },
			func(b *bench, l rota.Lease) { b.ok(goneOp("w", l.Session, "w")) }},
		{"taken over", func(b *bench, _ rota.Lease) { b.ok(registerOp("w", 1, "other", true)) },
			func(b *bench, _ rota.Lease) { b.pass(rota.SilenceEnds) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := lossBench(t)
			l := b.leased("j", "w")
			b.ok(verb(rota.VerbAck, l))
			c.first(b, l)
			b.ok(cancelOp("j"))
			b.refuses(rota.KindConflict, "job", InterruptOp(&b.View, "j", true))
			c.after(b, l)
			if b.leasing.leases.Get(string(l.ID[:])) != nil {
				t.Fatal("the lease is open")
			}
			if j := b.state("j", rota.JobCancelled); j.Reason != rota.ReasonCancelledByUser || j.Attempt != 0 ||
				j.WorkerLosses != 0 {
				t.Fatalf("job %+v", j)
			}
			b.sound()
		})
	}
}

// TestCulprit_afterPartialRetry checks that a workflow stays FAILED for a branch that a retry from another node did not
// run again: it names a node of that branch.
func TestCulprit_afterPartialRetry(t *testing.T) {
	t.Parallel()
	end := func(b *bench, l rota.Lease, how string) {
		switch how {
		case "DEAD":
			b.ok(verb(rota.VerbFail, l, func(c *peer.LeaseCommand) { c.Fail = peer.FailNoRetry }))
		case "CANCELLED":
			b.ok(cancelOp(string(l.Job)))
		default:
			b.ok(verb(rota.VerbComplete, l))
		}
	}
	for _, c := range []struct {
		name, first, second, reason string
		policy                      rota.FailurePolicy
	}{
		{"dead", "DEAD", "DEAD", "PROVIDER_FAIL", rota.FailureContinue},
		{"cancelled", "DEAD", "CANCELLED", "CANCELLED", rota.FailureContinue},
		{"cancelled with the workflow", "DEAD", "", "WORKFLOW_FAILED", rota.FailureFailFast},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newerBench(t)
			d := newDAG("wf", [][]uint32{nil, nil}, func(d *dag) { d.OnFailure = c.policy })
			b.run(d)
			if c.second == "" {
				b.ok(queueOp("default", "strategy", "round_robin"))
				b.worker("w", 1)
				for id, l := range b.match() {
					end(b, l, c.first)
					if id != "wf/n0" {
						d.g.Order[0], d.g.Order[1] = 1, 0
					}
				}
			} else {
				b.worker("w", 2)
				leases := b.match()
				end(b, leases["wf/n0"], c.first)
				end(b, leases["wf/n1"], c.second)
			}
			for b.flows.workflows.Get("wf").State == rota.WorkflowRunning {
				b.entry(sweepOp())
			}
			from, other := fmt.Sprint("n", d.g.Order[0]), fmt.Sprint("n", d.g.Order[1])
			b.ok(d.retry(from, 1))
			b.entry(sweepOp())
			if c.second != "" { // a node that is over, of a running workflow: the hint names a command that works
				o := b.refuses(rota.KindConflict, "job", retryOp("wf/"+other))
				if !strings.Contains(o.GetText(), "once the workflow has ended (rota workflow wait wf)") {
					t.Errorf("%s", o.GetText())
				}
			}
			var events []rota.Event
			for _, l := range b.match() {
				o := b.refuses(rota.KindConflict, "job", retryOp(string(l.Job)))
				if !strings.Contains(o.GetText(), "`rota job interrupt "+string(l.Job)+"`") {
					t.Errorf("%s", o.GetText())
				}
				events = b.entry(verb(rota.VerbComplete, l)).Events
			}
			w, _ := b.View.Workflow("wf")
			if w.State != rota.WorkflowFailed || w.FailedNode != other || w.Reason.String() != c.reason {
				t.Fatalf("workflow is %s for %q (%s)", w.State, w.FailedNode, w.Reason)
			}
			told := false
			for _, e := range events {
				told = told || e.Kind == rota.EventWorkflowFinished && e.Node == other && e.Reason.String() == c.reason
			}
			if !told {
				t.Fatalf("events %+v", events)
			}
			b.sound()
		})
	}
}

// TestRunNow_ofDatedNode checks that a node that only waits for its date runs at once: no lease is awaited.
func TestRunNow_ofDatedNode(t *testing.T) {
	t.Parallel()
	b := newerBench(t)
	d := newDAG("wf", [][]uint32{nil},
		func(d *dag) { d.Nodes[0].NotBefore = time.UnixMilli(int64(b.Header.Date()) + 3_600_000) })
	b.run(d)
	b.state("wf/n0", rota.JobDelayed)
	if o := b.refuses(rota.KindConflict, "job", retryOp("wf/n0")); !strings.Contains(o.GetText(), "run-now") {
		t.Errorf("a retry by itself is refused with %q", o.GetText())
	}
	b.ok(RunNowOp(&b.View, "wf/n0"))
	b.state("wf/n0", rota.JobQueued)
	b.sound()
}

// TestRetry_ofDatedJob checks that a retry runs a job at once, whatever its date was, also if it first waits for the
// worker of its cancelled lease.
func TestRetry_ofDatedJob(t *testing.T) {
	t.Parallel()
	for _, silent := range []bool{false, true} {
		b := newerBench(t)
		b.submit("j", func(s *rota.JobSpec) { s.NotBefore = time.UnixMilli(int64(b.Header.Date()) + 3_600_000) })
		b.ok(RunNowOp(&b.View, "j"))
		b.worker("w", 1)
		l := b.match()["j"]
		b.ok(verb(rota.VerbAck, l))
		b.ok(cancelOp("j"))
		b.ok(retryOp("j"))
		b.state("j", rota.JobDelayed)
		if silent {
			b.ok(reachOp("w", l.Session, false, b.now))
			b.pass(61_000)
		} else {
			b.ok(verb(rota.VerbDecline, l))
		}
		if j := b.state("j", rota.JobQueued); !j.Due.IsZero() {
			t.Errorf("due %v", j.Due)
		}
		b.sound()
	}
}
