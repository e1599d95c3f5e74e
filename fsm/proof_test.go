package fsm

import (
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
	"github.com/rotasched/rota/sched"
)

// reportOp is a verifier's report on a lease's job. The bench adds the spec, like a leader, unless change sets one.
func reportOp(l rota.Lease, change ...func(*rota.JobSpec)) *fsmpb.Op {
	op := &fsmpb.ReportProof{Job: string(l.Job), Lease: l.ID[:], Reason: "hash differs"}
	if len(change) > 0 {
		op.Spec = entry.SpecOp(jobSpec(string(l.Job), change...))
	}
	return &fsmpb.Op{Op: &fsmpb.Op_ReportProof{ReportProof: op}}
}

// completed runs a job at a new worker with a stake of 1000.
func (b *bench) completed(job, worker string, change ...func(*rota.JobSpec)) rota.Lease {
	b.t.Helper()
	b.staked(worker, 3, 1000)
	l := b.acked(job, change...)
	b.ok(verb(rota.VerbComplete, l))
	return l
}

func TestReportProof(t *testing.T) {
	t.Parallel()
	retries := func(s *rota.JobSpec) { s.RetryOnInvalidProof = true }
	run := func(name string, f func(b *bench)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(minded(t))
		})
	}
	again := func(b *bench, op *fsmpb.Op, state rota.JobState) {
		b.t.Helper()
		before, _ := b.View.Worker("w")
		a := b.entry(op)
		o := a.Outcomes[0]
		if after, _ := b.View.Worker("w"); entry.OutcomeError(o) != nil || !o.GetExisted() ||
			rota.JobState(o.GetJobState()) != state ||
			len(a.Events) != 0 || after.Slashed != before.Slashed || after.Health != before.Health {
			b.t.Fatalf("the second report: %v, events %+v", o, a.Events)
		}
	}
	run("slashes_the_worker_and_keeps_the_job", func(b *bench) {
		l := b.completed("j", "w")
		a := b.entry(reportOp(l))
		if o := a.Outcomes[0]; entry.OutcomeError(o) != nil || o.GetExisted() ||
			rota.JobState(o.GetJobState()) != rota.JobCompleted {
			b.t.Fatalf("outcome %v", o)
		}
		want := `providerSlashed PROOF_REJECTED {"penalty":100,"stake":900,"reason":"PROOF_REJECTED"}`
		if got := tells(a.Events); got != want || a.Events[0].Text != "hash differs" || a.Events[0].Job != "j" {
			b.t.Fatalf("events %+v", a.Events)
		}
		if w := b.health("w", 500); w.Slashed != 100 || w.InvalidProofs != 1 {
			b.t.Fatalf("worker %+v", w)
		}
		if j := b.state("j", rota.JobCompleted); j.Reason != rota.ReasonProofRejected {
			b.t.Fatalf("job %+v", j)
		}
		again(b, reportOp(l), rota.JobCompleted)
		b.every = 1000
		b.skip(b.now + 3_600_001)
		again(b, reportOp(l), rota.JobCompleted) // after the window too
	})
	run("retries_a_job_that_asked_for_it", func(b *bench) {
		l := b.completed("j", "w", retries)
		b.pass(10_000)
		o := b.ok(reportOp(l))
		if rota.JobState(o.GetJobState()) != rota.JobDelayed {
			b.t.Fatalf("outcome %v", o)
		}
		p := &b.QueueTable.Get("default").Policy
		j := b.state("j", rota.JobDelayed)
		if j.Attempt != 1 || j.Reason != rota.ReasonProofInvalid || j.Error != "hash differs" || len(j.Attempts) != 1 ||
			j.Due.Clock != b.now+rota.Clock(sched.BackoffMs("j", 0, p)) {
			b.t.Fatalf("job %+v", j)
		}
		again(b, reportOp(l, retries), rota.JobDelayed)
		b.pass(j.Due.Clock - b.now)
		b.worker("v", 1)
		b.ok(statusOp("w", rota.WorkerDraining, 0))
		second := b.match()["j"]
		again(b, reportOp(l), rota.JobAssigned)
		b.ok(verb(rota.VerbComplete, second))
		b.refuses(rota.KindConflict, "lease", reportOp(l)) // its completion was revoked
		b.ok(reportOp(second))
		if j := b.state("j", rota.JobDelayed); j.Attempt != 2 {
			b.t.Fatalf("job %+v", j)
		}
		if q, _ := b.View.Queue("default"); q.Assigned+q.Running+q.Queued != 0 || q.Delayed != 1 {
			b.t.Fatalf("queue %+v", q)
		}
	})
	run("keeps_a_job_whose_payload_nobody_has", func(b *bench) {
		l := b.completed("j", "w", retries)
		a := b.stamped(&fsmpb.Entry{Term: b.term, NowMs: int64(b.now), Ops: []*fsmpb.Op{reportOp(l)}}, b.term)
		if entry.OutcomeError(a.Outcomes[0]) != nil || len(a.Events) != 1 {
			b.t.Fatalf("outcome %v", a.Outcomes[0])
		}
		if j := b.state("j", rota.JobCompleted); j.Reason != rota.ReasonProofRejected {
			b.t.Fatalf("job %+v", j)
		}
	})
	run("kills_a_job_without_attempts_left", func(b *bench) {
		b.ok(queueOp("default", "attempt_max", "1"))
		l := b.completed("j", "w", retries)
		b.ok(reportOp(l, retries))
		if j := b.state("j", rota.JobDead); j.Reason != rota.ReasonProofInvalid || j.Attempt != 0 {
			b.t.Fatalf("job %+v", j)
		}
		again(b, reportOp(l, retries), rota.JobDead)
		if q, _ := b.View.Queue("default"); q.DeadTotal != 1 {
			b.t.Fatalf("queue %+v", q)
		}
	})
	run("expires_a_job_whose_time_is_up", func(b *bench) {
		mortal := func(s *rota.JobSpec) { s.RetryOnInvalidProof, s.TTL = true, 5*time.Second }
		l := b.completed("j", "w", mortal)
		b.pass(6_000)
		b.ok(reportOp(l, mortal))
		b.pass(250)
		b.state("j", rota.JobExpired)
	})
	run("jails_on_the_third_and_ends_what_is_open", func(b *bench) {
		b.ok(queueOp("default", "min_health", "0"))
		var leases []rota.Lease
		for _, id := range []string{"a", "b", "c"} {
			leases = append(leases, b.completed(id, "w"))
		}
		b.acked("open")
		for _, l := range leases {
			b.ok(reportOp(l))
		}
		b.status("w", rota.WorkerJailed)
		b.state("open", rota.JobQueued)
	})
	run("tells_of_a_worker_that_is_gone", func(b *bench) {
		l := b.completed("j", "w")
		b.ok(queueOp("default", "audit_window", "48h"))
		b.ok(statusOp("w", rota.WorkerRetired, 0))
		b.every = 100_000
		b.beatFleet(limits.WorkerForgotten)
		a := b.entry(reportOp(l))
		want := `providerSlashed PROOF_REJECTED {"penalty":0,"stake":0,"reason":"PROOF_REJECTED"}`
		if got := tells(a.Events); got != want {
			b.t.Fatalf("events %s", got)
		}
	})
	run("refuses_what_is_no_completion", func(b *bench) {
		l := b.completed("j", "w", retries)
		b.refuses(rota.KindNotFound, "job", reportOp(rota.Lease{Job: "nothing", ID: l.ID}))
		b.refuses(rota.KindConflict, "lease", reportOp(rota.Lease{Job: "j"}))
		open := b.acked("open")
		b.refuses(rota.KindConflict, "job", reportOp(open))
		b.ok(verb(rota.VerbFail, open, func(c *peer.LeaseCommand) { c.Fail = peer.FailNoRetry }))
		b.refuses(rota.KindConflict, "job", reportOp(open))
		short := reportOp(l)
		short.GetReportProof().Lease = l.ID[:31]
		b.refuses(rota.KindInvalid, "lease", short)
		long := reportOp(l)
		long.GetReportProof().Reason = strings.Repeat("x", limits.MaxReasonBytes+1)
		b.refuses(rota.KindInvalid, "reason", long)
		b.refuses(rota.KindInvalid, "spec", reportOp(l, retries, func(s *rota.JobSpec) { s.ID = "another" }))
		b.refuses(rota.KindInvalid, "priority", reportOp(l, retries, func(s *rota.JobSpec) { s.Priority = 99 }))
	})
	run("refuses_what_comes_after_the_audit_window", func(b *bench) {
		b.ok(queueOp("default", "audit_window", "10s"))
		l, on := b.completed("j", "w"), b.completed("k", "w")
		b.pass(10_000)
		b.ok(reportOp(on)) // the last moment
		b.pass(1)
		o := b.refuses(rota.KindConflict, "audit_window_ms", reportOp(l))
		if !strings.Contains(o.GetText(), "1 ms ago") {
			b.t.Fatalf("outcome %v", o)
		}
	})
}

// beatFleet lets long times pass in as few entries as a clock allows, and checks once.
func (b *bench) beatFleet(ms rota.Clock) {
	b.t.Helper()
	for end := b.now + ms; b.now < end; {
		b.now = min(b.now+limits.ClockLeapMax, end)
		b.entry(sweepOp())
	}
	b.sound()
}
