package fsm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
)

// tenantOp sets keys given as key, value, key, value.
func tenantOp(id string, pairs ...string) *fsmpb.Op {
	op := &fsmpb.SetTenant{Id: id}
	for i := 0; i+1 < len(pairs); i += 2 {
		op.Set = append(op.Set, &fsmpb.Label{Key: pairs[i], Value: pairs[i+1]})
	}
	return &fsmpb.Op{Op: &fsmpb.Op_SetTenant{SetTenant: op}}
}

func tenant(id string) func(*rota.JobSpec) {
	return func(s *rota.JobSpec) { s.Tenant = rota.TenantID(id) }
}

func queue(name string) func(*rota.JobSpec) {
	return func(s *rota.JobSpec) { s.Queue = rota.QueueName(name) }
}

// serving makes a worker serve the default queue and others.
func serving(names ...string) func(*rota.WorkerSpec) {
	return func(w *rota.WorkerSpec) {
		for _, n := range names {
			w.Queues = append(w.Queues, rota.QueueName(n))
		}
	}
}

func TestSetTenant(t *testing.T) {
	t.Parallel()
	t.Run("keeps_limits_and_says_so_once", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		op := tenantOp("ann", "tier", "pro", "weight", "3", "max_concurrent", "8", "rate_limit_rps", "50", "penalty",
			"2s")
		a := b.entry(op)
		want := `{"tier":"PRO","weight":3,"max_concurrent":8,"rate_limit_rps":50,"penalty_ms":2000,"bytes_max":0}`
		if e := kinds(a.Events, rota.EventTenantChanged); len(e) != 1 || e[0].Tenant != "ann" || e[0].Payload != want {
			t.Fatalf("events %+v", e)
		}
		if a = b.entry(op); !a.Outcomes[0].GetExisted() || len(a.Events) != 0 {
			t.Fatalf("the same again: %v, %v", a.Outcomes[0], a.Events)
		}
		if got := b.View.Tenant("ann"); !got.Known || got.Weight != 3 || got.PenaltyMs != 2000 || got.Throttled {
			t.Fatalf("tenant %+v", got)
		}
		b.ok(tenantOp("bob")) // without any key it is known, with the defaults
		if !b.View.Tenant("bob").Known || b.View.Tenant("bob").TenantLimits != rota.DefaultTenantLimits() {
			t.Fatalf("tenant %+v", b.View.Tenant("bob"))
		}
	})
	t.Run("refuses_by_name", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(tenantOp("ann", "weight", "2"))
		for _, c := range []struct{ subject, key, value string }{
			{"key", "colour", "red"}, {"key", "wëight", "1"}, {"tier", "tier", "GOLD"}, {"weight", "weight", "0"},
			{"weight", "weight", "NaN"}, {"max_concurrent", "max_concurrent", "-1"},
			{"rate_limit_rps", "rate_limit_rps", "-2"},
			{"penalty_ms", "penalty", "2h"}, {"penalty_ms", "penalty_ms", "-1"},
		} {
			for _, id := range []string{"ann", "new"} {
				o := b.refuses(rota.KindInvalid, c.subject, tenantOp(id, "max_concurrent", "3", c.key, c.value))
				if !strings.Contains(o.GetText(), c.key) && !strings.Contains(o.GetText(), c.subject) {
					t.Fatalf("%s=%s: the refusal %q names no setting", c.key, c.value, o.GetText())
				}
			}
		}
		b.refuses(rota.KindInvalid, "tenant", tenantOp("no tenant"))
		b.refuses(rota.KindInvalid, "tenant", tenantOp(""))
		emptyBench(t).refuses(rota.KindUnavailable, "cluster", tenantOp("ann"))
	})
	t.Run("refuses_more_than_the_most", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.every = 1000
		for i := range limits.MaxTenants {
			for _, m := range []*Machine{b.Machine, b.twin} {
				id := rota.TenantID(fmt.Sprint("t", i))
				m.admission.tenants.Insert(id, &state.TenantRow{ID: id, Known: true,
					Limits: rota.DefaultTenantLimits()})
			}
		}
		for _, m := range []*Machine{b.Machine, b.twin} {
			m.Ledger.Settle()
		}
		b.refuses(rota.KindExhausted, "tenant", tenantOp("one-more"))
		b.ok(tenantOp("t5", "weight", "2"))
		b.leased("a", "w", tenant("one-more")) // it may still work, with the defaults
		b.sound()
	})
	t.Run("tier_ranks_what_is_queued_anew", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("default", "ranking", "market", "fair_share", "off"))
		b.submit("first", tenant("ann"))
		b.now++
		b.submit("second", tenant("bob"))
		b.ok(tenantOp("bob", "tier", "PREMIUM"))
		b.worker("w", 1)
		if l := b.match(); l["second"].Job == "" {
			t.Fatalf("%v comes first", l)
		}
	})
	t.Run("weight_shares_anew_in_every_queue", func(t *testing.T) {
		t.Parallel()
		for _, when := range []string{"before", "while_queued", "while_leased"} {
			b := newBench(t)
			b.every = 10
			set := func(now string) {
				if now == when {
					b.ok(tenantOp("ann", "weight", "3"))
				}
			}
			set("before")
			for i := range 40 {
				b.submit(fmt.Sprint("a", i), tenant("ann"))
				b.submit(fmt.Sprint("b", i), tenant("bob"))
			}
			set("while_queued")
			b.worker("w", 4)
			b.match()
			set("while_leased")
			b.ok(queueOp("default", "ranking", "fifo")) // the lanes are rebuilt
			b.worker("v", 12)
			b.match()
			q := b.placement.registry.queues["default"]
			if q.open.Get("ann") != 12 || q.open.Get("bob") != 4 {
				t.Fatalf("%s: ann has %d leases open, bob %d: want 12 and 4", when, q.open.Get("ann"),
					q.open.Get("bob"))
			}
		}
	})
	t.Run("a_weight_taken_back_is_forgotten_everywhere", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("other"))
		b.worker("w", 3, serving("other"))
		b.ok(tenantOp("ann", "weight", "3"))
		b.submit("a", tenant("ann"), queue("other"))
		l := b.match()["a"]
		b.ok(tenantOp("ann", "weight", "1"))
		b.ok(tenantOp("ann", "weight", "5"))
		b.ok(verb(rota.VerbComplete, l))
		b.ok(tenantOp("ann", "weight", "1"))
		b.submit("b", tenant("ann"), queue("other"))
		if n := len(b.placement.registry.queues["other"].laneStates); n != 0 {
			t.Fatalf("the lanes have %d tenants with default settings", n)
		}
	})
}

func TestMaxConcurrent(t *testing.T) {
	t.Parallel()
	t.Run("throttles_the_tenant_in_all_queues_at_once", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("other", "weight", "7"))
		b.worker("w", 9, serving("other"))
		b.ok(tenantOp("ann", "max_concurrent", "2"))
		for i := range 3 {
			b.submit(fmt.Sprint("d", i), tenant("ann"))
			b.submit(fmt.Sprint("o", i), tenant("ann"), queue("other"))
		}
		b.submit("bob", tenant("bob"))
		l := b.match()
		if len(l) != 3 || l["bob"].Job == "" || !b.View.Tenant("ann").Throttled {
			t.Fatalf("%d leases, tenant %+v", len(l), b.View.Tenant("ann"))
		}
		if q, _ := b.View.Queue("default"); q.Throttled == 0 {
			t.Fatal("no lane is throttled")
		}
		if n := len(b.match()); n != 0 {
			t.Fatalf("%d more were started", n)
		}
		left := "d2"
		if b.View.JobState("d2") != rota.JobQueued {
			left = "o2"
		}
		b.submit("late", tenant("ann")) // and later submissions
		if why := b.dropped("late", "w"); why != "TENANT_AT_LIMIT" {
			t.Fatalf("%s: dropped for %s", left, why)
		}
	})
	t.Run("keeps_up_with_its_limit_where_no_penalty_is_set", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.every = 10
		b.worker("w", 9)
		b.ok(tenantOp("ann", "max_concurrent", "2"))
		const jobs, takes = 40, 100
		for i := range jobs {
			b.submit(fmt.Sprint("a", i), tenant("ann"))
		}
		began, rounds := b.now, 0
		for left := jobs; left > 0; rounds++ {
			l := inOrder(b.match()) // the next entry after those that ended leases, with no sweep between
			if len(l) != 2 {
				t.Fatalf("round %d placed %d with %d left", rounds, len(l), left)
			}
			b.now += takes
			for _, one := range l {
				b.ok(verb(rota.VerbComplete, one))
				left--
			}
		}
		if took := b.now - began; rounds != jobs/2 || took != jobs/2*takes {
			t.Fatalf("40 jobs of 100 ms, two at a time, took %d ms and %d rounds", took, rounds)
		}
	})
	t.Run("comes_back_when_a_lease_ended_and_the_penalty_passed", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.worker("w", 9)
		b.ok(tenantOp("ann", "max_concurrent", "1", "penalty", "1s"))
		for i := range 4 {
			b.submit(fmt.Sprint("a", i), tenant("ann"))
		}
		finish := func() {
			for _, l := range b.match() {
				b.ok(verb(rota.VerbAck, l))
				b.now += 400
				b.ok(verb(rota.VerbComplete, l))
				return
			}
			t.Fatal("nothing was started")
		}
		finish() // after 400 ms: the penalty has 600 to run
		if b.pass(500); len(b.match()) != 0 {
			t.Fatal("started before the penalty was over")
		}
		b.pass(250)
		l := b.match()
		if len(l) != 1 {
			t.Fatal("not started after the penalty")
		}
		b.pass(3000) // the penalty is over, and still one lease is open
		if len(b.match()) != 0 || !b.View.Tenant("ann").Throttled {
			t.Fatal("started beyond max_concurrent")
		}
		for _, one := range l {
			b.ok(verb(rota.VerbComplete, one))
		}
		if len(b.match()) != 1 { // at once: no sweep is needed
			t.Fatal("not started when the lease ended")
		}
	})
	t.Run("without_penalty_it_is_a_plain_limit", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.worker("w", 9)
		b.ok(tenantOp("ann", "max_concurrent", "1", "penalty", "0"))
		for i := range 3 {
			b.submit(fmt.Sprint("a", i), tenant("ann"))
		}
		for range 3 {
			for _, l := range b.match() {
				b.ok(verb(rota.VerbComplete, l))
			}
		}
		if b.View.Counts().Completed != 3 || b.Timers.Penalty.Len() != 0 {
			t.Fatalf("%+v", b.View.Counts())
		}
	})
	t.Run("a_lower_limit_throttles_and_revokes_nothing_a_higher_one_frees", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.worker("w", 4)
		for i := range 6 {
			b.submit(fmt.Sprint("a", i), tenant("ann"))
		}
		b.match()
		b.worker("v", 4)
		b.ok(tenantOp("ann", "max_concurrent", "2"))
		if len(b.match()) != 0 || b.View.Tenant("ann").Open != 4 || !b.View.Tenant("ann").Throttled {
			t.Fatalf("tenant %+v", b.View.Tenant("ann"))
		}
		b.ok(tenantOp("ann", "max_concurrent", "5"))
		if len(b.match()) != 1 {
			t.Fatal("a raised limit has no immediate effect")
		}
		b.ok(tenantOp("ann", "max_concurrent", "0"))
		if len(b.match()) != 1 || b.View.Tenant("ann").Throttled {
			t.Fatal("removing the limit has no immediate effect")
		}
	})
	t.Run("survives_lanes_that_are_built_anew", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.worker("w", 9, serving("new"))
		b.ok(tenantOp("ann", "max_concurrent", "1"))
		b.submit("a", tenant("ann"))
		b.match()
		b.submit("b", tenant("ann"))
		b.ok(queueOp("default", "ranking", "market"))
		b.ok(queueOp("new"))
		b.submit("c", tenant("ann"), queue("new"))
		b.ok(queueOp("default", "fair_share", "off"))
		b.ok(queueOp("default", "ranking", "adaptive"))
		b.twin = b.restored()
		if len(b.match()) != 0 {
			t.Fatal("a throttled lane was used")
		}
	})
	t.Run("who_nobody_set_has_a_row_only_while_leases_are_open", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		l := b.leased("a", "w", tenant("ann"))
		if b.View.Tenant("ann").Open != 1 || b.View.Tenant("ann").Known {
			t.Fatalf("tenant %+v", b.View.Tenant("ann"))
		}
		b.ok(verb(rota.VerbComplete, l))
		if b.admission.tenants.Len() != 0 {
			t.Fatal("the row is still there")
		}
	})
}
