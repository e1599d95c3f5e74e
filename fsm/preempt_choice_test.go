package fsm

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
)

func TestPreemptionChooses(t *testing.T) {
	t.Parallel()
	run := func(name string, f func(b *bench)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(preemptBench(t))
		})
	}
	run("the_fewest", func(b *bench) {
		b.worker("a", 9, cpuWorker(4000))
		b.worker("b", 9, cpuWorker(4000))
		b.background("wide", "b", cpuJob(4000))
		b.background("half1", "a", cpuJob(2000))
		b.background("half2", "a", cpuJob(2000))
		b.submit("crit", priority(0), cpuJob(3000))
		b.wantsRevoked("wide")
	})
	run("then_the_newest", func(b *bench) {
		b.worker("a", 2)
		b.worker("b", 1)
		b.background("oldest", "a")
		b.background("newer", "b")
		b.background("newest", "a")
		for i, want := range []rota.JobID{"newest", "newer"} {
			b.submit(fmt.Sprint("crit", i), priority(0))
			b.wantsRevoked(want)
		}
		b.submit("crit2", priority(0))
		b.wantsRevoked() // both workers are held
	})
	run("one_large_lease_before_two_newer_small_ones", func(b *bench) {
		b.worker("w", 9, cpuWorker(4000))
		b.background("large", "w", cpuJob(2000))
		b.background("small1", "w", cpuJob(1000))
		b.background("small2", "w", cpuJob(1000))
		b.submit("crit", priority(0), cpuJob(2000))
		b.wantsRevoked("large")
	})
	run("the_newest_that_make_room_in_cpu_and_memory_together", func(b *bench) {
		memory := func(n int64) func(*rota.JobSpec) { return func(s *rota.JobSpec) { s.MemoryBytes = n } }
		b.worker("w", 9, cpuWorker(2000), func(w *rota.WorkerSpec) { w.MemoryBytes = 2000 })
		b.background("memory", "w", memory(1000))
		b.background("cpu", "w", cpuJob(1000))
		b.background("both", "w", cpuJob(1000), memory(1000))
		b.submit("crit", priority(0), cpuJob(2000), memory(1000))
		b.wantsRevoked("both", "cpu")
	})
	run("the_newest_that_make_room_for_io", func(b *bench) {
		io := func(n int64) func(*rota.JobSpec) { return func(s *rota.JobSpec) { s.IOBytesPerS = n } }
		b.worker("w", 9, func(w *rota.WorkerSpec) { w.IOBytesPerS = 2000 })
		b.background("io", "w", io(2000))
		b.background("none", "w")
		b.submit("crit", priority(0), io(1))
		b.wantsRevoked("io")
	})
	run("no_more_than_is_needed_beside_what_is_revoked_already", func(b *bench) {
		b.worker("w", 2)
		b.background("first", "w")
		b.background("second", "w")
		b.submit("crit", priority(0))
		b.wantsRevoked("second")
		b.ok(cancelOp("crit")) // the hold ends, the lease is still revoked
		b.submit("other", priority(0))
		b.wantsRevoked()
		if h := b.placement.holds.Get("other"); h == nil || h.Revoked != 0 || !h.Preempted {
			b.t.Fatalf("hold %+v", h)
		}
	})
	run("the_oldest_critical_job_first", func(b *bench) {
		b.worker("w", 1)
		b.background("back", "w")
		b.submit("z-older", priority(0))
		b.now++
		b.submit("a-newer", priority(0))
		b.wantsRevoked("back")
		if b.placement.holds.Get("z-older") == nil {
			b.t.Fatal("the younger one was served first")
		}
	})
	run("no_more_than_a_tenants_limit_lets_run", func(b *bench) {
		b.ok(tenantOp("t", "max_concurrent", "1"))
		b.worker("a", 1)
		b.worker("b", 1)
		b.background("one", "a")
		b.background("two", "b")
		for i := range 2 {
			b.submit(fmt.Sprint("crit", i), priority(0), func(s *rota.JobSpec) { s.Tenant = "t" })
		}
		b.wantsRevoked("two")
		b.wantsRevoked() // nor later, while the first waits for its room
	})
	run("workers_beyond_the_bound_on_holds", func(b *bench) {
		b.every = 20
		for i := range 8 { // one of eight may be held
			w := fmt.Sprint("w", i)
			b.worker(w, 1)
			b.background("back-"+w, w)
		}
		for i := range 5 {
			b.submit(fmt.Sprint("crit", i), priority(0))
		}
		if n := len(b.revoked()); n != 5 || b.placement.holds.Len() != 5 {
			b.t.Fatalf("%d leases are revoked, %d workers held", n, b.placement.holds.Len())
		}
		b.ok(statusOp("w7", rota.WorkerRetired, 0)) // with fewer workers, fewer ordinary holds are allowed
		b.sound()
		if n := b.placement.holds.Len(); n < 4 {
			b.t.Fatalf("%d workers are held", n)
		}
	})
	run("sixty_four_an_entry_at_most", func(b *bench) {
		b.every = 1_000
		for i := range 70 {
			w := fmt.Sprint("w", i)
			b.worker(w, 1)
			b.background("back-"+w, w)
		}
		for i := range 70 {
			b.submit(fmt.Sprint("crit", i), priority(0))
		}
		if n := len(b.revoked()); n != limits.MaxPreemptions {
			b.t.Fatalf("%d in the first entry", n)
		}
		if n := len(b.revoked()); n != 70-limits.MaxPreemptions {
			b.t.Fatalf("%d in the second entry", n)
		}
		b.sound()
	})
}

// TestFewest compares the choice with an exhaustive search.
func TestFewest(t *testing.T) {
	t.Parallel()
	chance := rand.New(rand.NewPCG(3, 4))
	for range 2_000 {
		leases := make([]going, chance.IntN(9))
		for i := range leases {
			leases[i] = going{Load: sched.Load{CPU: chance.Int64N(4), Memory: chance.Int64N(4), IO: chance.Int64N(4)}}
		}
		lack := need{int32(chance.IntN(4)), sched.Load{CPU: chance.Int64N(10), Memory: chance.Int64N(10),
			IO: chance.Int64N(10)}}
		got, ok := fewest(leases, lack)
		want := -1
		for set := range 1 << len(leases) {
			rest, n := lack, 0
			for i := range leases {
				if set&(1<<i) != 0 {
					rest, n = rest.less(&leases[i]), n+1
				}
			}
			if rest.met() && (want < 0 || n < want) {
				want = n
			}
		}
		if ok != (want >= 0) || ok && len(got) != want {
			t.Fatalf("%d of %d leases for %+v (found: %v), %d are enough", len(got), len(leases), lack, ok, want)
		}
	}
	many := make([]going, 40)
	for i := range many {
		many[i].CPU = 1
	}
	many[30].CPU = 100
	if got, ok := fewest(many, need{Load: sched.Load{CPU: 100}}); !ok || len(got) != 1 || got[0].CPU != 100 {
		t.Fatalf("%d leases of 40 (found: %v)", len(got), ok)
	}
	if _, ok := fewest(many, need{Load: sched.Load{CPU: 1000}}); ok {
		t.Fatal("found room that does not exist")
	}
}

// TestFewestOfAHopelessWorkerIsCheap checks that a worker on which no end of leases makes room is given up at once, as
// there may be as many of them as workers.
func TestFewestOfAHopelessWorkerIsCheap(t *testing.T) {
	t.Parallel()
	leases := make([]going, maxPlanned)
	for i := range leases {
		leases[i] = going{Load: sched.Load{Memory: 1 << 56}}
	}
	for _, lack := range []need{{0, sched.Load{CPU: 1}}, {2, sched.Load{CPU: 1}}, {0, sched.Load{IO: 1}},
		{0, sched.Load{Memory: maxPlanned<<56 + 1}}, {maxPlanned + 1, sched.Load{}}} {
		c := choice{leases: leases}
		c.measure()
		for size := range maxPlanned + 1 {
			if chosen, ok := c.choose(0, size, lack); ok {
				t.Fatalf("%d leases meet %+v", len(chosen), lack)
			}
		}
		if c.looks > maxPlanned+1 {
			t.Errorf("%d looks for %+v", c.looks, lack)
		}
	}
	c := choice{leases: leases}
	c.measure()
	chosen, ok := c.choose(0, maxPlanned, need{0, sched.Load{Memory: maxPlanned << 56}})
	if !ok || len(chosen) != maxPlanned {
		t.Fatalf("all %d leases make that room, %d are enough (found: %v)", maxPlanned, len(chosen), ok)
	}
}
