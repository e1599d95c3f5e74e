package fsm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/peer"
)

// refilled applies operations together with their decisions. It checks that the twin decides the same, that deciding
// does not change the state, that no pair is dropped, and that exactly the jobs are placed that the rounds after the
// entry would place; if a seed decides which, at least as many.
func refilled(b *bench, ops []*fsmpb.Op, exact bool) []string {
	b.t.Helper()
	a, before := arrivalsOf(b, ops), b.View.Digest()
	next := fmt.Sprint(b.View.Decide(1000))
	rounds := b.DecideWith(a, 1000)
	if mine, its := fmt.Sprint(rounds), fmt.Sprint(b.twin.DecideWith(a, 1000)); mine != its {
		b.t.Fatalf("entry %d: decided with it are\n%s\nby the twin\n%s", b.Header.Index+1, mine, its)
	}
	if faults := b.Check(); len(faults) > 0 || b.View.Digest() != before || fmt.Sprint(b.View.Decide(1000)) != next {
		b.t.Fatalf("the decision changed the state: %q", faults)
	}
	if rounds == nil {
		b.entry(ops...)
		return nil
	}
	placed := jobsOf(rounds)
	other := &bench{Machine: b.restored(), twin: b.restored(), t: b.t, term: b.term, now: b.now, walls: b.walls,
		every: 1 << 20, chance: rand.New(rand.NewPCG(3, 4))}
	other.entry(ops...)
	if later := jobsOf(other.View.Decide(1000)); exact && !slices.Equal(later, placed) || len(later) == 0 {
		b.t.Fatalf("decided with the entry are %q, behind it %q", placed, later)
	}
	for _, e := range b.entry(slices.Concat(ops, opsOf(rounds))...).Events {
		if e.Kind == rota.EventAssignmentDropped {
			b.t.Fatalf("decided with the entry's completions, and dropped: %+v", e)
		}
	}
	b.sound()
	return placed
}

// TestRefill has a worker with one slot complete a job while another waits.
func TestRefill(t *testing.T) {
	t.Parallel()
	complete := func(b *bench, l rota.Lease) []*fsmpb.Op { return []*fsmpb.Op{verb(rota.VerbComplete, l)} }
	with := func(ops ...*fsmpb.Op) func(*bench, rota.Lease) []*fsmpb.Op {
		return func(b *bench, l rota.Lease) []*fsmpb.Op { return append(complete(b, l), ops...) }
	}
	for _, c := range []struct {
		name   string
		spec   func(*rota.JobSpec)
		before func(*bench)
		ops    func(*bench, rota.Lease) []*fsmpb.Op
		want   string
	}{
		{name: "its next job", ops: complete, want: "waits"},
		{name: "beside a barrier", ops: with(&fsmpb.Op{Op: &fsmpb.Op_Barrier{Barrier: &fsmpb.Barrier{}}}),
			want: "waits"},
		{name: "said twice", ops: func(b *bench, l rota.Lease) []*fsmpb.Op {
			return append(complete(b, l), complete(b, l)...)
		}, want: "waits"},
		{name: "the most urgent of them", ops: complete, want: "urgent", before: func(b *bench) {
			b.submit("urgent", func(s *rota.JobSpec) { s.Priority = 0 })
		}},
		{name: "as the share of its tenant is without it", ops: complete, want: "same", before: func(b *bench) {
			b.ok(queueOp("default", "fair_share", "on", "ranking", "fifo"))
			b.worker("w2", 1)
			b.match() // "waits" runs, too
			b.submit("same", func(s *rota.JobSpec) { s.Tenant = "acme" })
			b.now++
			b.submit("other", func(s *rota.JobSpec) { s.Tenant = "other" })
		}},

		{name: "an acknowledgement",
			ops: func(_ *bench, l rota.Lease) []*fsmpb.Op { return []*fsmpb.Op{verb(rota.VerbAck, l)} }},
		{name: "a failure, which may queue its job again",
			ops: func(_ *bench, l rota.Lease) []*fsmpb.Op { return []*fsmpb.Op{verb(rota.VerbFail, l)} }},
		{name: "beside a submission, which may be more urgent", ops: with(submitOp(jobSpec("new")))},
		{name: "beside a sweep", ops: with(sweepOp())},
		{name: "beside a worker", ops: with(registerOp("w9", 9, "w9", false))},
		{name: "beside a queue's policy", ops: with(queueOp("default", "paused", "true"))},
		{name: "by another session", ops: func(_ *bench, l rota.Lease) []*fsmpb.Op {
			return []*fsmpb.Op{verb(rota.VerbComplete, l, func(c *peer.LeaseCommand) { c.Session++ })}
		}},
		{name: "a lease that is revoked", ops: complete, before: func(b *bench) { b.ok(cancelOp("runs")) }},
		{name: "a job with a key, which another may wait for", spec: func(s *rota.JobSpec) { s.Keys = []string{"a:b"} },
			ops: complete},
		{name: "a job of a tenant with a limit", ops: complete,
			before: func(b *bench) { b.ok(tenantOp("acme", "max_concurrent", "1")) }},
		{name: "a job whose output may be wrong", spec: func(s *rota.JobSpec) { s.ExpectedDigest = make([]byte, 32) },
			ops: complete},
		{name: "where the queue is paused", ops: complete, before: func(b *bench) {
			b.ok(queueOp("default", "paused", "true"))
		}},
		{name: "where the worker takes no more", ops: complete,
			before: func(b *bench) { b.ok(statusOp("w1", rota.WorkerDraining, 0)) }},
		{name: "where nothing waits", ops: complete, before: func(b *bench) { b.ok(cancelOp("waits")) }},
		{name: "of nobody who may", ops: func(b *bench, l rota.Lease) []*fsmpb.Op {
			ops := complete(b, l)
			ops[0].Actor = "nobody"
			return ops
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.ok(switchOp(entry.RulesVersion))
			b.worker("w1", 1)
			b.submit("runs", func(s *rota.JobSpec) {
				if s.Tenant = "acme"; c.spec != nil {
					c.spec(s)
				}
			})
			l := b.match()["runs"]
			b.now++
			b.submit("waits")
			b.now++
			if c.before != nil {
				c.before(b)
			}
			want := []string{c.want}
			if c.want == "" {
				want = nil
			}
			if got := refilled(b, c.ops(b, l), true); !slices.Equal(got, want) {
				t.Errorf("%q are placed, want %q", got, want)
			}
		})
	}
	t.Run("under the rules before", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.worker("w1", 1)
		b.submit("runs")
		l := b.match()["runs"]
		b.submit("waits")
		if got := refilled(b, complete(b, l), true); got != nil {
			t.Errorf("%q are placed under rules version 1", got)
		}
	})
}

// TestRefill_model runs lives with more pending jobs than room, under random policies and limits.
func TestRefill_model(t *testing.T) {
	t.Parallel()
	long(t)
	placed, entries := 0, 0
	for seed := range uint64(30) {
		d := rand.New(rand.NewPCG(seed, 23))
		b := newBench(reported{t, fmt.Sprintf("seed %d: ", seed)})
		b.every = 1 << 20
		b.ok(switchOp(entry.RulesVersion))
		cpu, strategies := int64(d.IntN(2)), []string{"shuffle", "round_robin", "least_loaded", "random", "affinity"}
		exact := d.IntN(2) == 0 // otherwise a seed decides which worker takes a job, and so which queues have room
		if exact {
			strategies = []string{"round_robin"}
		}
		for _, q := range mixQueues {
			b.ok(queueOp(q, "strategy", strategies[d.IntN(len(strategies))], "fair_share", fmt.Sprint(d.IntN(2) == 0),
				"ranking", []string{"fifo", "aging", "market"}[d.IntN(3)], "weight", fmt.Sprint(1+d.IntN(3)),
				"backfill", []string{"free", "none", "easy", "conservative"}[max(0, d.IntN(6)-2)], "estimate", "user",
				"batch_size", fmt.Sprint(1+d.IntN(9)), "starvation_interleave", fmt.Sprint(d.IntN(4)), "oldest_every",
				"0", "hold_after", "0"))
		}
		for i := range 3 {
			b.ok(tenantOp(fmt.Sprint("t", i), "max_concurrent", fmt.Sprint(max(0, d.IntN(6)-3)), "weight",
				fmt.Sprint(1+d.IntN(3))))
		}
		for i := range 1 + d.IntN(4) {
			b.worker(fmt.Sprint("w", i), int32(1+d.IntN(3)), func(w *rota.WorkerSpec) {
				w.Queues = []rota.QueueName{rota.QueueName(mixQueues[d.IntN(3)]), rota.QueueName(mixQueues[d.IntN(3)])}
				w.CPUMilli = int64(d.IntN(3)) * 1000
			})
		}
		jobs := 0
		for range 60 {
			b.now += rota.Clock(1 + d.IntN(300))
			b.entry(&fsmpb.Op{Op: &fsmpb.Op_Barrier{Barrier: &fsmpb.Barrier{}}})
			for range d.IntN(7) {
				jobs++
				b.now++
				b.submit(fmt.Sprint("j", jobs), func(s *rota.JobSpec) {
					s.Queue, s.Tenant = rota.QueueName(mixQueues[d.IntN(3)]), rota.TenantID(fmt.Sprint("t", d.IntN(4)))
					s.Expected = time.Duration(d.IntN(3)) * time.Second
					s.Priority, s.CPUMilli = int32(d.IntN(11)), cpu*int64(d.IntN(3))*500
				})
			}
			b.match()
			var ops []*fsmpb.Op
			for _, l := range inOrder(openLeases(b)) {
				if v := []rota.LeaseVerb{rota.VerbComplete, rota.VerbComplete, rota.VerbRenew, 0}[d.IntN(4)]; v != 0 {
					ops = append(ops, verb(v, l))
				}
			}
			if len(ops) > 0 {
				placed, entries = placed+len(refilled(b, ops, exact)), entries+1
			}
		}
	}
	if placed < entries/10 {
		t.Errorf("%d jobs were placed by %d entries: the tested case hardly occurs", placed, entries)
	}
	t.Logf("%d jobs were placed by %d entries that completed others", placed, entries)
}
