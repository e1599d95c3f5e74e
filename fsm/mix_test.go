package fsm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/fsm/tree"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/millis"
	"github.com/rotasched/rota/internal/peer"
)

// FuzzPolicyMix mixes every policy that one state can have at once, changed while jobs run, with operations of leaders,
// operators, workers and verifiers. Nothing panics, a restored machine does the same, no decision on a state is dropped
// by that state, and no job waits that some worker could take.
func FuzzPolicyMix(f *testing.F) {
	for seed := range byte(4) {
		f.Add([]byte{seed, 3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6, 2, 6, 4, 3, 3, 8, 3, 2, 7})
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4096 {
			return
		}
		b := newBench(t)
		b.watchMoves()
		runMix(b, &dice{data: data})
	})
}

// TestPolicyMix is the same from fixed seeds.
func TestPolicyMix(t *testing.T) {
	t.Parallel()
	for seed := range uint64(mixSeeds) {
		r := rand.New(rand.NewPCG(seed, 11))
		data := make([]byte, 3000)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		b := newBench(t)
		b.every = 10
		b.watchMoves()
		runMix(b, &dice{data: data})
	}
}

const mixSeeds = 40

var mixQueues = []string{"default", "q1", "q2"}

func (d *dice) of(list ...string) string { return list[d.roll(len(list))] }

func runMix(b *bench, d *dice) {
	var seen []rota.Lease
	b.ok(switchOp(entry.RulesVersion))
	for _, q := range mixQueues {
		b.ok(mixQueue(d, q))
	}
	for !d.over() {
		for range []int{0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 3, 31}[d.roll(12)] {
			b.now += 1000
			b.entry(sweepOp())
		}
		b.now += []rota.Clock{0, 1, 250}[d.roll(3)]
		var a Applied
		switch k := d.roll(20); {
		case k < 6:
			a = decideAndApply(b)
		case k < 8:
			a = b.entry(sweepOp())
		default:
			ops := make([]*fsmpb.Op, 0, 3)
			for range 1 + d.roll(3) {
				ops = append(ops, mixOp(b, d, seen))
			}
			for _, op := range ops {
				mixVersion(b, d, op)
			}
			if d.roll(10) == 0 {
				ops = append(ops, mixFlow(d)...)
			}
			if d.roll(2) == 0 {
				a, _ = withEntry(b, ops, false)
			} else {
				a = b.entry(ops...)
			}
		}
		for _, ev := range a.Events {
			if x, ok := b.View.Assignment(ev.Lease); ok && ev.Kind == rota.EventJobAssigned {
				seen = append(seen, x.Lease)
			}
		}
	}
	b.sound()
}

// decideAndApply applies a decision to the state that it was decided on.
func decideAndApply(b *bench) Applied {
	b.t.Helper()
	b.now = b.Header.Clock
	rounds := b.View.Decide(1000)
	if rounds == nil {
		idle(b)
		return b.entry(sweepOp())
	}
	a := b.entry(opsOf(rounds)...)
	for _, e := range a.Events {
		if e.Kind == rota.EventAssignmentDropped {
			b.t.Fatalf("decided on this very state, but dropped: %+v", e)
		}
	}
	if faults := b.Check(); len(faults) > 0 {
		b.t.Fatalf("after %v: %q", rounds, faults)
	}
	return a
}

// idle checks, after a decision of nothing, that no job could have been placed.
func idle(b *bench) {
	b.t.Helper()
	if b.Header.Mode == rota.ModeReadOnly {
		return
	}
	_, draft := b.View.decide(1000, "", nil)
	b.JobTable.Scan(func(id rota.JobID, j *state.JobRow) bool {
		if j.State != rota.JobQueued || b.QueueTable.Get(j.Spec.Queue).Policy.Backfill != rota.BackfillFree ||
			len(draft.Reservations()) > 0 {
			return true // it may have to leave the room to another
		}
		q := b.QueueTable.Get(j.Spec.Queue)
		b.fleet.workers.Scan(func(w rota.WorkerID, _ *state.WorkerRow) bool {
			if why := b.placement.unassignable(j, q, w, false); why == "" {
				b.t.Fatalf("no round is decided, and worker %s could run job %s", w, id)
			}
			return true
		})
		return true
	})
}

// mixQueue sets some of a queue's keys, each to an effective value.
func mixQueue(d *dice, q string) *fsmpb.Op {
	ranking, backfill := d.of("aging", "market", "adaptive", "fifo", "shortest", "smallest"), d.of("free", "none",
		"easy", "easy")
	if ranking == "adaptive" {
		backfill = "free"
	}
	op := queueOp(q,
		"ranking", ranking,
		"strategy", d.of("shuffle", "least_loaded", "round_robin", "random", "affinity"),
		"fair_share", d.of("on", "off"), "preempt", d.of("on", "on", "off"), "weight", d.of("1", "3", "1000000"),
		"oldest_every", d.of("0", "1", "2", "20"), "starvation_interleave", d.of("0", "1", "3"),
		"hold_after", d.of("0", "1s", "30s"), "hold_max", d.of("1", "5s", "600s"),
		"batch_size", d.of("1", "4", "256"), "units_per_period", d.of("0", "5", "100"),
		"leases_max_per_worker", d.of("0", "1", "3"), "prefetch_max", d.of("0", "1", "10000"),
		"tenant_window_max", d.of("0", "0", "2"), "tenant_window", d.of("1s", "60s"),
		"rate_limit_rps", d.of("0", "0", "5"),
		"domain_min_samples", d.of("1", "2", "10"), "domain_failure_threshold_permille", d.of("1", "300", "1000"),
		"domain_probe_burst", d.of("1", "5"), "domain_probe_rps", d.of("1", "1000000"),
		"min_health", d.of("0", "300", "1000"), "min_stake", d.of("0", "0", "90"),
		"require_attestation", d.of("off", "off", "on"),
		"renewals_max", d.of("-1", "0", "2"), "max_runtime", d.of("0", "9s"), "lease_ms", d.of("6000", "60000"),
		"aging_threshold", d.of("1s", "5s", "60s"), "stats_window", d.of("2", "5", "1000"),
		"preempt_max", d.of("0", "1", "3"), "attempt_max", d.of("1", "6", "30"), "backoff_base", d.of("0", "1s"),
		"ttl_abs", d.of("0", "0", "90s"), "audit_window", d.of("0", "1h"), "gc_horizon", d.of("1h", "2h", "7d"),
		"paused", d.of("off", "off", "off", "on"), "bytes_max", d.of("0", "0", "0", "9000"),
		"backfill", backfill, "backfill_order", d.of("rank", "shortest"), "backfill_depth", d.of("1", "3", "1000"),
		"estimate", d.of("type", "user", "last2", "ema", "quantile"), "expected.a", d.of("0", "3s", "1h"),
		"shortest_aging", d.of("0", "1", "10"))
	set := op.GetSetQueue()
	from := d.roll(len(set.Set))
	set.Set = slices.Concat(set.Set[from:], set.Set[:from])[:1+d.roll(len(set.Set))]
	return op
}

func mixOp(b *bench, d *dice, seen []rota.Lease) *fsmpb.Op {
	job, worker := fmt.Sprint("j", d.roll(250)), fmt.Sprint("w", d.roll(5))
	switch k := d.roll(48); {
	case k >= 46:
		id := fmt.Sprint("b", d.roll(9))
		if d.roll(3) == 0 {
			return entry.SealOp(rota.BatchID(id))
		}
		return batchOp(id, int64(d.roll(4)), func(s *rota.JobSpec) { s.Queue = rota.QueueName(d.of(mixQueues...)) })
	case k < 11:
		return submitOp(jobSpec(job, func(s *rota.JobSpec) { mixJob(d, s) }))
	case k < 13:
		until := pickOf[rota.Date](d, 0, startClock-1, startClock+20_000, startClock+1e7)
		return staking(mixRegister(d, worker, int32(1+d.roll(3)), d.of("x", "x", "x", "x", "y"), d.roll(3) == 0,
			func(w *rota.WorkerSpec) {
				w.Queues = []rota.QueueName{rota.QueueName(d.of(mixQueues...)), "default", "q1"}
				w.Prefetch, w.CPUMilli = int32(d.roll(3)), pickOf[int64](d, 0, 3000, 4000)
				w.Stake = pickOf[int64](d, 0, 100)
			}), until, min(int64(until), pickOf[int64](d, 0, 100)))
	case k < 32:
		return mixVerb(b, d, seen)
	case k < 33:
		if d.roll(2) == 0 {
			return cancelOp(fmt.Sprint("f", d.roll(20), "/n", d.roll(5)))
		}
		return cancelOp(job)
	case k < 34:
		if d.roll(3) == 0 {
			return b.deleteOf(job)
		}
		if d.roll(2) == 0 {
			return b.changeOf(rota.JobChange{ID: rota.JobID(job), Priority: to(int32(d.roll(11))),
				Fee: to(int64(d.roll(5)))})
		}
		return retryOp(job)
	case k < 35:
		s, _ := b.View.Session(rota.WorkerID(worker))
		if d.roll(6) == 0 {
			return disconnectOp(worker, s, uint64(d.roll(3)))
		}
		if d.roll(8) == 0 {
			return goneOp(worker, s, d.of("x", "x", "y"))
		}
		if d.roll(3) > 0 {
			return reachOp(worker, s, d.roll(3) > 0, b.now-rota.Clock(d.roll(100)*200))
		}
		return statusOp(worker, pickOf(d, rota.WorkerActive, rota.WorkerActive, rota.WorkerActive, rota.WorkerActive,
			rota.WorkerDraining, rota.WorkerSuspended, rota.WorkerRetired), 0)
	case k < 36 && d.roll(3) == 0:
		return mixQueue(d, d.of(mixQueues...))
	case k < 37 && len(seen) > 0:
		return hostileReport(d, seen)
	case k < 38:
		return &fsmpb.Op{Op: &fsmpb.Op_SetMode{SetMode: &fsmpb.SetMode{
			Mode:   uint32(pickOf(d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 3)),
			Reason: d.of("a", "b"), Auto: d.roll(3) == 0, Holds: d.roll(2) == 0}}}
	case k < 39:
		if d.roll(3) == 0 {
			return []*fsmpb.Op{deleteQueueOp(d.of(mixQueues...)), drainOp(d.of(mixQueues...), d.of(mixQueues...)),
				deleteTenantOp(fmt.Sprint("t", d.roll(4))), deleteWorkerOp(fmt.Sprint("w", d.roll(4)))}[d.roll(4)]
		}
		return tenantOp(fmt.Sprint("t", d.roll(4)), "max_concurrent", d.of("0", "0", "1", "3"),
			"weight", d.of("1", "1", "7"), "penalty", d.of("0", "1s"), "tier", d.of("FREE", "PREMIUM"),
			"rate_limit_rps", d.of("-1", "-1", "0", "2"), "bytes_max", d.of("0", "0", "0", "5000"))
	case k < 42:
		return mixGrants(d)
	case k < 43 && d.roll(9) == 0:
		return tzdataOp(d.of("2026f", "2026g"))
	case k < 43 && d.roll(3) == 0:
		return backupOp(rota.Index(1+d.roll(300)), d.of("a", "b", "c"))
	case k < 45 && k >= 43:
		return mixKeys(b, d)
	case k < 43:
		return clusterOp("state_bytes_max", d.of("1MiB", "1GiB"), "voters_wanted", d.of("3", "5"), "autopilot",
			d.of("on", "off"))
	}
	return sweepOp()
}

// mixVersion makes a change of a tenant conditional on its present version, or on another one.
func mixVersion(b *bench, d *dice, op *fsmpb.Op) {
	if op.GetSetTenant() == nil {
		return
	}
	switch d.roll(6) {
	case 0:
		op.IfMatch = b.Tenant(rota.TenantID(op.GetSetTenant().GetId())).ETag
	case 1:
		op.IfMatch = d.of(access.AnyVersion, "0", "?")
	}
}

// mixRegister registers a worker, mostly for a principal that may work for only some tenants.
func mixRegister(d *dice, worker string, slots int32, secret string, takeover bool,
	change func(*rota.WorkerSpec)) *fsmpb.Op {
	op := registerOp(worker, slots, secret, takeover, change)
	if name := d.of("", "", "0", "1", "2"); name != "" {
		return by(rota.CertPrincipal("pool"+name, "w"), op)
	}
	return op
}

// mixGrants changes what a role may work for, or which credentials are valid.
func mixGrants(d *dice) *fsmpb.Op {
	role := "pool" + d.of("0", "1", "2")
	switch d.roll(8) {
	case 0:
		return blockOp(role, "w", d.roll(2) == 0)
	case 1:
		return &fsmpb.Op{Op: &fsmpb.Op_DeleteRole{DeleteRole: &fsmpb.DeleteRole{Name: role}}}
	}
	var grants []rota.Grant
	for range 1 + d.roll(3) {
		grants = append(grants, rota.Grant{Right: rota.RightWork, Tenant: d.of("*", "t*", "t0", "t1", "t2", "t3"),
			Queue: d.of("*", "*", "q*", "default", "q1")})
	}
	return roleOp(role, grants...)
}

// mixBudgets sets, deletes, grants, resets, and begins periods.
func mixBudgets(b *bench, d *dice) *fsmpb.Op {
	name := rota.BudgetName("b" + d.of("0", "1", "2"))
	of := d.of("", "t0", "a:1", "a:2")
	switch d.roll(8) {
	case 0:
		return DeleteBudgetOp(name)
	case 1, 2:
		return GrantBudgetOp(name, of, change(d.of("g1", "g2", "g3", "g4"), int64(1+d.roll(9))))
	case 3:
		return ResetBudgetOp(name, of, of == "", change(d.of("r1", "r2", "r3"), 0))
	case 4, 5:
		for _, due := range BudgetsWithPeriods(&b.View) {
			if due.Name == name {
				return TurnBudgetOp(&due, max(due.Until, b.Header.Date()-rota.Date(d.roll(900))),
					b.Header.Date()+1+rota.Date(d.roll(3_000)), "")
			}
		}
	}
	x := rota.Budget{Name: name, Unit: d.of("u", "v"), Limit: rota.Cost(d.roll(60)) * unit / 2,
		DefaultCost: rota.Cost(d.roll(3)) * unit, WarnPermille: int64(d.roll(1000)),
		Then: pickOf(d, rota.ThenHold, rota.ThenHold, rota.ThenRefuse, rota.ThenAsk, rota.ThenWarn),
		Each: pickOf(d, rota.EachNone, rota.EachTenant, rota.EachJob, rota.EachWorkflow)}
	x.Stop = d.roll(3) == 0 && x.Then != rota.ThenWarn
	if d.roll(3) == 0 {
		x.Key, x.Each = "a", pickOf(d, rota.EachNone, rota.EachKey)
	}
	if d.roll(3) == 0 {
		x.Tenant = rota.TenantID(d.of("t0", "t1"))
	}
	if d.roll(2) == 0 {
		x.Every = rota.EveryHour
	}
	return SetBudgetOp(&x)
}

// mixKeys sets, deletes, pauses, resumes or skips.
func mixKeys(b *bench, d *dice) *fsmpb.Op {
	if b.Header.Rules > 1 && d.roll(4) == 0 {
		return mixBudgets(b, d)
	}
	queue := rota.QueueName(d.of(append(mixQueues, "")...))
	switch d.roll(6) {
	case 0:
		return &fsmpb.Op{Op: &fsmpb.Op_DeleteKeyRule{DeleteKeyRule: &fsmpb.DeleteKeyRule{Queue: string(queue),
			Name: d.of("a", "b", "c"), Value: d.of("", "1")}}}
	case 1:
		var skip *fsmpb.SkipKey
		b.keyring.CountRows.Scan(func(_ string, c *state.KeyCountRow) bool {
			if c.Blocker != "" {
				skip = &fsmpb.SkipKey{Queue: string(c.Queue), Tenant: string(c.Tenant), Key: c.Text,
					Job: string(c.Blocker)}
			}
			return skip == nil
		})
		if skip != nil {
			return &fsmpb.Op{Op: &fsmpb.Op_SkipKey{SkipKey: skip}}
		}
	}
	if b.Header.Rules > 1 && d.roll(5) == 0 {
		tenant, key := rota.TenantID(d.of("", "t0", "t1", "t2", "t3")), d.of("a", "b", "c")+":"+d.of("1", "2", "3")
		if d.roll(4) == 0 {
			return ResumeKeyOp(queue, tenant, key)
		}
		return PauseKeyOp(queue, tenant, key, b.Header.Date()+rota.Date(d.roll(5_000)), "mix")
	}
	r := rota.KeyRule{Queue: queue, Name: d.of("a", "b", "c"), Value: d.of("", "", "1"),
		Scope:       pickOf(d, rota.KeyOfTenant, rota.KeyOfCluster),
		Concurrency: pickOf[int64](d, 0, 1, 2, 5), Sequence: pickOf(d, rota.SequenceNone, rota.SequenceNone,
			rota.SequenceBlock, rota.SequenceSkip)}
	if d.roll(3) == 0 {
		r.Rate, r.PeriodMs, r.Burst = pickOf[int64](d, 1, 2, 10), pickOf[int64](d, 100, 1000, 5000), pickOf[int64](d, 0,
			1, 3)
	}
	if d.roll(3) == 0 {
		r.Unit, r.Rate, r.PeriodMs, r.Burst = d.of("u", "v"), pickOf[int64](d, 1, 2, 10), pickOf[int64](d, 100, 700,
			5000), pickOf[int64](d, 0, 1, 3)
		r.DefaultCost = rota.Cost(pickOf[int64](d, 0, rota.CostUnit/3, 4*rota.CostUnit))
	}
	if b.Header.Rules > 1 && d.roll(3) == 0 {
		r.Breaker = rota.KeyBreaker{Trip: pickOf[int64](d, 1, 2), Of: pickOf[int64](d, 0, 2, 4),
			OpenMs: pickOf[int64](d, 1, 900, 5_000), Probes: pickOf[int64](d, 0, 2),
			Reasons: pickOf(d, 0, rota.Failures|1<<rota.ReasonDeclined)}
		r.RefuseFull = d.roll(4) == 0
	}
	if d.roll(3) == 0 {
		r.Group, r.Queue, r.Value = true, rota.QueueName(d.of(mixQueues...)), ""
	}
	return SetKeyRuleOp(&r)
}

// mixFlow submits, cancels or retries a workflow whose shape and policies follow from its id.
func mixFlow(d *dice) []*fsmpb.Op {
	n := d.roll(20)
	flow := newDAG(fmt.Sprint("f", n), [][][]uint32{{nil, {0}, {0}, {1, 2}}, {nil, nil, nil, {0, 1, 2}, {2}}}[n%2],
		func(f *dag) {
			f.OnFailure = rota.FailurePolicy(n / 2 % 2)
			f.Tenant = rota.TenantID(fmt.Sprint("t", n%4))
			for i := range f.Nodes {
				f.Nodes[i].Queue, f.Nodes[i].Priority = rota.QueueName(mixQueues[(n+i)%3]), int32((n+5*i)%11)
				f.Nodes[i].Domain, f.Nodes[i].TTL = []string{"", "z1"}[i%2], millis.Duration(int64(i%4/3)*60_000)
			}
		})
	runs := int32(1 + d.roll(2))
	return pickOf(d, []*fsmpb.Op{flow.open(), flow.add()[0], flow.commit()},
		[]*fsmpb.Op{flow.open(), flow.add()[0], flow.commit()},
		[]*fsmpb.Op{flow.cancel()}, []*fsmpb.Op{flow.retry("", runs)}, []*fsmpb.Op{flow.retry("n1", runs), flow.open()})
}

func mixJob(d *dice, s *rota.JobSpec) {
	for _, name := range []string{"a", "b", "c"} {
		if d.roll(3) == 0 {
			s.Keys = append(s.Keys, name+":"+d.of("1", "2", "3"))
		}
	}
	if d.roll(2) == 0 {
		s.Costs = rota.Costs{d.of("u", "v"): pickOf[int64](d, 0, 1, rota.CostUnit, 7*rota.CostUnit/2)}
	}
	if d.roll(4) == 0 {
		s.Batch = rota.BatchID(fmt.Sprint("b", d.roll(9)))
	}
	if d.roll(3) == 0 {
		s.Headers = map[string]string{"traceparent": d.of("00-1", "00-2")}
	}
	for range d.roll(4) {
		s.DataKeys = append(s.DataKeys, d.of("x", "y", "z"))
	}
	s.Queue, s.Tenant = rota.QueueName(d.of(mixQueues...)), rota.TenantID(fmt.Sprint("t", d.roll(4)))
	s.Priority, s.Type = pickOf[int32](d, 0, 3, 5, 6, 9, 9, 10, 10), rota.JobType(d.of("a", "b"))
	s.Domain, s.CPUMilli = d.of("", "z1", "z2"), pickOf[int64](d, 0, 0, 1000, 3000)
	s.Expected, s.MaxRuntime = millis.Duration(pickOf[int64](d, 0, 2_000, 3_600_000)), millis.Duration(pickOf[int64](d,
		0, 0, 8_000))
	s.Units, s.Fee = pickOf[int64](d, 0, 1, 3), pickOf[int64](d, 0, 1<<60, 5)
	s.Delay, s.TTL = millis.Duration(pickOf[int64](d, 0, 0, 500)), millis.Duration(pickOf[int64](d, 0, 0, 20_000))
	if d.roll(4) == 0 {
		s.Retry = rota.RetryPolicy{Attempts: pickOf[int64](d, 0, 1, 3),
			Base:           millis.Duration(pickOf[int64](d, 0, 1, 2_000)),
			FactorPermille: pickOf[int64](d, 0, 1_500), Cap: millis.Duration(pickOf[int64](d, 0, 2_500)),
			JitterPermille: pickOf[int64](d, -1, 0, 1_000)}
	}
	s.RetryOnInvalidProof, s.Expected = d.roll(2) == 0, millis.Duration(pickOf[int64](d, 0, 50))
	if d.roll(6) == 0 {
		s.Worker = rota.WorkerID(fmt.Sprint("w", d.roll(5)))
	}
	if d.roll(6) == 0 {
		s.ExpectedDigest = make([]byte, 32)
	}
}

// mixVerb is a verb, mostly on an open lease in its live session.
func mixVerb(b *bench, d *dice, seen []rota.Lease) *fsmpb.Op {
	if len(seen) == 0 {
		return sweepOp()
	}
	l := seen[max(0, len(seen)-1-d.roll(10))]
	if open := b.leasing.leases.Len(); open > 0 && d.roll(8) > 0 {
		row := rowAt(&b.leasing.leases, d.roll(open))
		l = row.Lease
	}
	return verb(pickOf(d, rota.VerbAck, rota.VerbAck, rota.VerbRenew, rota.VerbComplete, rota.VerbComplete,
		rota.VerbComplete, rota.VerbFail, rota.VerbDecline, rota.VerbProgress), l,
		func(c *peer.LeaseCommand) {
			c.Fail, c.After = failAs(d.roll(10))
			if d.roll(2) == 0 {
				c.Costs = rota.Costs{d.of("u", "v"): pickOf[int64](d, 0, 1, rota.CostUnit, 5*rota.CostUnit/2)}
			}
		})
}

func pickOf[T any](d *dice, list ...T) T { return list[d.roll(len(list))] }

// rowAt returns the row at an index in key order.
func rowAt[K ~string, R any, P interface {
	*R
	state.Row
	tree.Row[K]
}](t *state.Table[K, R, P], place int) (row P) {
	t.Scan(func(_ K, p P) bool {
		row, place = p, place-1
		return place >= 0
	})
	return row
}
