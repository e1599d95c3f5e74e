package fsm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/peer"
)

// arrivalsOf returns the arrivals that a leader decides with now.
func arrivalsOf(b *bench, ops []*fsmpb.Op) *Arrivals {
	return &Arrivals{Ops: ops, Now: b.now}
}

// jobsOf returns the jobs that rounds place, sorted.
func jobsOf(rounds []*fsmpb.Round) (jobs []string) {
	for _, r := range rounds {
		for _, p := range r.GetPairs() {
			jobs = append(jobs, p.GetJob())
		}
	}
	slices.Sort(jobs)
	return jobs
}

// withEntry applies operations like a leader that decides with them. It checks that the twin decides the same and that
// deciding changes nothing; that no pair is dropped if the entry only has submissions; and that it places no other jobs
// than the rounds after the entry would, and as many as those if exact, which means that no seed affects the number.
func withEntry(b *bench, ops []*fsmpb.Op, exact bool) (Applied, int) {
	b.t.Helper()
	before := b.View.Digest()
	a := arrivalsOf(b, ops)
	rounds := b.DecideWith(a, 1000)
	if mine, its := fmt.Sprint(rounds), fmt.Sprint(b.twin.DecideWith(a, 1000)); mine != its {
		b.t.Fatalf("entry %d: decided with it are\n%s\nby the twin\n%s", b.Header.Index+1, mine, its)
	}
	if again := b.DecideWith(a, 1000); fmt.Sprint(again) != fmt.Sprint(rounds) || b.View.Digest() != before {
		b.t.Fatalf("the decision changed the state: a second decision gives\n%v\nfirst\n%v", again, rounds)
	}
	if faults := b.Check(); len(faults) > 0 {
		b.t.Fatalf("after a decision with %v: %q", ops, faults)
	}
	if rounds == nil {
		return b.entry(ops...), 0
	}
	alone := !slices.ContainsFunc(ops, func(op *fsmpb.Op) bool { return op.GetSubmit() == nil && op.GetRound() == nil })
	placed := jobsOf(rounds)
	if alone {
		naiveWith(b, ops, placed, exact)
	}
	got := b.entry(slices.Concat(ops, opsOf(rounds))...)
	if faults := b.Check(); len(faults) > 0 {
		b.t.Fatalf("after %v: %q", rounds, faults)
	}
	for _, e := range got.Events {
		if e.Kind == rota.EventAssignmentDropped && alone {
			b.t.Fatalf("decided with the entry's submissions, but dropped: %+v", e)
		}
	}
	return got, len(placed)
}

// naiveWith applies only the operations to another machine, and compares the decisions made with them with that
// machine's decisions after them: each job is QUEUED there, and some find a worker.
func naiveWith(b *bench, ops []*fsmpb.Op, placed []string, exact bool) {
	b.t.Helper()
	other := &bench{Machine: b.restored(), twin: b.restored(), t: b.t, term: b.term, now: b.now, walls: b.walls,
		every: 1 << 20, chance: rand.New(rand.NewPCG(3, 4))}
	other.entry(ops...)
	for _, id := range placed {
		if j := other.JobTable.Get(rota.JobID(id)); j == nil || j.State != rota.JobQueued {
			b.t.Fatalf("job %s is placed by its own entry, and not QUEUED by it: %+v", id, j)
		}
	}
	if later := jobsOf(other.View.Decide(1000)); len(later) == 0 || exact && len(later) != len(placed) {
		b.t.Fatalf("decided with the entry: %q, after it: %q", placed, later)
	}
}

func TestDecideWith(t *testing.T) {
	t.Parallel()
	queued := func(n int, change ...func(*rota.JobSpec)) (ops []*fsmpb.Op) {
		for i := range n {
			ops = append(ops, submitOp(jobSpec(fmt.Sprint("j", i), change...)))
		}
		return ops
	}
	change := func(f func(*rota.JobSpec)) []*fsmpb.Op { return append(queued(1), submitOp(jobSpec("other", f))) }
	lease := func(v rota.LeaseVerb, change ...func(*peer.LeaseCommand)) func(*bench) []*fsmpb.Op {
		return func(b *bench) []*fsmpb.Op {
			b.submit("before", func(s *rota.JobSpec) { s.Queue = "q2" })
			return append([]*fsmpb.Op{verb(v, b.match()["before"], change...)}, queued(1)...)
		}
	}
	for _, c := range []struct {
		name   string
		before func(*bench)
		ops    func(*bench) []*fsmpb.Op
		want   int
	}{
		{"one", nil, func(*bench) []*fsmpb.Op { return queued(1) }, 1},
		{"more than have room", nil, func(*bench) []*fsmpb.Op { return queued(7) }, 4},
		{"behind a completion", nil, lease(rota.VerbComplete), 1},
		{"behind a renewal", nil, lease(rota.VerbRenew), 1},
		{"one twice", nil, func(*bench) []*fsmpb.Op { return append(queued(1), queued(1)...) }, 1},
		{"beside one that is delayed", nil,
			func(*bench) []*fsmpb.Op { return change(func(s *rota.JobSpec) { s.Delay = time.Minute }) }, 1},
		{"beside one of a paused queue", func(b *bench) { b.ok(queueOp("q2", "paused", "true")) },
			func(*bench) []*fsmpb.Op { return change(func(s *rota.JobSpec) { s.Queue = "q2" }) }, 1},
		{"beside one of a tenant at its limit", func(b *bench) {
			b.ok(tenantOp("full", "max_concurrent", "1"))
			b.leased("first", "w1", func(s *rota.JobSpec) { s.Tenant = "full" })
		}, func(*bench) []*fsmpb.Op { return change(func(s *rota.JobSpec) { s.Tenant = "full" }) }, 1},
		{"known by its id", func(b *bench) { b.submit("j0"); b.ok(cancelOp("j0")) },
			func(*bench) []*fsmpb.Op { return queued(2) }, 1},

		{"behind a failure, which may queue its job again", nil, lease(rota.VerbFail), 0},
		{"behind a decline", nil, lease(rota.VerbDecline), 0},
		{"behind a sweep", nil, func(*bench) []*fsmpb.Op { return append([]*fsmpb.Op{sweepOp()}, queued(1)...) }, 0},
		{"behind a worker", nil, func(*bench) []*fsmpb.Op {
			return append([]*fsmpb.Op{registerOp("w9", 9, "w9", false)}, queued(1)...)
		}, 0},
		{"behind a queue's policy", nil, func(*bench) []*fsmpb.Op {
			return append([]*fsmpb.Op{queueOp("default", "paused", "true")}, queued(1)...)
		}, 0},
		{"while another job waits", func(b *bench) {
			b.submit("waits", func(s *rota.JobSpec) { s.Requires = []string{"gpu"} })
		}, func(*bench) []*fsmpb.Op { return queued(1) }, 0},
		{"while the cluster is degraded", func(b *bench) {
			b.ok(&fsmpb.Op{Op: &fsmpb.Op_SetMode{SetMode: &fsmpb.SetMode{Mode: uint32(rota.ModeDegraded),
				Reason: "a"}}})
		}, func(*bench) []*fsmpb.Op { return queued(1) }, 0},
		{"unique", nil, func(*bench) []*fsmpb.Op {
			return change(func(s *rota.JobSpec) { s.Unique = &rota.Unique{Key: "k"} })
		}, 0},
		{"with a key", nil, func(*bench) []*fsmpb.Op {
			return change(func(s *rota.JobSpec) { s.Keys = []string{"a:b"} })
		}, 0},
		{"with a date", nil, func(*bench) []*fsmpb.Op {
			return change(func(s *rota.JobSpec) { s.NotBefore = rota.Date(startClock - 1).Time() })
		}, 0},
		{"refused", nil, func(*bench) []*fsmpb.Op { return change(func(s *rota.JobSpec) { s.Priority = 99 }) }, 0},
		{"in an adaptive queue", func(b *bench) { b.ok(queueOp("default", "ranking", "adaptive")) },
			func(*bench) []*fsmpb.Op { return queued(1) }, 0},
		{"more than the queue may take", func(b *bench) {
			b.ok(queueOp("default", "queue_cap", "3", "reject_threshold", "0"))
		},
			func(*bench) []*fsmpb.Op { return queued(4) }, 0},
		{"more than its tenant may submit", func(b *bench) { b.ok(queueOp("default", "rate_limit_rps", "3")) },
			func(*bench) []*fsmpb.Op { return queued(4) }, 0},
		{"of nobody who may", nil, func(*bench) []*fsmpb.Op {
			ops := queued(1)
			ops[0].Actor = "nobody"
			return ops
		}, 0},
		{"where no worker is", func(b *bench) { b.ok(statusOp("w1", rota.WorkerDraining, 0)) },
			func(*bench) []*fsmpb.Op { return queued(1) }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.ok(queueOp("q2"))
			b.worker("w1", 4)
			b.worker("w2", 1, func(w *rota.WorkerSpec) { w.Queues = []rota.QueueName{"q2"} })
			if c.before != nil {
				c.before(b)
			}
			if _, placed := withEntry(b, c.ops(b), true); placed != c.want {
				t.Fatalf("%d jobs are placed, want %d", placed, c.want)
			}
			b.sound()
		})
	}
	t.Run("who comes first", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct{ share, want string }{{"off", "b"}, {"on", "a"}} {
			b := newBench(t)
			b.ok(queueOp("default", "ranking", "fifo", "fair_share", c.share))
			b.leased("holds", "w1", func(s *rota.JobSpec) { s.Tenant = "holder" })
			b.ok(statusOp("w1", rota.WorkerDraining, 0))
			b.worker("w2", 1)
			a := arrivalsOf(b, []*fsmpb.Op{submitOp(jobSpec("b", func(s *rota.JobSpec) { s.Tenant = "holder" })),
				submitOp(jobSpec("a"))})
			if placed := jobsOf(b.DecideWith(a, 1000)); !slices.Equal(placed, []string{c.want}) {
				t.Errorf("fair share %s: %q has the one place, want %q", c.share, placed, c.want)
			}
		}
	})
	t.Run("beside the rounds of those who waited", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			name   string
			change func(b *bench, ops []*fsmpb.Op) []*fsmpb.Op
			want   int
		}{
			{"before it", func(_ *bench, ops []*fsmpb.Op) []*fsmpb.Op { return append(ops, queued(1)...) }, 1},
			{"behind it", func(_ *bench, ops []*fsmpb.Op) []*fsmpb.Op { return append(queued(1), ops...) }, 1},
			{"more than they leave room for", func(_ *bench, ops []*fsmpb.Op) []*fsmpb.Op {
				return append(queued(7), ops...)
			}, 2}, {"without them", func(*bench, []*fsmpb.Op) []*fsmpb.Op { return queued(1) }, 0},
			{"decided before", func(b *bench, ops []*fsmpb.Op) []*fsmpb.Op {
				b.entry()
				return append(ops, queued(1)...)
			}, 0},
			{"others than are decided", func(_ *bench, ops []*fsmpb.Op) []*fsmpb.Op {
				ops[0].GetRound().Pairs = ops[0].GetRound().Pairs[:1]
				return append(ops, queued(1)...)
			}, 0},
			{"with a job of another entry", func(_ *bench, ops []*fsmpb.Op) []*fsmpb.Op {
				ops[0].GetRound().Pairs[0].Job = "nobody"
				return append(ops, queued(1)...)
			}, 0},
			{"which leave one waiting", func(b *bench, _ []*fsmpb.Op) []*fsmpb.Op {
				b.entry(queued(4)[2:]...) // j2 and j3
				b.submit("waits", func(s *rota.JobSpec) { s.Requires = []string{"gpu"} })
				return append(opsOf(b.View.Decide(1000)), queued(1)...)
			}, 0},
		} {
			b := newBench(t)
			b.worker("w1", 4)
			b.entry(submitOp(jobSpec("first")), submitOp(jobSpec("second")))
			ops := c.change(b, opsOf(b.View.Decide(1000)))
			rounds := b.DecideWith(arrivalsOf(b, ops), 1000)
			if placed := jobsOf(rounds); len(placed) != c.want {
				t.Errorf("%s: %q are placed, want %d", c.name, placed, c.want)
			}
			if c.want == 0 {
				continue
			}
			withEntry(b, ops, true)
			b.sound()
			if leases := openLeases(b); len(leases) != 2+c.want {
				t.Errorf("%s: got %d leases, want %d: %v", c.name, len(leases), 2+c.want, leases)
			}
		}
	})
	t.Run("whose share is counted", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("default", "ranking", "fifo", "fair_share", "on"))
		b.worker("w1", 2)
		b.submit("waits", func(s *rota.JobSpec) { s.Tenant = "holder" })
		ops := append(opsOf(b.View.Decide(1000)), submitOp(jobSpec("b", func(s *rota.JobSpec) { s.Tenant = "holder" })),
			submitOp(jobSpec("a")))
		if placed := jobsOf(b.DecideWith(arrivalsOf(b, ops), 1000)); !slices.Equal(placed, []string{"a"}) {
			t.Errorf("in addition to a round for the holder %q has the one remaining place", placed)
		}
	})
	t.Run("the round says with what", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.worker("w1", 4)
		height := b.Header.Index
		r := b.DecideWith(arrivalsOf(b, queued(3)), 1000)
		if len(r) != 1 || r[0].GetWith() != 3 || rota.Index(r[0].GetHeight()) != height ||
			r[0].GetEpoch() != b.Header.Epoch+1 {
			t.Fatalf("%v at height %d, epoch %d", r, height, b.Header.Epoch)
		}
		if r := b.View.Decide(1000); r != nil {
			t.Fatalf("no job is pending, but %v is decided", r)
		}
	})
}

// TestDecideWith_model runs lives of many submissions, under random policies and limits.
func TestDecideWith_model(t *testing.T) {
	t.Parallel()
	long(t)
	placed, entries, beside := 0, 0, 0
	for seed := range uint64(60) {
		d := rand.New(rand.NewPCG(seed, 19))
		b := newBench(reported{t, fmt.Sprintf("seed %d: ", seed)})
		b.every = 1 << 20
		// Where the seed of a round chooses workers, and the needs of jobs vary, it also decides how many find one:
		// jobs of round_robin do not depend on it.
		cpu, strategies := int64(d.IntN(2)), []string{"shuffle", "round_robin", "least_loaded", "random", "affinity"}
		if cpu > 0 {
			strategies = []string{"round_robin"}
		}
		for _, q := range mixQueues {
			b.ok(queueOp(q, "strategy", strategies[d.IntN(len(strategies))],
				"fair_share", fmt.Sprint(d.IntN(2) == 0), "ranking", []string{"fifo", "aging", "market"}[d.IntN(3)],
				"weight", fmt.Sprint(1+d.IntN(3)),
				"backfill", []string{"free", "none", "easy"}[max(0, d.IntN(5)-2)], "estimate", "user",
				"batch_size", fmt.Sprint(1+d.IntN(9)), "starvation_interleave", fmt.Sprint(d.IntN(4)), "oldest_every",
				"0", "hold_after", "0"))
		}
		for i := range 3 {
			b.ok(tenantOp(fmt.Sprint("t", i), "max_concurrent", fmt.Sprint(d.IntN(4)), "weight",
				fmt.Sprint(1+d.IntN(3))))
		}
		for i := range 1 + d.IntN(4) {
			b.worker(fmt.Sprint("w", i), int32(1+d.IntN(4)), func(w *rota.WorkerSpec) {
				w.Queues = []rota.QueueName{rota.QueueName(mixQueues[d.IntN(3)]), rota.QueueName(mixQueues[d.IntN(3)])}
				w.CPUMilli = int64(d.IntN(3)) * 1000
			})
		}
		jobs := 0
		for range 40 {
			b.now += rota.Clock(d.IntN(300))
			var ops []*fsmpb.Op
			for range d.IntN(6) {
				jobs++
				ops = append(ops, submitOp(jobSpec(fmt.Sprint("j", jobs), func(s *rota.JobSpec) {
					s.Queue, s.Tenant = rota.QueueName(mixQueues[d.IntN(3)]), rota.TenantID(fmt.Sprint("t", d.IntN(4)))
					s.Expected = time.Duration(d.IntN(3)) * time.Second
					s.Priority, s.CPUMilli, s.Fee = int32(d.IntN(11)), cpu*int64(d.IntN(3))*500, int64(d.IntN(3))
					if d.IntN(9) == 0 {
						s.Delay = time.Second
					}
				})))
			}
			if rounds := opsOf(b.View.Decide(1000)); d.IntN(2) == 0 { // as in the log: in order, among submissions
				at := 0 // a queue that comes after pending jobs has another turn than one that comes when they are served
				if cpu == 0 {
					at = d.IntN(len(ops) + 1)
				}
				ops = slices.Concat(ops[:at], rounds, ops[at:])
				beside += min(len(rounds), 1)
			}
			_, n := withEntry(b, ops, cpu > 0)
			placed, entries = placed+n, entries+1
			if d.IntN(3) == 0 {
				b.match()
			}
			for _, l := range inOrder(openLeases(b)) {
				if d.IntN(3) > 0 {
					b.entry(verb(rota.VerbComplete, l))
				}
			}
		}
		b.sound()
	}
	if placed < entries/10 {
		t.Errorf("%d jobs were placed by %d entries: the tested case hardly occurs", placed, entries)
	}
	t.Logf("%d jobs were placed by their own entries, of %d, of which %d had rounds for others", placed, entries,
		beside)
}

// openLeases returns all leases of a bench's workers.
func openLeases(b *bench) map[rota.JobID]rota.Lease {
	leases := make(map[rota.JobID]rota.Lease)
	b.leasing.leases.Scan(func(_ string, l *state.LeaseRow) bool {
		leases[l.Job] = l.Lease
		return true
	})
	return leases
}
