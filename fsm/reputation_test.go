package fsm

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
)

// health checks a worker's present health.
func (b *bench) health(worker string, want int32) rota.Worker {
	b.t.Helper()
	w, ok := b.View.Worker(rota.WorkerID(worker))
	if !ok || w.Health != want {
		b.t.Fatalf("worker %s: got health %d, want %d", worker, w.Health, want)
	}
	return w
}

// acked leases the job at the present worker, and acknowledges it.
func (b *bench) acked(job string, change ...func(*rota.JobSpec)) rota.Lease {
	b.t.Helper()
	b.submit(job, change...)
	l, ok := b.match()[rota.JobID(job)]
	if !ok {
		b.t.Fatalf("job %s was not placed", job)
	}
	b.ok(verb(rota.VerbAck, l))
	return l
}

// typed returns a job of a type.
func typed(typ rota.JobType) func(*rota.JobSpec) { return func(s *rota.JobSpec) { s.Type = typ } }

// mismatch checks that a pair that no leader decided is dropped for a reason.
func (b *bench) mismatch(job, worker, why string) {
	b.t.Helper()
	if got := b.dropped(job, worker); got != why {
		b.t.Fatalf("%s to %s was dropped for %s, want %s", job, worker, got, why)
	}
}

// weaken lowers a worker's health by ack timeouts; each costs 50 and takes the ack timeout, in which 5 grow back.
func (b *bench) weaken(worker string, times int) {
	b.t.Helper()
	for i := range times {
		id := fmt.Sprint("weak-", worker, i, "-", b.Header.Index)
		b.submit(id, func(s *rota.JobSpec) { s.Worker = rota.WorkerID(worker) })
		if _, ok := b.match()[rota.JobID(id)]; !ok {
			b.t.Fatalf("job %s was not placed", id)
		}
		b.pass(5_000)
		b.ok(cancelOp(id))
	}
}

// minded is a bench whose default queue applies reputation, as the presets of AICF do.
func minded(t tester) *bench {
	b := newBench(t)
	b.ok(minds("default"))
	return b
}

// minds turns reputation on in a queue, and sets keys as queueOp does.
func minds(name string, pairs ...string) *fsmpb.Op {
	return queueOp(name, append([]string{"cool_after", "3", "decline_cools", "on", "deny_ms", "30000", "health_steps",
		"on", "min_health", "300"}, pairs...)...)
}

func TestHealth(t *testing.T) {
	t.Parallel()
	run := func(name string, f func(b *bench)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(minded(t))
		})
	}
	run("starts_full_and_stays_so", func(b *bench) {
		b.worker("w", 1)
		b.health("w", 1000)
		b.ok(verb(rota.VerbComplete, b.acked("j")))
		b.health("w", 1000)
		if b.Timers.Reputation.Len() != 0 {
			b.t.Fatal("a sound worker has a timer")
		}
	})
	run("changes_by_what_the_queue_sets", func(b *bench) {
		b.ok(queueOp("default", "min_health", "0", "health_ack_timeout", "7", "health_late_renewal", "30",
			"health_success", "9", "health_lease_expired", "60", "health_proof_invalid", "200"))
		w := &rota.Worker{Health: 1000}
		p := &b.QueueTable.Get("default").Policy
		for what, by := range map[state.Outcome]int32{state.OutcomeAckTimeout: -7, state.OutcomeLateRenewal: -30,
			state.OutcomeSuccess: 9,
			state.OutcomeExpired: -60, state.OutcomeProofInvalid: -200} {
			if got := healthOf(what, p); got != by {
				b.t.Fatalf("outcome %d changes health by %d, want %d", what, got, by)
			}
		}
		b.leased("j", "w")
		b.pass(5_000)
		b.health("w", w.Health-7)
		b.ok(cancelOp("j"))
		b.spoil("w", 1)
		b.health("w", w.Health-7-200)
		b.ok(queueOp("default", "health_steps", "off"))
		b.spoil("w", 1)
		b.health("w", w.Health-7-200)
	})
	run("loses_50_by_an_ack_timeout_and_grows_1_a_second", func(b *bench) {
		b.leased("j", "w")
		b.pass(5_000)
		b.health("w", 950)
		b.pass(999)
		b.health("w", 950)
		b.pass(1)
		b.health("w", 951)
		b.pass(48_999)
		b.health("w", 999)
		b.pass(1)
		b.health("w", 1000)
		if b.Timers.Reputation.Len() != 0 {
			b.t.Fatal("full health still has a timer")
		}
	})
	run("keeps_the_part_of_a_second", func(b *bench) {
		b.worker("w", 2)
		b.submit("j")
		b.match()
		b.pass(5_000) // 950
		b.now += 700
		l := b.acked("k")
		b.ok(verb(rota.VerbComplete, l))
		b.health("w", 970)
		b.now += 300
		b.entry(sweepOp())
		b.health("w", 971)
	})
	run("loses_150_by_an_expired_lease_and_the_type", func(b *bench) {
		b.worker("w", 4)
		l := b.acked("j")
		b.ok(verb(rota.VerbAck, l))
		b.pass(60_000)
		w := b.health("w", 850)
		if want := []rota.TypeUntil{{Type: "work", Until: b.Header.Now().At(b.now + 30_000),
			Cause: rota.ReasonLeaseExpired}}; !slices.Equal(w.Denied, want) {
			b.t.Fatalf("denied: got %v, want %v", w.Denied, want)
		}
		b.submit("same")
		b.submit("other", typed("else"))
		if got := b.match(); len(got) != 1 || got["other"].Job == "" {
			b.t.Fatalf("placed %v", got)
		}
		b.mismatch("same", "w", "TYPE_DENYLISTED")
		b.pass(29_999)
		b.mismatch("same", "w", "TYPE_DENYLISTED")
		b.pass(1)
		if _, ok := b.match()["same"]; !ok {
			b.t.Fatal("the denial did not end")
		}
	})
	run("loses_10_by_a_late_renewal_and_gains_20_by_a_success", func(b *bench) {
		l := b.leased("j", "w")
		b.pass(4_000)
		b.ok(verb(rota.VerbAck, l))
		b.pass(35_000)
		b.ok(verb(rota.VerbRenew, l)) // after 39 s of 60 s: renew_by was at 36 s
		b.health("w", 990)
		b.pass(5_000)
		b.health("w", 995)
		b.ok(verb(rota.VerbComplete, l))
		b.health("w", 1000)
	})
	run("never_falls_below_0", func(b *bench) {
		b.ok(queueOp("default", "min_health", "0"))
		b.worker("w", 1)
		b.weaken("w", 25)
		b.health("w", 0)
	})
	run("decides_by_min_health_and_counts_again_by_itself", func(b *bench) {
		b.ok(queueOp("default", "min_health", "901"))
		b.worker("w", 1)
		b.weaken("w", 2) // 950, 955 − 50 = 905
		b.health("w", 905)
		b.weaken("w", 1)
		b.health("w", 860)
		b.submit("j")
		if len(b.match()) != 0 {
			b.t.Fatal("placed at a worker of too little health")
		}
		b.mismatch("j", "w", "HEALTH_TOO_LOW")
		b.pass(40_999) // 41 s to 901
		if len(b.match()) != 0 {
			b.t.Fatal("placed too early")
		}
		b.now++
		b.mismatch("j", "w", "HEALTH_TOO_LOW") // until the sweep fires the old reputation applies
		b.entry(sweepOp())
		if len(b.match()) != 1 {
			b.t.Fatal("a worker with enough health again gets no job")
		}
	})
	run("is_judged_anew_when_min_health_changes", func(b *bench) {
		b.worker("w", 1)
		b.weaken("w", 1) // 950
		b.submit("j")
		b.ok(queueOp("default", "min_health", "960"))
		if len(b.match()) != 0 {
			b.t.Fatal("placed below the new min_health")
		}
		b.pass(10_000)
		if len(b.match()) != 1 {
			b.t.Fatal("960 must be enough")
		}
		b.ok(cancelOp("j"))
		b.submit("k")
		b.ok(queueOp("default", "min_health", "1000"))
		b.mismatch("k", "w", "HEALTH_TOO_LOW")
		b.ok(queueOp("default", "min_health", "900"))
		if len(b.match()) != 1 {
			b.t.Fatal("a lower min_health does not let it in at once")
		}
	})
	run("is_judged_by_a_queue_that_is_made_later", func(b *bench) {
		b.worker("w", 1, func(w *rota.WorkerSpec) { w.Queues = append(w.Queues, "late") })
		b.weaken("w", 1)                           // 950
		b.ok(queueOp("late", "min_health", "955")) // its own outcomes change no health
		b.submit("j", func(s *rota.JobSpec) { s.Queue = "late" })
		if len(b.match()) != 0 {
			b.t.Fatal("placed too early")
		}
		b.pass(5_000)
		if len(b.match()) != 1 {
			b.t.Fatal("not placed when due")
		}
	})
}

func TestCooldown(t *testing.T) {
	t.Parallel()
	run := func(name string, f func(b *bench)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(minded(t))
		})
	}
	run("for_a_type_that_was_declined", func(b *bench) {
		b.worker("w", 4)
		b.ok(verb(rota.VerbDecline, b.acked("j")))
		b.submit("other", typed("else"))
		if got := b.match(); len(got) != 1 || got["other"].Job == "" {
			b.t.Fatalf("placed %v", got)
		}
		b.ok(cancelOp("other"))
		b.mismatch("j", "w", "COOLING_DOWN")
		b.pass(29_999)
		if len(b.match()) != 0 {
			b.t.Fatal("placed too early")
		}
		b.pass(1)
		if len(b.match()) != 1 {
			b.t.Fatal("not placed when the cooldown was over")
		}
	})
	run("for_a_type_after_so_many_failures_in_a_row", func(b *bench) {
		b.ok(queueOp("default", "backoff_base", "0"))
		b.worker("w", 4)
		b.ok(verb(rota.VerbFail, b.acked("a", typed("bad"))))
		b.ok(verb(rota.VerbFail, b.match()["a"]))
		b.submit("good", typed("good"))
		l := b.match()
		b.ok(verb(rota.VerbComplete, l["good"])) // of another type: resets nothing
		b.ok(verb(rota.VerbFail, l["a"]))
		w, _ := b.View.Worker("w")
		want := []rota.TypeUntil{{Type: "bad", Until: b.Header.Now().At(b.now + 30_000),
			Cause: rota.ReasonProviderFail}}
		if !slices.Equal(w.Cooling, want) {
			b.t.Fatalf("cooling: got %v, want %v", w.Cooling, want)
		}
		b.mismatch("a", "w", "COOLING_DOWN")
		b.ok(verb(rota.VerbComplete, b.acked("fine", typed("good")))) // other types continue
		b.pass(30_000)
		b.ok(verb(rota.VerbFail, b.match()["a"])) // the fourth: only a success restarts the count
		b.mismatch("a", "w", "COOLING_DOWN")
		b.pass(30_000)
		b.ok(verb(rota.VerbComplete, b.match()["a"]))
		b.ok(verb(rota.VerbFail, b.acked("d", typed("bad"))))
		if len(b.match()) != 1 {
			b.t.Fatal("one failure after a success cools down")
		}
	})
	run("in_queues_that_ask_for_it_alone", func(b *bench) {
		b.ok(minds("strict", "cool_after", "1", "cool_ms", "7000"))
		b.ok(queueOp("free"))
		b.worker("w", 8, serving("strict", "free"))
		b.ok(verb(rota.VerbFail, b.acked("a", queue("strict"))))
		b.submit("minding")
		b.submit("free", queue("free"))
		if got := b.match(); len(got) != 1 || got["free"].Job == "" {
			b.t.Fatalf("placed %v", got)
		}
		b.mismatch("minding", "w", "COOLING_DOWN")
		b.ok(queueOp("default", "cool_after", "0")) // judged again at once
		if got := b.match(); len(got) != 1 || got["minding"].Job == "" {
			b.t.Fatalf("placed %v", got)
		}
		b.pass(7_000)
		if w, _ := b.View.Worker("w"); len(w.Cooling) != 0 {
			b.t.Fatalf("cooling %v", w.Cooling)
		}
	})
	run("not_by_failures_in_queues_that_do_not_ask", func(b *bench) {
		b.ok(queueOp("free"))
		b.worker("w", 8, serving("free"))
		for i := range 5 {
			b.ok(verb(rota.VerbFail, b.acked(fmt.Sprint("bad", i), queue("free"))))
		}
		b.ok(verb(rota.VerbFail, b.acked("first")))
		b.submit("j")
		if len(b.match()) != 1 {
			b.t.Fatal("failures count in a queue that counts none")
		}
	})
	run("not_by_a_decline_where_declines_do_not_cool", func(b *bench) {
		b.ok(queueOp("default", "decline_cools", "off"))
		b.worker("w", 4)
		l := b.acked("j")
		for d := 1; d < limits.MaxDeclines; d++ {
			wait := min(100<<(d-1), 10_000)
			b.ok(verb(rota.VerbDecline, l))
			j := b.state("j", rota.JobDelayed)
			if j.Due.Clock != b.now+rota.Clock(wait) || j.Attempt != 0 || j.Reason != rota.ReasonDeclined {
				b.t.Fatalf("after decline %d: %+v", d, j)
			}
			b.whyNames("j", "BACKING_OFF", fmt.Sprintf("declined %d times", d))
			b.pass(rota.Clock(wait) - 1)
			if len(b.match()) != 0 {
				b.t.Fatal("placed too early")
			}
			b.pass(1)
			l = b.match()["j"]
		}
		b.ok(verb(rota.VerbDecline, l))
		if j := b.state("j", rota.JobDelayed); j.Attempt != 1 || j.Reason != rota.ReasonProviderFail {
			b.t.Fatalf("after the twentieth: %+v", j)
		}
		if w := b.health("w", 1000); len(w.Cooling) != 0 {
			b.t.Fatalf("cooling %v", w.Cooling)
		}
	})
	run("is_named_with_type_worker_cause_and_end", func(b *bench) {
		b.ok(queueOp("default", "backoff_base", "0", "cool_after", "2"))
		b.worker("w", 4)
		b.worker("v", 4)
		b.submit("j", typed("bad"), func(s *rota.JobSpec) { s.Worker = "w" })
		b.ok(verb(rota.VerbFail, b.match()["j"]))
		b.ok(verb(rota.VerbFail, b.match()["j"]))
		ends := (b.Header.Date() + 30_000).String()
		b.whyNames("j", "COOLING_DOWN", "type bad on worker w until "+ends+" (PROVIDER_FAIL, 2 in a row)")
		b.submit("k", typed("bad"))
		b.ok(verb(rota.VerbDecline, b.match()["k"]))
		b.whyNames("k", "COOLING_DOWN", "type bad on worker v until "+ends+" (DECLINED)")
		b.ok(cancelOp("j"))
		b.ok(cancelOp("k"))
		b.ok(statusOp("v", rota.WorkerDraining, 0))
		b.acked("l", typed("slow"))
		b.pass(60_000)
		ends = (b.Header.Date() + 30_000).String()
		b.match()
		b.whyNames("l", "TYPE_DENYLISTED", "type slow on worker w until "+ends+" (LEASE_EXPIRED)")
	})
	run("not_by_what_a_worker_confirms", func(b *bench) {
		l := b.leased("j", "w")
		b.ok(registerOp("w", 100, "other", true)) // revokes it
		b.ok(verb(rota.VerbDecline, l))
		if w, _ := b.View.Worker("w"); len(w.Cooling) != 0 {
			b.t.Fatalf("cooling %v", w.Cooling)
		}
		if len(b.match()) != 1 {
			b.t.Fatal("the job was not placed again")
		}
	})
	run("of_the_newest_types_where_there_are_too_many", func(b *bench) {
		b.every = 50
		b.worker("w", 200, func(w *rota.WorkerSpec) { w.Prefetch = 200 })
		for i := range limits.MaxTypesPerWorker + 3 {
			b.submit(fmt.Sprint("j", i), typed(rota.JobType(fmt.Sprint("t", i))))
		}
		leases := inOrder(b.match())
		for i, l := range leases {
			b.ok(verb(rota.VerbDecline, l))
			if i == 1 { // the two oldest are dropped below; the three in a row are reset
				b.ok(verb(rota.VerbComplete, b.acked("ok", typed("ok"))))
			}
		}
		w, _ := b.View.Worker("w")
		if n := len(w.Cooling); n != limits.MaxTypesPerWorker ||
			w.Cooling[n-1].Type != b.jobType(leases[len(leases)-1].Job) {
			b.t.Fatalf("%d types cool down, the last %v", n, w.Cooling[n-1])
		}
	})
	run("takes_away_a_hold", func(b *bench) {
		b.worker("w", 2, func(w *rota.WorkerSpec) { w.CPUMilli = 1000 })
		b.submit("small", func(s *rota.JobSpec) { s.CPUMilli = 100 })
		l := b.match()["small"]
		b.submit("big", func(s *rota.JobSpec) { s.CPUMilli = 1000 })
		b.ok(verb(rota.VerbAck, l))
		b.pass(30_000)
		b.match()
		if b.placement.registry.heldFor["w"] != "big" {
			b.t.Fatal("the worker is not held")
		}
		b.ok(verb(rota.VerbDecline, l))
		if b.placement.registry.heldFor["w"] != "" {
			b.t.Fatal("a worker that cools down for the type is still held")
		}
	})
}

// whyNames checks a reason of a pending job and a text in its detail.
func (b *bench) whyNames(job, reason, detail string) {
	b.t.Helper()
	x, _ := b.View.Why(rota.JobID(job), 100)
	for _, w := range x.Reasons {
		if w.Reason == reason && strings.Contains(w.Detail, detail) {
			return
		}
	}
	b.t.Fatalf("job %s waits for %+v, want %s with %q", job, x.Reasons, reason, detail)
}

// jobType is a job's type.
func (b *bench) jobType(id rota.JobID) rota.JobType {
	j, _ := b.View.Job(id)
	return j.Type
}

// unitsPeriod is the default of units_period.
const unitsPeriod rota.Clock = 3_600_000

func TestUnits(t *testing.T) {
	t.Parallel()
	units := func(n int64) func(*rota.JobSpec) { return func(s *rota.JobSpec) { s.Units = n } }
	t.Run("run_out_and_come_back_with_the_next_period", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.every = 1000
		b.ok(queueOp("default", "units_per_period", "10"))
		b.worker("w", 10)
		since := b.now - b.now%unitsPeriod
		b.ok(verb(rota.VerbComplete, b.acked("a", units(4)))) // not returned
		b.acked("b")
		b.submit("c", units(6))
		b.submit("d", units(5))
		if got := b.match(); len(got) != 1 || got["d"].Job == "" {
			t.Fatalf("placed %v", got)
		}
		w, _ := b.View.Worker("w")
		if want := []rota.UnitsUsed{{Queue: "default", Since: b.Header.Now().At(since),
			Until: b.Header.Now().At(since + unitsPeriod), Used: 10}}; !slices.Equal(w.Units, want) {
			t.Fatalf("units: got %v, want %v", w.Units, want)
		}
		b.mismatch("c", "w", "UNITS_EXHAUSTED")
		b.now = since + unitsPeriod - 500
		for b.Header.Clock < b.now { // a leader's stamps are at most a second ahead
			b.skip(b.now)
		}
		if len(b.match()) != 0 {
			t.Fatal("placed before the period was over")
		}
		b.now += 500
		b.mismatch("c", "w", "UNITS_EXHAUSTED") // until the sweep
		b.entry(sweepOp())
		if len(b.match()) == 0 {
			t.Fatal("no job in the new period")
		}
		if w, _ := b.View.Worker("w"); w.Units[0].Since.Clock != since+unitsPeriod {
			t.Fatalf("units %v", w.Units)
		}
	})
	t.Run("have_the_period_of_their_queue", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.every = 100
		b.ok(queueOp("default", "units_per_period", "10", "units_period", "2s"))
		b.worker("w", 10)
		since := b.now - b.now%2_000
		b.acked("a", units(10))
		b.ok(queueOp("default", "units_period", "1h")) // a period in progress keeps its end
		b.submit("b", units(10))
		b.pass(since + 1_999 - b.now)
		if len(b.match()) != 0 {
			t.Fatal("placed before the period was over")
		}
		b.pass(1)
		if len(b.match()) != 1 {
			t.Fatal("no job in the next period")
		}
		if w, _ := b.View.Worker("w"); w.Units[0].Until.Clock-w.Units[0].Since.Clock != unitsPeriod {
			t.Fatalf("units %v", w.Units)
		}
	})
	t.Run("count_at_once_within_a_round", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("default", "units_per_period", "3"))
		b.worker("w", 10)
		for i := range 5 {
			b.submit(fmt.Sprint("j", i))
		}
		if n := len(b.match()); n != 3 {
			t.Fatalf("%d were placed for 3 units", n)
		}
	})
	t.Run("are_counted_by_queue", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("default", "units_per_period", "1"))
		b.ok(queueOp("q2", "units_per_period", "1"))
		b.ok(queueOp("free"))
		b.worker("w", 10, func(w *rota.WorkerSpec) { w.Queues = append(w.Queues, "q2", "free") })
		for _, q := range []rota.QueueName{"default", "q2", "free"} {
			for i := range 2 {
				b.submit(fmt.Sprint(q, i), func(s *rota.JobSpec) { s.Queue = q })
			}
		}
		if n := len(b.match()); n != 4 {
			t.Fatalf("placed %d, want 1 + 1 + 2", n)
		}
		if w, _ := b.View.Worker("w"); len(w.Units) != 2 {
			t.Fatalf("units %v", w.Units)
		}
	})
	t.Run("stay_through_a_takeover", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("default", "units_per_period", "1"))
		b.worker("w", 10)
		b.ok(verb(rota.VerbComplete, b.acked("a")))
		b.ok(registerOp("w", 10, "other", true))
		b.submit("b")
		b.mismatch("b", "w", "UNITS_EXHAUSTED")
	})
}

// skip lets time pass in steps of a second, with a sweep each.
func (b *bench) skip(to rota.Clock) {
	b.t.Helper()
	for at := b.Header.Clock; at < to; {
		at = min(at+limits.ClockLeapMax, to)
		b.now = at
		b.entry(sweepOp())
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	t.Run("ask_for_a_stake", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("default", "min_stake", "100"))
		b.staked("w", 1, 99)
		b.submit("j")
		b.mismatch("j", "w", "STAKE_TOO_LOW")
		b.staked("w", 1, 100)
		if len(b.match()) != 1 {
			t.Fatal("the stake must not be enough")
		}
	})
	t.Run("cut_by_prefetch_max_revokes_the_newest", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.worker("w", 2, func(w *rota.WorkerSpec) { w.Prefetch = 4 })
		for i := range 6 {
			b.submit(fmt.Sprint("j", i))
		}
		leases := inOrder(b.match())
		if len(leases) != 6 {
			t.Fatalf("%d were placed", len(leases))
		}
		b.ok(queueOp("default", "prefetch_max", "1"))
		for i, l := range leases {
			a, _ := b.View.Assignment(l.ID)
			if revoked := a.Lease.Revoked == rota.ReasonQuotaCut; revoked != (i >= 3) {
				t.Errorf("lease %d revoked: %v", i, revoked)
			}
		}
	})
	t.Run("cut_by_fewer_slots_counts_prefetch_max", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("default", "prefetch_max", "1"))
		prefetch := func(w *rota.WorkerSpec) { w.Prefetch = 4 }
		b.worker("w", 4, prefetch)
		for i := range 5 {
			b.submit(fmt.Sprint("j", i))
		}
		leases := inOrder(b.match())
		b.worker("w", 2, prefetch)
		for i, l := range leases {
			a, _ := b.View.Assignment(l.ID)
			if revoked := a.Lease.Revoked == rota.ReasonQuotaCut; revoked != (i >= 3) {
				t.Errorf("lease %d of %d revoked: %v", i, len(leases), revoked)
			}
		}
	})
	t.Run("that_are_raised_end_no_lease", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.worker("w", 1)
		l := b.acked("j")
		b.ok(queueOp("default", "min_stake", "100", "require_attestation", "on", "min_health", "1000"))
		b.ok(verb(rota.VerbComplete, l))
		b.submit("k")
		b.mismatch("k", "w", "ATTESTATION_MISSING")
	})
	t.Run("that_are_raised_end_a_hold", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.worker("w", 1)
		b.acked("a")
		b.submit("b")
		b.pass(30_000)
		b.match()
		if b.placement.registry.heldFor["w"] != "b" {
			t.Fatal("the worker is not held")
		}
		b.ok(queueOp("default", "min_stake", "100"))
		if b.placement.registry.heldFor["w"] != "" {
			t.Fatal("a worker that is not eligible is held")
		}
	})
}

func TestExecuted(t *testing.T) {
	t.Parallel()
	w := &state.WorkerRow{}
	for i := range limits.MaxTypesPerWorker {
		if !w.Executes(rota.JobType(fmt.Sprint("t", i))) {
			t.Fatalf("type %d is known", i)
		}
	}
	old := w.Executed
	if w.Executes("t63") || w.Executes("t32") {
		t.Fatal("one of the newer half was moved")
	}
	if !w.Executes("t0") || w.Executed[limits.MaxTypesPerWorker-1] != "t0" ||
		len(w.Executed) != limits.MaxTypesPerWorker {
		t.Fatalf("executed %v", w.Executed)
	}
	if !w.Executes("new") || len(w.Executed) != limits.MaxTypesPerWorker || slices.Contains(w.Executed, "t1") {
		t.Fatalf("executed %v", w.Executed)
	}
	if old[0] != "t0" || old[63] != "t63" {
		t.Fatal("the list of an older copy of the row changed")
	}
	b := newBench(t)
	b.worker("w", 1)
	b.ok(verb(rota.VerbComplete, b.acked("j", typed("done"))))
	if got := b.fleet.workers.Get("w").Executed; !slices.Equal(got, []rota.JobType{"done"}) {
		t.Fatalf("executed %v", got)
	}
}
