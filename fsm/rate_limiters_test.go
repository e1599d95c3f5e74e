package fsm

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
)

// burst submits n jobs at one moment and counts the accepted ones.
func (b *bench) burst(n int, change ...func(*rota.JobSpec)) (taken int, last *fsmpb.Outcome) {
	b.t.Helper()
	for range n {
		o := b.entry(submitOp(jobSpec(fmt.Sprint("burst", b.entries), change...))).Outcomes[0]
		switch rota.Kind(o.GetKind()) {
		case rota.KindNone:
			taken++
		case rota.KindExhausted:
		default:
			b.t.Fatalf("outcome %v", o)
		}
		last = o
	}
	return taken, last
}

func TestTenantRate(t *testing.T) {
	t.Parallel()
	t.Run("takes_one_seconds_worth_then_tells_the_exact_delay", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.every = 10
		b.ok(queueOp("default", "rate_limit_rps", "50"))
		taken, last := b.burst(60)
		if taken != 50 || last.GetRetryAfterMs() != 20 || last.GetSubject() != "rate_limit_rps" {
			t.Fatalf("accepted %d, then got %v", taken, last)
		}
		want := "tenant default submits to queue default faster than its rate_limit_rps, 50 a second: the next job is taken in 20 ms"
		if last.GetText() != want {
			t.Fatalf("the refusal reads %q", last.GetText())
		}
		b.now += 19
		if taken, last = b.burst(1); taken != 0 || last.GetRetryAfterMs() != 1 {
			t.Fatalf("a millisecond too early: %d taken, then %v", taken, last)
		}
		b.now++
		if taken, _ = b.burst(2); taken != 1 {
			t.Fatalf("after the delay: accepted %d", taken)
		}
		b.now += 1000
		if taken, _ = b.burst(60); taken != 50 {
			t.Fatalf("after a second: accepted %d", taken)
		}
	})
	t.Run("refusals_and_repeats_cost_nothing", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("default", "rate_limit_rps", "2", "queue_cap", "100"))
		b.submit("a")
		for range 5 {
			if !b.ok(submitOp(jobSpec("a"))).GetExisted() {
				t.Fatal("the id is unknown")
			}
			b.refuses(rota.KindInvalid, "priority", submitOp(jobSpec("bad", priority(11))))
		}
		b.submit("b")
		b.refuses(rota.KindExhausted, "rate_limit_rps", submitOp(jobSpec("c")))
		if !b.ok(submitOp(jobSpec("a"))).GetExisted() {
			t.Fatal("a known id is answered before the rate")
		}
	})
	t.Run("is_kept_a_queue_and_tenant_or_over_all_queues", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("default", "rate_limit_rps", "3"))
		b.ok(queueOp("other", "rate_limit_rps", "2"))
		b.ok(queueOp("free"))
		for _, c := range []struct {
			tenant, queue string
			taken         int
		}{{"ann", "default", 3}, {"ann", "other", 2}, {"ann", "free", 9}, {"bob", "default", 3}} {
			if taken, _ := b.burst(9, tenant(c.tenant), queue(c.queue)); taken != c.taken {
				t.Fatalf("%s: accepted %d of %s", c.queue, taken, c.tenant)
			}
		}
		b.ok(tenantOp("cyd", "rate_limit_rps", "4"))
		taken, _ := b.burst(3, tenant("cyd"), queue("free"))
		more, last := b.burst(9, tenant("cyd"))
		if taken+more != 4 || !strings.Contains(last.GetText(), "to all queues") {
			t.Fatalf("accepted %d and %d, then got %q", taken, more, last.GetText())
		}
		b.ok(tenantOp("dan", "rate_limit_rps", "0"))
		if taken, _ = b.burst(9, tenant("dan")); taken != 9 {
			t.Fatalf("accepted %d of a tenant without limit", taken)
		}
	})
	t.Run("leaves_no_row_at_rest", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("default", "rate_limit_rps", "3"))
		b.burst(9)
		if b.admission.limiters.Len() != 1 || b.View.AtRest() {
			t.Fatalf("got %d limiters, at rest %v", b.admission.limiters.Len(), b.View.AtRest())
		}
		b.twin = b.restored()
		b.pass(1000)
		if b.admission.limiters.Len() != 0 {
			t.Fatal("a full bucket has a row")
		}
	})
	t.Run("beyond_the_most_limiters_others_are_refused", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.every = 1000
		b.ok(queueOp("default", "rate_limit_rps", "1000", "tenant_window_max", "1"))
		for i := range limits.MaxRateLimiters {
			for _, m := range []*Machine{b.Machine, b.twin} {
				r := &state.LimiterRow{Key: state.LimiterKey("default", rota.TenantID(fmt.Sprint("t", i))),
					Queue:  "default",
					Tenant: rota.TenantID(fmt.Sprint("t", i)), Tat: (startClock + 500) * state.NsPerMs}
				m.admission.limiters.Insert(r.Key, r)
				m.admission.timeLimiter(r)
			}
		}
		for _, m := range []*Machine{b.Machine, b.twin} {
			m.Ledger.Settle()
		}
		o := b.refuses(rota.KindExhausted, "rate_limit_rps", submitOp(jobSpec("a")))
		if o.GetRetryAfterMs() == 0 {
			t.Fatal("without a delay")
		}
		b.submit("b", tenant("t7"))
		b.ok(queueOp("default", "rate_limit_rps", "0"))
		b.submit("c")
		b.worker("w", 9)
		if l := b.match(); len(l) != 2 || b.admission.limiters.Len() != limits.MaxRateLimiters {
			t.Fatalf("%d were started, %d limiters", len(l), b.admission.limiters.Len())
		}
		b.sound()
	})
	t.Run("a_rate_that_changes_keeps_what_was_taken", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("default", "rate_limit_rps", "1"))
		b.burst(1)
		b.ok(queueOp("default", "rate_limit_rps", "10", "tenant_window_max", "7"))
		if taken, last := b.burst(1); taken != 0 || last.GetRetryAfterMs() != 100 {
			t.Fatalf("accepted %d, then got %v", taken, last)
		}
		b.ok(queueOp("default", "rate_limit_rps", "0"))
		if taken, _ := b.burst(5); taken != 5 {
			t.Fatalf("accepted %d without a limit", taken)
		}
		b.pass(1500)
	})
}

// pressed checks the backpressure reported for the default queue.
func (b *bench) pressed(want string) {
	b.t.Helper()
	if q, _ := b.View.Queue("default"); q.Backpressure != want {
		b.t.Fatalf("with %d pending and %d leases of %d permille backpressure is %s, not %s", q.Pending,
			q.Assigned+q.Running, q.LeaseUsagePermille, q.Backpressure, want)
	}
}

func TestPressure(t *testing.T) {
	t.Parallel()
	t.Run("hints_above_half_and_refuses_at_the_threshold", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.worker("w", 1, func(s *rota.WorkerSpec) { s.Capabilities = []string{"nothing-of-this"} })
		b.ok(queueOp("default", "queue_cap", "10", "reject_threshold", "0.9"))
		for i := range 9 {
			o := b.ok(submitOp(jobSpec(fmt.Sprint("j", i))))
			if o.GetThrottle() != (i >= 5) {
				t.Fatalf("with %d pending throttle is %v", i+1, o.GetThrottle())
			}
			b.pressed([]string{rota.BackpressureNone, rota.BackpressureThrottle, rota.BackpressureRefuse}[i/5+i/8])
		}
		o := b.refuses(rota.KindExhausted, "queue", submitOp(jobSpec("more")))
		if !strings.Contains(o.GetText(), "9 pending jobs, 900 permille of queue_cap 10") ||
			o.GetRetryAfterMs() != 1000 {
			t.Fatalf("refusal %v", o)
		}
		b.submit("critical", priority(0))
		o = b.refuses(rota.KindExhausted, "queue", submitOp(jobSpec("critical2", priority(0))))
		if o.GetRetryAfterMs() == 0 || !strings.Contains(o.GetText(), "queue_cap is 10") {
			t.Fatalf("the cap is hard, yet the refusal has a delay: %v", o)
		}
		if q, _ := b.View.Queue("default"); q.UsagePermille != 1000 {
			t.Fatalf("usage %d", q.UsagePermille)
		}
	})
	t.Run("cap_alone_bounds_unless_a_threshold_is_set", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(&fsmpb.Op{Op: &fsmpb.Op_SetQueue{SetQueue: &fsmpb.SetQueue{Name: "default", Preset: "fluxforge",
			Set: []*fsmpb.Label{{Key: "rate_limit_rps", Value: "0"}}}}})
		for i := range 1000 {
			b.ok(submitOp(jobSpec(fmt.Sprint("j", i), priority(int32(i%11)))))
		}
		for _, p := range []int32{0, 5, 10} {
			b.refuses(rota.KindExhausted, "queue", submitOp(jobSpec("over", priority(p))))
		}
		b.ok(queueOp("default", "reject_threshold", "0"))
		b.refuses(rota.KindExhausted, "queue", submitOp(jobSpec("over")))
		b.ok(queueOp("default", "queue_cap", "1001"))
		b.submit("over")
	})
	t.Run("refusal_says_what_drains_the_queue", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("default", "queue_cap", "1"))
		b.submit("a")
		says := func(delay int64, want string) {
			t.Helper()
			if o := b.refuses(rota.KindExhausted, "queue", submitOp(jobSpec("b"))); o.GetRetryAfterMs() != delay ||
				!strings.Contains(o.GetText(), want) {
				t.Fatalf("got refusal %v, want %q after %d ms", o, want, delay)
			}
		}
		says(5000, "rota worker run --queues default")
		b.worker("w", 1)
		says(1000, "queue_cap is 1")
		b.ok(queueOp("default", "paused", "on"))
		says(5000, "rota queue resume default")
	})
	t.Run("of_the_workers_hints_and_refuses", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.worker("w", 2)
		b.ok(queueOp("default", "max_queue_size", "4"))
		hint := func(id string, want bool) {
			t.Helper()
			if o := b.ok(submitOp(jobSpec(id))); o.GetThrottle() != want {
				t.Fatalf("%s: throttle is %v", id, o.GetThrottle())
			}
			b.match()
		}
		hint("a", false)
		hint("b", false) // both slots are busy, and two of four wait or run
		hint("c", true)
		b.pressed(rota.BackpressureThrottle)
		hint("d", true)
		b.pressed(rota.BackpressureRefuse)
		o := b.refuses(rota.KindExhausted, "queue", submitOp(jobSpec("f")))
		if !strings.Contains(o.GetText(), "4 jobs ready or leased, 1000 permille of the 4") ||
			o.GetRetryAfterMs() != 1000 {
			t.Fatalf("refusal %v", o)
		}
		b.refuses(rota.KindExhausted, "queue", diamond("wf").open())
		b.submit("critical", priority(0))
		b.ok(retryAfterCancel(b, "d"))
		if q, _ := b.View.Queue("default"); q.LeaseUsagePermille != 1000 || q.BacklogUsagePermille != 1250 {
			t.Fatalf("lease usage %d, backlog usage %d", q.LeaseUsagePermille, q.BacklogUsagePermille)
		}
		b.ok(queueOp("default", "reject_threshold", "0"))
		b.submit("g") // off
		b.ok(queueOp("default", "reject_threshold_permille", "1000"))
		b.worker("v", 1, func(s *rota.WorkerSpec) { s.Capabilities = []string{"more"} })
		b.submit("h") // two workers: six of eight
	})
	t.Run("without_workers_the_cap_alone_bounds", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("default", "max_queue_size", "1", "queue_cap", "3"))
		b.submit("a")
		b.submit("b")
		b.submit("c")
		b.refuses(rota.KindExhausted, "queue", submitOp(jobSpec("d")))
		l := b.leasedBy("w", "a")
		b.refuses(rota.KindExhausted, "queue", submitOp(jobSpec("d"))) // three of one
		b.ok(statusOp("w", rota.WorkerDraining, 0))
		b.ok(verb(rota.VerbComplete, l))
		b.submit("d")
	})
	// The purpose of the preset `dag`: one worker of one slot, and workflows that wait for it.
	t.Run("dag_takes_workflows_beyond_running_slots", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(&fsmpb.Op{Op: &fsmpb.Op_SetQueue{SetQueue: &fsmpb.SetQueue{Name: "default", Preset: "dag"}}})
		b.worker("w", 1)
		for i := range 20 {
			b.run(diamond(fmt.Sprint("wf", i)))
			b.match()
		}
		if q, _ := b.View.Queue("default"); q.Backpressure != rota.BackpressureNone || q.BacklogUsagePermille != 20 {
			t.Fatalf("backpressure %s at %d permille", q.Backpressure, q.BacklogUsagePermille)
		}
	})
	t.Run("is_asked_after_the_rate_and_before_the_class", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("default", "queue_cap", "10", "reject_threshold", "0.9", "rate_limit_rps", "9"))
		b.burst(9)
		b.refuses(rota.KindExhausted, "rate_limit_rps", submitOp(jobSpec("a")))
		b.pass(1000)
		b.refuses(rota.KindExhausted, "queue", submitOp(jobSpec("a")))
		if b.admission.limiters.Len() != 0 {
			t.Fatal("a refusal was charged")
		}
		b.ok(modeOp(rota.ModeReadOnly, "x"))
		b.refuses(rota.KindNotFound, "queue", submitOp(jobSpec("a", queue("none"))))
		b.refuses(rota.KindInvalid, "priority", submitOp(jobSpec("a", priority(11))))
		b.refuses(rota.KindMode, "mode", submitOp(jobSpec("a")))
	})
}

// retryAfterCancel cancels a job and returns the operation that revives it.
func retryAfterCancel(b *bench, id string) *fsmpb.Op {
	b.t.Helper()
	op := retryOpWith(id, b)
	b.ok(cancelOp(id))
	return op
}

// leasedBy registers a worker of one slot and returns the lease it then has on a job.
func (b *bench) leasedBy(worker, job string) rota.Lease {
	b.t.Helper()
	b.worker(worker, 1)
	l, ok := b.match()[rota.JobID(job)]
	if !ok {
		b.t.Fatalf("job %s was not placed", job)
	}
	return l
}

func TestTenantWindow(t *testing.T) {
	t.Parallel()
	windowed := func(t *testing.T) *bench {
		b := newBench(t)
		b.every = 5
		b.ok(queueOp("default", "tenant_window_max", "3", "tenant_window", "60s", "lease_ms", "3600000", "ack_timeout",
			"3600000"))
		b.ok(queueOp("other", "lease_ms", "3600000", "ack_timeout", "3600000"))
		b.worker("w", 50, serving("other"))
		for i := range 9 {
			b.submit(fmt.Sprint("a", i), tenant("ann"))
		}
		b.submit("bob", tenant("bob"))
		b.submit("elsewhere", tenant("ann"), queue("other"))
		return b
	}
	waits := func(b *bench) string {
		return pending(b, "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8")
	}
	t.Run("throttles_the_tenant_in_this_queue_until_the_oldest_part_leaves", func(t *testing.T) {
		t.Parallel()
		b := windowed(t)
		if n := len(b.match()); n != 5 {
			t.Fatalf("%d were started: three of ann's, bob's, and one elsewhere", n)
		}
		if why := b.dropped(waits(b), "w"); why != "TENANT_WINDOW_FULL" {
			t.Fatalf("dropped for %s", why)
		}
		start := b.now
		for b.now < start+10*60_000 && len(b.match()) == 0 {
			b.pass(250)
		}
		// The first sub-window began up to 10 s before.
		if waited := b.now - start; waited < 50_000 || waited > 60_250 {
			t.Fatalf("the next were started after %d ms", waited)
		}
	})
	t.Run("counts_at_most_so_many_in_any_five_sixths", func(t *testing.T) {
		t.Parallel()
		b := windowed(t)
		var at []rota.Clock
		for range 40 {
			b.submit(fmt.Sprint("more", b.entries), tenant("ann"))
			for _, l := range inOrder(b.match()) {
				if j, _ := b.View.Job(l.Job); j.Tenant == "ann" && j.Queue == "default" {
					at = append(at, b.now)
				}
			}
			b.pass(4_000)
		}
		for i := 3; i < len(at); i++ {
			if at[i]-at[i-3] < 50_000 {
				t.Fatalf("four were started within %d ms", at[i]-at[i-3])
			}
		}
		if len(at) < 9 {
			t.Fatalf("only %d were started in 160 s", len(at))
		}
	})
	t.Run("goes_with_max_concurrent", func(t *testing.T) {
		t.Parallel()
		b := windowed(t)
		b.ok(tenantOp("ann", "max_concurrent", "2", "penalty", "0"))
		b.match()
		if why := b.dropped(waits(b), "w"); why != "TENANT_AT_LIMIT" {
			t.Fatalf("dropped for %s", why)
		}
		b.ok(tenantOp("ann", "max_concurrent", "0"))
		b.match()
		b.match()
		b.ok(tenantOp("ann", "max_concurrent", "2")) // both throttle now
		b.ok(tenantOp("ann", "max_concurrent", "0"))
		if why := b.dropped(waits(b), "w"); why != "TENANT_WINDOW_FULL" {
			t.Fatalf("dropped for %s", why)
		}
	})
	t.Run("changes_with_the_policy_and_leaves_no_row_at_rest", func(t *testing.T) {
		t.Parallel()
		b := windowed(t)
		b.match()
		b.ok(queueOp("default", "tenant_window_max", "5"))
		if n := len(b.match()); n != 2 {
			t.Fatalf("%d more were started", n)
		}
		b.ok(queueOp("default", "tenant_window", "10s"))
		b.pass(10_000)
		if n := len(b.match()); n != 4 {
			t.Fatalf("%d were started in a shorter window", n)
		}
		b.submit("last", tenant("ann"))
		b.twin = b.restored()
		b.ok(queueOp("default", "tenant_window_max", "0"))
		if b.match()["last"].Job == "" || b.admission.limiters.Len() != 0 || b.Timers.Limiter.Len() != 0 {
			t.Fatalf("%d limiters without any window", b.admission.limiters.Len())
		}
	})
}

// TestQueueFull checks that a leader refuses before the log exactly what the machine would refuse, with the same text;
// everything else goes through the log.
func TestQueueFull(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(queueOp("default", "queue_cap", "10", "reject_threshold", "0.9"))
	full := func(spec *rota.JobSpec) bool {
		t.Helper()
		op := submitOp(spec)
		early := b.View.QueueFull(op.GetSubmit())
		if twin := b.twin.View.QueueFull(op.GetSubmit()); !proto.Equal(early, twin) {
			t.Fatalf("two machines: %v, %v", early, twin)
		}
		if early == nil {
			return false
		}
		if late := b.entry(op).Outcomes[0]; !proto.Equal(early, late) {
			t.Fatalf("before the log %v, through it %v", early, late)
		}
		return true
	}
	for i := range 9 {
		if full(jobSpec("new")) {
			t.Fatalf("refused with %d pending", i)
		}
		b.submit(fmt.Sprint("j", i))
	}
	if !full(jobSpec("new")) || full(jobSpec("critical", priority(0))) || full(jobSpec("j3")) {
		t.Fatal("at reject_threshold all jobs except those of priority 0 and known ones must be refused")
	}
	b.submit("critical", priority(0))
	if !full(jobSpec("new", priority(0))) || full(jobSpec("critical", priority(0))) {
		t.Fatal("at queue_cap all jobs except known ones must be refused")
	}
	if b.View.QueueFull(&fsmpb.Submit{Spec: &fsmpb.JobSpec{Id: "new", Queue: "nowhere"}}) != nil {
		t.Fatal("a queue that does not exist is not full")
	}
	b.ok(queueOp("default", "rate_limit_rps", "1", "queue_cap", "100"))
	b.submit("last")
	b.ok(queueOp("default", "queue_cap", "12"))
	if full(jobSpec("new")) {
		t.Fatal("the rate refuses first, with its own delay")
	}
	b.refuses(rota.KindExhausted, "rate_limit_rps", submitOp(jobSpec("new")))
	b.ok(modeOp(rota.ModeReadOnly, "test"))
	if full(jobSpec("new")) {
		t.Fatal("the mode refuses first")
	}
	b.sound()
}
