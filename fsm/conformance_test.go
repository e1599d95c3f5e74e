package fsm

import (
	"fmt"
	"slices"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/peer"
	"github.com/rotasched/rota/sched"
)

// The conformance list of AICF §14, on the machine and with the numbers of its presets. sched's TestVectors replays the
// vectors of its fourth line, where rounds are decided.

// aicf returns a bench with the queue "ai" of the preset aicf-ai.
func aicf(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.ok(&fsmpb.Op{Op: &fsmpb.Op_SetQueue{SetQueue: &fsmpb.SetQueue{Name: "ai", Preset: "aicf-ai"}}})
	b.ok(minds("default"))
	return b
}

// ai returns a job of that queue.
func ai(change ...func(*rota.JobSpec)) func(*rota.JobSpec) {
	return func(s *rota.JobSpec) {
		s.Queue = "ai"
		for _, f := range change {
			f(s)
		}
	}
}

func serves(change ...func(*rota.WorkerSpec)) func(*rota.WorkerSpec) {
	return func(w *rota.WorkerSpec) {
		w.Queues = append(w.Queues, "ai")
		for _, f := range change {
			f(w)
		}
	}
}

// pairing returns why a round of one pair of the queue "ai" is dropped, "" if it is accepted.
func (b *bench) pairing(job, worker string) string {
	b.t.Helper()
	op := roundOp(b, job, worker)
	op.GetRound().Queue = "ai"
	for _, e := range b.entry(op).Events {
		if e.Kind == rota.EventAssignmentDropped {
			return e.Text
		}
	}
	return ""
}

// TestConformance_QueueMatcher checks eligibility, quotas and ties of AICF §14.
func TestConformance_QueueMatcher(t *testing.T) {
	t.Parallel()
	t.Run("eligibility", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			why    string
			set    []string
			job    func(*rota.JobSpec)
			worker func(*rota.WorkerSpec)
			stake  int64 // signed by an attestation
			then   func(*bench)
		}{
			{why: ""},
			{why: "NOT_ACTIVE", then: func(b *bench) { b.ok(statusOp("w", rota.WorkerSuspended, 0)) }},
			{why: "NOT_ACTIVE", then: func(b *bench) {
				s, _ := b.View.Session("w")
				b.ok(reachOp("w", s, false, b.now))
			}},
			{why: "ATTESTATION_MISSING", set: []string{"require_attestation", "on"}},
			{why: "STAKE_TOO_LOW", set: []string{"min_stake", "5"}, worker: func(w *rota.WorkerSpec) { w.Stake = 5 }},
			{why: "STAKE_TOO_LOW", set: []string{"min_stake", "5"}, stake: 4},
			{why: "", set: []string{"min_stake", "5"}, stake: 5},
			{why: "HEALTH_TOO_LOW", set: []string{"min_health", "999"}, then: func(b *bench) { b.weaken("w", 1) }},
			{why: "REGION_DENIED", job: func(s *rota.JobSpec) { s.RegionsAllow = []string{"eu"} },
				worker: func(w *rota.WorkerSpec) { w.Region = "us" }},
			{why: "REGION_DENIED", job: func(s *rota.JobSpec) { s.RegionsDeny = []string{"us"} },
				worker: func(w *rota.WorkerSpec) { w.Region = "us" }},
			{why: "CAPABILITY_MISSING", job: func(s *rota.JobSpec) { s.Requires = []string{"model=x"} }},
			{why: "LIMIT_EXCEEDED", job: func(s *rota.JobSpec) { s.Limits = map[string]int64{"depth": 9} },
				worker: func(w *rota.WorkerSpec) { w.Limits = map[string]int64{"depth": 8} }},
			{why: "", job: func(s *rota.JobSpec) { s.Limits = map[string]int64{"depth": 8} },
				worker: func(w *rota.WorkerSpec) { w.Limits = map[string]int64{"depth": 8, "width": 1} }},
			{why: "NOT_THE_PINNED_WORKER", job: func(s *rota.JobSpec) { s.Worker = "another" }},
		} {
			b := aicf(t)
			if len(c.set) > 0 {
				b.ok(queueOp("ai", c.set...))
			}
			var more []func(*rota.WorkerSpec)
			if c.worker != nil {
				more = append(more, c.worker)
			}
			if c.stake > 0 {
				b.staked("w", 4, c.stake, serves(more...))
			} else {
				b.worker("w", 4, serves(more...))
			}
			if c.then != nil {
				c.then(b)
			}
			job := ai()
			if c.job != nil {
				job = ai(c.job)
			}
			b.submit("j", job)
			if decided := len(b.View.Decide(10)) > 0; decided != (c.why == "") {
				t.Errorf("%s: a round places it: %v", c.why, decided)
			}
			if got := b.pairing("j", "w"); got != c.why {
				t.Errorf("dropped for %q, want %q", got, c.why)
			}
		}
	})
	t.Run("quotas", func(t *testing.T) {
		t.Parallel()
		b := aicf(t)
		b.every = 10
		b.worker("w", 100, serves())
		for i := range 20 {
			b.submit(fmt.Sprint("j", i), ai())
		}
		if n := len(b.match()); n != 16 {
			t.Fatalf("%d leases for one worker, leases_max_per_worker is 16", n)
		}
		b.worker("v", 100, serves())
		b.submit("big", ai(func(s *rota.JobSpec) { s.Units, s.Worker = 100_000, "v" }))
		b.submit("more", ai(func(s *rota.JobSpec) { s.Worker = "v" }))
		if why := b.pairing("big", "v"); why != "" {
			t.Fatalf("dropped for %s", why)
		}
		if why := b.pairing("more", "v"); why != "UNITS_EXHAUSTED" {
			t.Fatalf("dropped for %q", why)
		}
	})
	t.Run("priority_and_ties", func(t *testing.T) {
		t.Parallel()
		b := aicf(t)
		fee := func(n int64) func(*rota.JobSpec) {
			return ai(func(s *rota.JobSpec) { s.Fee = n })
		}
		b.submit("poor", fee(0))
		b.submit("z-rich", fee(1_000_000))
		b.submit("a-rich", fee(1_000_000))
		b.now += 10
		b.submit("late-rich", fee(1_000_000))
		b.submit("large", ai(func(s *rota.JobSpec) { s.Fee, s.SizeBytes = 1_000_000, 1<<30 }))
		var order []rota.JobID
		for i := range 5 {
			b.worker(fmt.Sprint("w", i), 1, serves())
			for id, l := range b.match() {
				order = append(order, id)
				b.ok(verb(rota.VerbAck, l))
			}
		}
		// One free worker at a time: for a-rich and z-rich, which tie on score and age, H(job, worker, seed) decides
		// (SPEC §7.5); everything else is in the order of score.
		ties := order[:2]
		slices.Sort(ties)
		if want := []rota.JobID{"a-rich", "z-rich", "late-rich", "large", "poor"}; !slices.Equal(order, want) {
			t.Fatalf("placed in the order %v, want %v", order, want)
		}
	})
}

// TestConformance_AssignmentAndLease checks lease timers, renewals and cancellations of AICF §14, with the numbers of
// §5.2: 10 minutes, α 0.6, β 0.5, 4 renewals.
func TestConformance_AssignmentAndLease(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T) (*bench, rota.Lease) {
		t.Helper()
		b := aicf(t)
		b.every = 50
		b.worker("w", 4, serves())
		b.submit("j", ai())
		l := b.match()["j"]
		if l.AckBy.Clock != l.Started.Clock+5_000 || l.Deadline.Clock != l.Started.Clock+600_000 ||
			l.RenewBy.Clock != l.Started.Clock+360_000 ||
			l.ID != sched.LeaseID("j", "w", 0, sched.Hash(l.Decision.Seed)) {
			t.Fatalf("lease %+v", l)
		}
		b.state("j", rota.JobAssigned)
		return b, l
	}
	t.Run("an_unacknowledged_lease_is_cancelled_with_backoff", func(t *testing.T) {
		t.Parallel()
		b, _ := start(t)
		b.pass(5_000)
		if j := b.state("j", rota.JobDelayed); j.Reason != rota.ReasonAckTimeout || j.Attempt != 1 {
			t.Fatalf("job %+v", j)
		}
		b.health("w", 950)
	})
	t.Run("four_renewals_by_half_a_lease", func(t *testing.T) {
		t.Parallel()
		b, l := start(t)
		b.ok(verb(rota.VerbAck, l))
		deadline := l.Deadline.Clock
		for n := range int32(4) {
			b.skip(deadline - 240_000)
			o := b.ok(verb(rota.VerbRenew, l, func(c *peer.LeaseCommand) { c.Ordinal = n + 1 }))
			if deadline += 300_000; rota.Clock(o.GetDeadlineMs()) != deadline {
				t.Fatalf("renewal %d to %d, want %d", n+1, o.GetDeadlineMs(), deadline)
			}
		}
		b.refuses(rota.KindConflict, "lease", verb(rota.VerbRenew, l, func(c *peer.LeaseCommand) { c.Ordinal = 5 }))
		b.skip(deadline - 1)
		b.state("j", rota.JobRunning)
		b.skip(deadline)
		if j := b.state("j", rota.JobDelayed); j.Reason != rota.ReasonLeaseExpired {
			t.Fatalf("job %+v", j)
		}
		b.refuses(rota.KindStale, "lease", verb(rota.VerbComplete, l)) // a replay is rejected
	})
	t.Run("cancelled_when_the_provider_leaves", func(t *testing.T) {
		t.Parallel()
		for status, why := range map[rota.WorkerStatus]rota.Reason{rota.WorkerSuspended: rota.ReasonWorkerSuspended,
			rota.WorkerRetired: rota.ReasonWorkerRetired} {
			b, l := start(t)
			b.ok(statusOp("w", status, 0))
			if j := b.state("j", rota.JobQueued); j.Reason != why || j.Attempt != 0 {
				t.Errorf("%s: job %+v", status, j)
			}
			b.refuses(rota.KindStale, "lease", verb(rota.VerbComplete, l))
		}
		b, l := start(t)
		b.spoil("w", 1) // the remaining health is less than min_health
		b.ok(queueOp("default", "min_health", "0"))
		b.spoil("w", 2)
		b.status("w", rota.WorkerJailed)
		if j := b.state("j", rota.JobQueued); j.Reason != rota.ReasonWorkerJailed {
			t.Errorf("JAILED: job %+v", j)
		}
		b.refuses(rota.KindStale, "lease", verb(rota.VerbComplete, l))
	})
	t.Run("revoked_when_quotas_are_reduced", func(t *testing.T) {
		t.Parallel()
		b, first := start(t)
		b.submit("k", ai())
		second := b.match()["k"]
		b.ok(queueOp("ai", "leases_max_per_worker", "1"))
		for l, want := range map[rota.LeaseID]rota.Reason{first.ID: rota.ReasonNone, second.ID: rota.ReasonQuotaCut} {
			if a, _ := b.View.Assignment(l); a.Lease.Revoked != want {
				t.Errorf("lease %s is revoked for %s, want %s", l, a.Lease.Revoked, want)
			}
		}
	})
	t.Run("a_decline_cools_the_provider_down_for_the_class", func(t *testing.T) {
		t.Parallel()
		b, l := start(t)
		b.ok(verb(rota.VerbDecline, l))
		if j := b.state("j", rota.JobQueued); j.Attempt != 0 {
			t.Fatalf("job %+v", j)
		}
		if why := b.pairing("j", "w"); why != "COOLING_DOWN" {
			t.Fatalf("dropped for %q", why)
		}
	})
}

// TestConformance_RetryTTL checks backoff, expirations and requeueing of AICF §14.
func TestConformance_RetryTTL(t *testing.T) {
	t.Parallel()
	t.Run("backoff_by_attempt_until_dead", func(t *testing.T) {
		t.Parallel()
		b := aicf(t)
		b.every = 100
		b.submit("j", ai())
		p := &b.QueueTable.Get("ai").Policy
		for n := range int32(6) {
			b.worker(fmt.Sprint("w", n), 1, serves())
			l := b.match()["j"]
			if l.Attempt != n {
				t.Fatalf("got attempt %d, want %d", l.Attempt, n)
			}
			b.ok(verb(rota.VerbFail, l))
			if n == 5 {
				break
			}
			want := rota.Clock(sched.BackoffMs("j", n, p))
			if j := b.state("j", rota.JobDelayed); j.Due.Clock != b.now+want || want%1000 != 0 || want < 4_500<<n ||
				want > 5_500<<n {
				t.Fatalf("attempt %d waits for %d ms, want %d", n, j.Due.Clock-b.now, want)
			}
			b.skip(b.now + want - 1)
			b.state("j", rota.JobDelayed)
			b.skip(b.now + 1)
			b.state("j", rota.JobQueued)
		}
		if j := b.state("j", rota.JobDead); j.Reason != rota.ReasonProviderFail {
			t.Fatalf("job %+v", j)
		}
		if o := b.ok(submitOp(jobSpec("j", ai()))); !o.GetExisted() {
			t.Fatal("a tombstone admits the job again")
		}
	})
	t.Run("absolute_and_relative_time_to_live", func(t *testing.T) {
		t.Parallel()
		b := aicf(t)
		b.every = 1000
		b.ok(queueOp("ai", "ttl_abs", "1m", "ttl_rel_max", "30s"))
		b.submit("waits", ai())
		b.worker("w", 1, serves())
		b.submit("runs", ai(func(s *rota.JobSpec) { s.Fee = 1_000_000 }))
		l := b.match()["runs"]
		b.ok(verb(rota.VerbAck, l))
		b.pass(29_999)
		b.state("runs", rota.JobRunning)
		b.pass(1)
		if j := b.state("runs", rota.JobExpired); j.Reason != rota.ReasonTTLRelative {
			t.Fatalf("job %+v", j)
		}
		b.refuses(rota.KindStale, "lease", verb(rota.VerbComplete, l))
		b.ok(statusOp("w", rota.WorkerDraining, 0))
		b.pass(29_999)
		b.state("waits", rota.JobQueued)
		b.pass(1)
		if j := b.state("waits", rota.JobExpired); j.Reason != rota.ReasonTTLAbsolute {
			t.Fatalf("job %+v", j)
		}
	})
	t.Run("a_proof_that_is_invalid_is_escalated", func(t *testing.T) {
		t.Parallel()
		b := aicf(t)
		l := b.completed("j", "w")
		if got := tells(b.entry(reportOp(l)).Events); got !=
			`providerSlashed PROOF_REJECTED {"penalty":100,"stake":900,"reason":"PROOF_REJECTED"}` {
			t.Fatalf("events %s", got)
		}
	})
}
