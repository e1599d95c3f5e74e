package fsm

import (
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

func TestLease(t *testing.T) {
	t.Parallel()
	run := func(name string, f func(b *bench)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(newBench(t))
		})
	}
	run("lives_from_submit_to_complete", func(b *bench) {
		l := b.leased("j", "w")
		b.state("j", rota.JobAssigned)
		b.ok(verb(rota.VerbAck, l))
		b.ok(verb(rota.VerbAck, l)) // again changes nothing
		b.state("j", rota.JobRunning)
		o := b.ok(verb(rota.VerbRenew, l))
		if rota.Clock(o.GetDeadlineMs()) != b.now+60_000 || o.GetRenewals() != 1 {
			b.t.Fatalf("renewed to %v", o)
		}
		b.ok(verb(rota.VerbComplete, l, output("out")))
		j := b.state("j", rota.JobCompleted)
		if string(j.Output) != "out" || len(j.Attempts) != 1 || j.Attempts[0].End != rota.ReasonDone {
			b.t.Fatalf("job %+v", j)
		}
		w, _ := b.View.Worker("w")
		if w.Open != 0 || w.Completed != 1 {
			b.t.Fatalf("worker %+v", w)
		}
	})
	run("refuses_foreign_session", func(b *bench) {
		l := b.leased("j", "w")
		other := b.worker("thief", 1)
		for v := rota.VerbAck; v <= rota.VerbProgress; v++ {
			b.refuses(rota.KindStale, "lease", verb(v, l, func(c *peer.LeaseCommand) {
				c.Worker, c.Session = "thief", other
			}))
			b.refuses(rota.KindStale, "session", verb(v, l, func(c *peer.LeaseCommand) { c.Session = other }))
			b.refuses(rota.KindStale, "session", verb(v, l, func(c *peer.LeaseCommand) { c.Session = 0 }))
			b.refuses(rota.KindStale, "session", verb(v, l, func(c *peer.LeaseCommand) { c.Worker = "nobody" }))
		}
		b.ok(verb(rota.VerbComplete, l)) // the rightful worker is unharmed
	})
	run("refuses_made_up_lease", func(b *bench) {
		l := b.leased("j", "w")
		for v := rota.VerbAck; v <= rota.VerbProgress; v++ {
			b.refuses(rota.KindStale, "lease", verb(v, l, func(c *peer.LeaseCommand) { c.Lease[7]++ }))
			b.refuses(rota.KindStale, "lease", verb(v, l, func(c *peer.LeaseCommand) { c.Lease = rota.LeaseID{} }))
		}
		b.refuses(rota.KindInvalid, "verb", verb(99, l))
		b.ok(verb(rota.VerbComplete, l))
	})
	run("refuses_bad_completion_and_keeps_the_lease", func(b *bench) {
		l := b.leased("j", "w")
		b.refuses(rota.KindInvalid, "output", verb(rota.VerbComplete, l,
			output(strings.Repeat("x", rota.MaxPayloadBytes+1))))
		b.refuses(rota.KindInvalid, "output_digest", verb(rota.VerbComplete, l,
			func(c *peer.LeaseCommand) { c.OutputDigest = []byte{1} }))
		b.refuses(rota.KindInvalid, "progress", verb(rota.VerbProgress, l,
			func(c *peer.LeaseCommand) { c.Progress = 101 }))
		b.refuses(rota.KindInvalid, "progress", verb(rota.VerbProgress, l,
			func(c *peer.LeaseCommand) { c.Progress = -1 }))
		b.ok(verb(rota.VerbComplete, l))
	})
	run("answers_a_repeated_completion_and_refuses_another_result", func(b *bench) {
		l := b.leased("j", "w")
		b.worker("thief", 1)
		b.ok(verb(rota.VerbComplete, l, output("out")))
		for range 2 {
			if o := b.ok(verb(rota.VerbComplete, l, output("out"))); !o.GetExisted() ||
				rota.JobState(o.GetJobState()) != rota.JobCompleted {
				b.t.Fatalf("outcome %v", o)
			}
		}
		sum := sha256.Sum256([]byte("out"))
		b.ok(verb(rota.VerbComplete, l, func(c *peer.LeaseCommand) { c.OutputDigest = sum[:] }))
		b.refuses(rota.KindStale, "lease", verb(rota.VerbComplete, l, output("other")))
		b.refuses(rota.KindStale, "lease", verb(rota.VerbFail, l))
		b.refuses(rota.KindStale, "lease", verb(rota.VerbDecline, l))
		b.refuses(rota.KindStale, "lease", verb(rota.VerbRenew, l))
		b.refuses(rota.KindStale, "lease", verb(rota.VerbComplete, l, output("out"), func(c *peer.LeaseCommand) {
			c.Worker, c.Session = "thief", l.Session+1
		}))
	})
	run("counts_proof_invalid_once", func(b *bench) {
		want := sha256.Sum256([]byte("right"))
		l := b.leased("j", "w", func(s *rota.JobSpec) { s.ExpectedDigest = want[:] })
		for range 2 {
			o := b.entry(verb(rota.VerbComplete, l, output("wrong"))).Outcomes[0]
			if err := entry.OutcomeError(o); err == nil || err.Kind != rota.KindConflict ||
				rota.JobState(o.GetJobState()) != rota.JobDelayed {
				b.t.Fatalf("outcome %v", o)
			}
		}
		if j := b.state("j", rota.JobDelayed); j.Attempt != 1 || j.Reason != rota.ReasonProofInvalid {
			b.t.Fatalf("job %+v", j)
		}
	})
	run("declines_uncounted_until_the_twentieth", func(b *bench) {
		b.worker("w", 1)
		b.submit("j")
		b.every = 100
		for n := 1; n <= limits.MaxDeclines; n++ {
			l := b.match()["j"]
			if l.Attempt != 0 {
				b.t.Fatalf("decline %d: attempt %d", n, l.Attempt)
			}
			b.ok(verb(rota.VerbDecline, l))
			if o := b.ok(verb(rota.VerbDecline, l)); !o.GetExisted() {
				b.t.Fatalf("a repeated decline counted again: %v", o)
			}
			if n < limits.MaxDeclines {
				b.pass(30_000) // the worker cools down for the type
			}
		}
		if j := b.state("j", rota.JobDelayed); j.Attempt != 1 || j.Reason != rota.ReasonProviderFail {
			b.t.Fatalf("job %+v", j)
		}
	})
	run("fails_with_backoff_then_dies", func(b *bench) {
		b.ok(queueOp("default", "attempt_max", "2", "backoff_base", "1s"))
		l := b.leased("j", "w")
		b.ok(verb(rota.VerbFail, l, func(c *peer.LeaseCommand) { c.Text = "boom" }))
		if o := b.ok(verb(rota.VerbFail, l)); !o.GetExisted() {
			b.t.Fatalf("a repeated failure counted again: %v", o)
		}
		j := b.state("j", rota.JobDelayed)
		if wait := j.Due.Clock - b.now; wait < 900 || wait > 1100 || j.Error != "boom" {
			b.t.Fatalf("job %+v waits %d", j, wait)
		}
		b.pass(1200)
		l = b.match()["j"]
		b.ok(verb(rota.VerbFail, l))
		if j := b.state("j", rota.JobDead); j.Attempt != 1 || len(j.Attempts) != 2 {
			b.t.Fatalf("job %+v", j)
		}
		b.ok(verb(rota.VerbFail, l)) // reported again
	})
	run("dies_at_once_without_retry", func(b *bench) {
		l := b.leased("j", "w")
		b.ok(verb(rota.VerbFail, l, func(c *peer.LeaseCommand) {
			c.Fail = peer.FailNoRetry
			c.Text = strings.Repeat("é", 9000)
		}))
		if j := b.state("j", rota.JobDead); len(j.Error) > limits.MaxErrorBytes {
			b.t.Fatalf("error of %d bytes", len(j.Error))
		}
	})
	failing := func(kind peer.FailKind, after time.Duration) func(*peer.LeaseCommand) {
		return func(c *peer.LeaseCommand) { c.Fail, c.After, c.Text = kind, after, "as asked" }
	}
	run("is_tried_again_as_the_job_says", func(b *bench) {
		b.ok(queueOp("default", "attempt_max", "9", "backoff_base", "1s", "backoff_factor", "2", "backoff_cap", "1h"))
		l := b.leased("j", "w", func(s *rota.JobSpec) {
			s.Retry = rota.RetryPolicy{Attempts: 4, Base: 10 * time.Second, FactorPermille: 3_000, Cap: time.Minute,
				JitterPermille: -1}
		})
		for attempt, wait := range []rota.Clock{10_000, 30_000, 60_000} {
			b.ok(verb(rota.VerbFail, l))
			if j := b.state("j", rota.JobDelayed); j.Due.Clock != b.now+wait || j.Attempt != int32(attempt)+1 {
				b.t.Fatalf("attempt %d: job %+v at %d, want %d", attempt, j, b.now, wait)
			}
			b.pass(wait)
			l = b.match()["j"]
		}
		b.ok(verb(rota.VerbFail, l))
		b.state("j", rota.JobDead)
	})
	run("is_tried_again_as_the_queue_says_where_the_job_does_not", func(b *bench) {
		b.ok(queueOp("default", "attempt_max", "2", "backoff_base", "20s", "backoff_jitter", "0"))
		l := b.leased("j", "w", func(s *rota.JobSpec) { s.Retry = rota.RetryPolicy{FactorPermille: 9_000} })
		b.ok(verb(rota.VerbFail, l))
		if j := b.state("j", rota.JobDelayed); j.Due.Clock != b.now+20_000 {
			b.t.Fatalf("job %+v at %d", j, b.now)
		}
		b.pass(20_000)
		b.ok(verb(rota.VerbFail, b.match()["j"]))
		b.state("j", rota.JobDead)
	})
	run("waits_as_long_as_the_handler_says", func(b *bench) {
		b.ok(queueOp("default", "attempt_max", "2", "backoff_base", "1s"))
		l := b.leased("j", "w")
		b.ok(verb(rota.VerbFail, l, failing(peer.FailRetryAfter, 7*time.Minute)))
		if j := b.state("j", rota.JobDelayed); j.Due.Clock != b.now+420_000 || j.Attempt != 1 ||
			j.Reason != rota.ReasonProviderFail {
			b.t.Fatalf("job %+v at %d", j, b.now)
		}
		b.pass(420_000)
		b.ok(verb(rota.VerbFail, b.match()["j"], failing(peer.FailRetryAfter, time.Minute)))
		b.state("j", rota.JobDead) // it counted
	})
	run("snoozes_for_nothing", func(b *bench) {
		b.ok(queueOp("default", "attempt_max", "1", "cool_after", "1"))
		l := b.leased("j", "w")
		before, _ := b.View.Worker("w")
		for n := range limits.MaxSnoozes {
			b.ok(verb(rota.VerbFail, l, failing(peer.FailSnooze, 3*time.Second)))
			if o := b.ok(verb(rota.VerbFail, l, failing(peer.FailSnooze, 3*time.Second))); !o.GetExisted() {
				b.t.Fatalf("a repeated snooze is accepted again: %v", o)
			}
			if j := b.state("j", rota.JobDelayed); j.Due.Clock != b.now+3_000 || j.Attempt != 0 ||
				j.Reason != rota.ReasonSnoozed {
				b.t.Fatalf("job %+v at %d, after %d", j, b.now, n)
			}
			b.pass(3_000)
			l = b.match()["j"]
		}
		if after, _ := b.View.Worker("w"); after.Health != before.Health || after.Failed != before.Failed ||
			len(after.Cooling) > 0 {
			b.t.Fatalf("worker %+v, before %+v", after, before)
		}
		b.ok(verb(rota.VerbFail, l, failing(peer.FailSnooze, 3*time.Second)))
		b.state("j", rota.JobDead)
	})
	run("is_cancelled_by_its_handler", func(b *bench) {
		l := b.leased("j", "w")
		for range 2 {
			b.ok(verb(rota.VerbFail, l, failing(peer.FailCancel, 0)))
		}
		if j := b.state("j", rota.JobCancelled); j.Reason != rota.ReasonCancelledByHandler || j.Error != "as asked" {
			b.t.Fatalf("job %+v", j)
		}
	})
	run("refuses_waits_that_nobody_asks_for", func(b *bench) {
		l := b.leased("j", "w")
		b.refuses(rota.KindInvalid, "fail", verb(rota.VerbFail, l, failing(peer.FailLast+1, 0)))
		for _, c := range []struct {
			kind  peer.FailKind
			after time.Duration
		}{{peer.FailSnooze, 0}, {peer.FailSnooze, -1}, {peer.FailRetryAfter, limits.MaxFailWait + time.Millisecond},
			{peer.FailRetry, time.Second}, {peer.FailCancel, time.Second}, {peer.FailTimedOut, time.Second}} {
			b.refuses(rota.KindInvalid, "after_ms", verb(rota.VerbFail, l, failing(c.kind, c.after)))
		}
		b.state("j", rota.JobAssigned)
	})
	run("keeps_progress_once_a_second", func(b *bench) {
		l := b.leased("j", "w")
		report := func(p int32) {
			b.ok(verb(rota.VerbProgress, l, func(c *peer.LeaseCommand) { c.Progress, c.Text = p, "step" }))
		}
		report(10)
		report(20)
		if j := b.state("j", rota.JobAssigned); j.Progress != 10 {
			b.t.Fatalf("progress %d", j.Progress)
		}
		b.pass(1000)
		report(30)
		report(100)
		if j := b.state("j", rota.JobAssigned); j.Progress != 100 {
			b.t.Fatalf("progress %d", j.Progress)
		}
	})
}

func output(s string) func(*peer.LeaseCommand) {
	return func(c *peer.LeaseCommand) { c.Output = []byte(s) }
}

func TestRenew(t *testing.T) {
	t.Parallel()
	run := func(name string, f func(b *bench)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(newBench(t))
		})
	}
	run("adds_half_and_never_banks", func(b *bench) {
		l := b.leased("j", "w") // 60 s
		start := b.now
		b.ok(verb(rota.VerbAck, l))
		b.pass(20_000)
		o := b.ok(verb(rota.VerbRenew, l))
		if d := rota.Clock(o.GetDeadlineMs()); d != start+80_000 { // min(60 s + 30 s, 20 s + 60 s)
			b.t.Fatalf("deadline start + %d", d-start)
		}
		b.pass(45_000)
		o = b.ok(verb(rota.VerbRenew, l, ordinal(2)))
		if d := rota.Clock(o.GetDeadlineMs()); d != start+110_000 { // min(80 s + 30 s, 65 s + 60 s)
			b.t.Fatalf("deadline start + %d", d-start)
		}
	})
	run("banks_where_the_queue_says_so", func(b *bench) {
		b.refuses(rota.KindConflict, "rules_version", queueOp("default", "renew_adds", "on"))
		b.ok(switchOp(entry.RulesVersion))
		b.refuses(rota.KindInvalid, "renew_adds", queueOp("default", "renew_adds", "on"))
		b.ok(queueOp("default", "renew_adds", "on", "renewals_max", "2"))
		l := b.leased("j", "w") // 60 s
		start := b.now
		b.ok(verb(rota.VerbAck, l))
		for n, want := range []rota.Clock{90_000, 120_000} {
			if o := b.ok(verb(rota.VerbRenew, l, ordinal(int32(n+1)))); rota.Clock(o.GetDeadlineMs()) != start+want {
				b.t.Fatalf("renewal %d: deadline start + %d, want %d", n+1, rota.Clock(o.GetDeadlineMs())-start, want)
			}
		}
		b.refuses(rota.KindConflict, "lease", verb(rota.VerbRenew, l, ordinal(3)))
		b.pass(120_000)
		b.state("j", rota.JobDelayed)
	})
	run("answers_a_counted_ordinal_again", func(b *bench) {
		l := b.leased("j", "w")
		first := b.ok(verb(rota.VerbRenew, l, ordinal(1)))
		b.pass(1000)
		if again := b.ok(verb(rota.VerbRenew, l, ordinal(1))); again.GetDeadlineMs() != first.GetDeadlineMs() {
			b.t.Fatalf("%v, then %v", first, again)
		}
		b.ok(verb(rota.VerbRenew, l, ordinal(2)))
		if o := b.ok(verb(rota.VerbRenew, l, ordinal(1))); o.GetRenewals() != 2 {
			b.t.Fatalf("outcome %v", o)
		}
		b.refuses(rota.KindInvalid, "ordinal", verb(rota.VerbRenew, l, ordinal(4)))
		b.refuses(rota.KindInvalid, "ordinal", verb(rota.VerbRenew, l, ordinal(0)))
		b.refuses(rota.KindInvalid, "ordinal", verb(rota.VerbRenew, l, ordinal(-1)))
	})
	run("stops_at_renewals_max_but_keeps_the_lease", func(b *bench) {
		b.ok(queueOp("default", "renewals_max", "1"))
		l := b.leased("j", "w")
		b.ok(verb(rota.VerbRenew, l, ordinal(1)))
		b.refuses(rota.KindConflict, "lease", verb(rota.VerbRenew, l, ordinal(2)))
		b.ok(verb(rota.VerbComplete, l))
	})
	run("stops_at_max_runtime", func(b *bench) {
		l := b.leased("j", "w", func(s *rota.JobSpec) { s.MaxRuntime = 70 * time.Second })
		start := b.now
		b.ok(verb(rota.VerbAck, l))
		b.pass(30_000)
		if o := b.ok(verb(rota.VerbRenew, l, ordinal(1))); rota.Clock(o.GetDeadlineMs()) != start+70_000 {
			b.t.Fatalf("outcome %v", o)
		}
		b.refuses(rota.KindConflict, "lease", verb(rota.VerbRenew, l, ordinal(2)))
		b.pass(40_000)
		if j := b.state("j", rota.JobDelayed); j.Reason != rota.ReasonTimedOut {
			b.t.Fatalf("job %+v", j)
		}
	})
	run("is_taken_until_the_sweep", func(b *bench) {
		l := b.leased("j", "w")
		b.ok(verb(rota.VerbAck, l))
		for range 62 {
			b.now += 1000
			b.entry()
		}
		// Over its deadline, but no sweep has reported it (SPEC §3.7).
		b.ok(verb(rota.VerbRenew, l))
		b.pass(250)
		b.state("j", rota.JobRunning)
	})
	run("shortens_nothing_when_the_policy_does", func(b *bench) {
		l := b.leased("j", "w")
		b.ok(queueOp("default", "t_lease", "10s"))
		if o := b.ok(verb(rota.VerbRenew, l)); rota.Clock(o.GetDeadlineMs()) < l.Deadline.Clock {
			b.t.Fatalf("deadline %d before %d", o.GetDeadlineMs(), l.Deadline)
		}
	})
}

func ordinal(n int32) func(*peer.LeaseCommand) {
	return func(c *peer.LeaseCommand) { c.Ordinal = n }
}
