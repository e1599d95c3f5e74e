package fsm

import (
	"fmt"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/peer"
)

// TestShorten_releasesPendingJobs shortens each kind of interval while a job waits for it: the job is placed one new
// interval later. Under rules version 1 it keeps waiting.
func TestShorten_releasesPendingJobs(t *testing.T) {
	t.Parallel()
	keyed := func(rule rota.KeyRule) *fsmpb.Op {
		rule.Name = "acct"
		return SetKeyRuleOp(&rule)
	}
	first := func(b *bench, change ...func(*rota.JobSpec)) {
		b.worker("w", 10)
		b.acked("first", change...)
		b.submit("j", change...)
	}
	failed := func(b *bench, times int, change ...func(*rota.JobSpec)) {
		b.worker("w", 10)
		for i := range times {
			l := b.acked(fmt.Sprint("f", i), change...)
			b.ok(verb(rota.VerbFail, l, func(c *peer.LeaseCommand) { c.Fail = peer.FailNoRetry }))
		}
	}
	for _, c := range []struct {
		name string
		// wait leaves job j waiting for a reason for more than 20 s; shorter makes it wait for at most within.
		wait    func(b *bench)
		reason  string
		shorter *fsmpb.Op
		within  rota.Clock
		// always reports that the first rules released the job as well.
		always bool
	}{
		{"rate_of_a_key", func(b *bench) {
			b.ok(keyed(rota.KeyRule{Rate: 1, PeriodMs: 3_600_000}))
			first(b, ofKeys("acct:7"))
		}, "KEY_RATE", keyed(rota.KeyRule{Rate: 100, PeriodMs: 1_000}), 10, false},
		{"burst_of_a_key", func(b *bench) {
			b.ok(keyed(rota.KeyRule{Rate: 1, PeriodMs: 60_000, Burst: 3}))
			b.submit("more", ofKeys("acct:7"))
			b.submit("most", ofKeys("acct:7"))
			b.worker("w", 10)
			b.submit("first", ofKeys("acct:7"))
			for _, l := range inOrder(b.match()) {
				b.ok(verb(rota.VerbComplete, l))
			}
			b.submit("j", ofKeys("acct:7"))
		}, "KEY_RATE", keyed(rota.KeyRule{Rate: 1, PeriodMs: 10_000}), 10_000, false},
		{"rule_of_a_value_deleted", func(b *bench) {
			b.ok(keyed(rota.KeyRule{Rate: 1, PeriodMs: 1_000}))
			b.ok(keyed(rota.KeyRule{Value: "7", Rate: 1, PeriodMs: 3_600_000}))
			first(b, ofKeys("acct:7"))
		}, "KEY_RATE", DeleteKeyRuleOp("", "acct", "7"), 1_000, false},
		{"probes_of_a_domain", func(b *bench) {
			b.ok(queueOp("default", "domain_min_samples", "1", "domain_probe_rps", "1", "domain_probe_burst", "3"))
			failed(b, 1, inDomain("zone"))
			for i := range 3 {
				b.acked(fmt.Sprint("probe", i), inDomain("zone"))
			}
			b.submit("j", inDomain("zone"))
		}, "DOMAIN_ISOLATED", queueOp("default", "domain_probe_rps", "100", "domain_probe_burst", "1"), 10, false},
		{"cool_ms", func(b *bench) {
			b.ok(queueOp("default", "cool_after", "1", "cool_ms", "600000"))
			failed(b, 1)
			b.submit("j")
		}, "COOLING_DOWN", queueOp("default", "cool_ms", "500"), 500, false},
		{"cool_after_turned_off", func(b *bench) {
			b.ok(queueOp("default", "cool_after", "1", "cool_ms", "600000"))
			failed(b, 1)
			b.submit("j")
		}, "COOLING_DOWN", queueOp("default", "cool_after", "0"), 0, true},
		{"deny_ms", func(b *bench) {
			b.ok(queueOp("default", "deny_ms", "600000", "attempt_max", "1", "lease_ms", "1000", "ack_timeout", "1000"))
			b.worker("w", 10)
			b.acked("slow")
			b.pass(1_000)
			b.submit("j")
		}, "TYPE_DENYLISTED", queueOp("default", "deny_ms", "500"), 500, false},
		{"units_period", func(b *bench) {
			b.ok(queueOp("default", "units_per_period", "1", "units_period", "1d"))
			first(b)
		}, "UNITS_EXHAUSTED", queueOp("default", "units_period", "1s"), 1_000, false},
		{"backoff", func(b *bench) {
			b.ok(queueOp("default", "backoff_base", "600s"))
			b.worker("w", 10)
			b.ok(verb(rota.VerbFail, b.acked("j")))
		}, "BACKING_OFF", queueOp("default", "backoff_base", "400ms"), 450, false},
		{"backoff_raised_and_lowered", func(b *bench) {
			b.ok(queueOp("default", "backoff_base", "60s", "backoff_jitter", "0"))
			b.worker("w", 10)
			b.ok(verb(rota.VerbFail, b.acked("j")))
			b.ok(queueOp("default", "backoff_base", "600s"))
		}, "BACKING_OFF", queueOp("default", "backoff_base", "400ms"), 400, false},
		{"backoff_of_a_lost_worker", func(b *bench) {
			b.ok(queueOp("default", "backoff_base", "600s"))
			s := b.worker("w", 10)
			b.acked("j")
			b.ok(goneOp("w", s, "w"))
			b.worker("other", 10)
		}, "BACKING_OFF", queueOp("default", "backoff_base", "400ms"), 450, false},
		{"tenant_penalty", func(b *bench) {
			b.ok(tenantOp("t", "max_concurrent", "1", "penalty_ms", "600000"))
			b.worker("w", 10)
			b.ok(verb(rota.VerbComplete, b.acked("first", tenant("t"))))
			b.submit("j", tenant("t"))
		}, "TENANT_AT_LIMIT", tenantOp("t", "penalty_ms", "500"), 500, true},
		{"tenant_window", func(b *bench) {
			b.ok(queueOp("default", "tenant_window_max", "1", "tenant_window_ms", "600000"))
			first(b)
		}, "TENANT_WINDOW_FULL", queueOp("default", "tenant_window_ms", "6000"), 6_000, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, rules := range []uint32{1, 2} {
				b := newBench(t)
				b.ok(switchOp(rules))
				c.wait(b)
				if got := b.match(); len(got) != 0 {
					t.Fatalf("placed %v, want none", got)
				}
				if _, why := b.whyOf("j"); why != c.reason+":1" && why != c.reason+":0" {
					t.Fatalf("job j waits for %s, want %s", why, c.reason)
				}
				b.ok(c.shorter)
				b.pass(c.within)
				b.match()
				switch state := b.View.JobState("j"); {
				case rules >= shortenRules && state != rota.JobAssigned:
					_, why := b.whyOf("j")
					t.Fatalf("job j is %s for %s, one new interval after the change", state, why)
				case rules < shortenRules && state == rota.JobAssigned && !c.always:
					t.Fatal("rules version 1 changed")
				}
				b.sound()
			}
		})
	}
}

// TestShorten_keepsTheRest checks that a bar that another queue of the worker may have set stays as long as that
// queue's, a wait that a handler asked for stays, and a change that lengthens an interval ends nothing.
func TestShorten_keepsTheRest(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(switchOp(2))
	b.ok(queueOp("default", "cool_after", "1", "cool_ms", "600000", "backoff_base", "600s"))
	b.ok(queueOp("other", "cool_after", "1", "cool_ms", "60000"))
	b.worker("w", 10, serving("default", "other"))
	asked := b.acked("asked", typed("a"))
	b.ok(verb(rota.VerbFail, asked, func(c *peer.LeaseCommand) {
		c.Fail, c.After = peer.FailRetryAfter, 15*time.Minute
	}))
	due := b.JobTable.Get("asked").Due
	bars := func() rota.Clock {
		w, _ := b.View.Worker("w")
		return w.Cooling[0].Until.Clock - b.Header.Clock
	}
	b.ok(queueOp("default", "cool_ms", "1000", "backoff_base", "1s"))
	if left := bars(); left != 60_000 || b.JobTable.Get("asked").Due != due {
		t.Errorf("the bar ends in %d ms, the job waits until %d", left, b.JobTable.Get("asked").Due)
	}
	b.ok(queueOp("default", "cool_ms", "900000"))
	if left := bars(); left != 60_000 {
		t.Errorf("with a longer cool_ms the bar ends in %d ms", left)
	}
	b.sound()
}

const shortenRules = state.ShortenRules
