package fsm

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

func cpuJob(milli int64) func(*rota.JobSpec) { return func(s *rota.JobSpec) { s.CPUMilli = milli } }

func cpuWorker(milli int64) func(*rota.WorkerSpec) {
	return func(w *rota.WorkerSpec) { w.CPUMilli = milli }
}

// slip keeps a worker of 4 cpu busy with narrow jobs that overlap, so that a wide one never finds it idle. It returns
// after how many ms the wide one was placed, 0 if not within most.
func slip(b *bench, most rota.Clock) rota.Clock {
	b.t.Helper()
	b.every = 25
	b.worker("w", 100, cpuWorker(4000))
	var running []rota.Lease
	n := 0
	narrow := func() {
		n++
		b.submit(fmt.Sprint("narrow", n), cpuJob(1000), func(s *rota.JobSpec) { s.Priority = 0 })
		running = append(running, inOrder(b.match())...)
	}
	for range 4 {
		narrow()
	}
	b.submit("wide", cpuJob(4000))
	start := b.now
	for b.now < start+most {
		b.pass(1000)
		narrow() // it waits for the one that ends
		if len(running) > 0 {
			b.ok(verb(rota.VerbComplete, running[0]))
			running = running[1:]
		}
		for _, l := range inOrder(b.match()) {
			if l.Job == "wide" {
				return b.now - start
			}
			b.ok(verb(rota.VerbAck, l))
			running = append(running, l)
		}
	}
	return 0
}

func TestHold(t *testing.T) {
	t.Parallel()
	t.Run("lets_no_narrow_job_slip_past_a_wide_one_for_ever", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("default", "oldest_every", "0", "lease_ms", "3600000", "ack_timeout", "3600000"))
		if after := slip(b, 60_000); after < 30_000 || after > 36_000 {
			t.Fatalf("the wide job was placed after %d ms", after)
		}
		if b.placement.holds.Len() != 0 {
			t.Fatal("the hold outlives the placement")
		}
	})
	t.Run("without_holds_they_slip_past", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.ok(queueOp("default", "oldest_every", "0", "hold_after", "24h", "lease_ms", "3600000", "ack_timeout",
			"3600000"))
		if after := slip(b, 120_000); after != 0 {
			t.Fatalf("the wide job was placed after %d ms", after)
		}
	})
	t.Run("takes_the_roomiest_worker_and_the_bounded_one_first", func(t *testing.T) {
		t.Parallel()
		b := heldBench(t, func(b *bench) {
			b.worker("w1", 9, cpuWorker(5000)) // most room, but its lease is endless
			b.submit("endless", cpuJob(1500), func(s *rota.JobSpec) { s.Worker = "w1" })
			b.worker("w2", 9, cpuWorker(4000))
			b.submit("long", cpuJob(3000), func(s *rota.JobSpec) { s.Worker, s.MaxRuntime = "w2", time.Hour })
			b.worker("w3", 9, cpuWorker(4000))
			b.submit("short", cpuJob(2000), func(s *rota.JobSpec) { s.Worker, s.MaxRuntime = "w3", time.Hour })
		})
		if h := b.placement.holds.Get("wide"); h == nil || h.Worker != "w3" {
			t.Fatalf("held %+v", h)
		}
		b.submit("other", cpuJob(1000), func(s *rota.JobSpec) { s.Worker = "w3" })
		if len(b.match()) != 0 {
			t.Fatal("another job got the held worker")
		}
		a := b.entry(roundOp(b, "other", "w3"))
		if e := a.Events[0]; e.Kind != rota.EventAssignmentDropped || e.Text != "HELD_FOR_ANOTHER_JOB" {
			t.Fatalf("events %+v", a.Events)
		}
		b.completeAll("short")
		if l, ok := b.match()["wide"]; !ok || l.Worker != "w3" {
			t.Fatal("the wide job did not get the worker held for it")
		}
	})
	t.Run("goes_to_the_oldest_and_to_an_eighth_at_most", func(t *testing.T) {
		t.Parallel()
		b := heldBench(t, func(b *bench) {
			b.every = 50
			for i := range 16 {
				w := fmt.Sprintf("w%02d", i)
				b.worker(w, 9, cpuWorker(4000))
				b.submit("on-"+w, cpuJob(1000), func(s *rota.JobSpec) { s.Worker = rota.WorkerID(w) })
			}
			b.now++
		}, "wide2", "wide3")
		if b.placement.holds.Len() != 2 || b.placement.holds.Get("wide3") != nil {
			t.Fatalf("%d holds", b.placement.holds.Len())
		}
		b.ok(statusOp("w15", rota.WorkerRetired, 0))
		if b.placement.holds.Len() != 1 || b.placement.holds.Get("wide") == nil {
			t.Fatalf("%d holds on 15 workers", b.placement.holds.Len())
		}
	})
	t.Run("moves_after_hold_max", func(t *testing.T) {
		t.Parallel()
		b := twoWorkers(t)
		first := b.placement.holds.Get("wide").Worker
		b.pass(599_900)
		b.match()
		if b.placement.holds.Get("wide").Worker != first {
			t.Fatal("moved too early")
		}
		b.pass(100)
		b.match()
		h := b.placement.holds.Get("wide")
		if h == nil || h.Worker == first || h.Since != b.Header.Clock {
			t.Fatalf("hold %+v", h)
		}
	})
	t.Run("ends_after_hold_max_where_no_other_worker_is", func(t *testing.T) {
		t.Parallel()
		b := twoWorkers(t)
		b.ok(statusOp("w2", rota.WorkerDraining, 0))
		b.match()
		b.pass(600_000)
		b.match()
		b.match()
		if h := b.placement.holds.Get("wide"); h != nil {
			t.Fatalf("hold %+v", h)
		}
		b.pass(30_000)
		b.match()
		if h := b.placement.holds.Get("wide"); h == nil || h.Worker != "w1" {
			t.Fatalf("hold %+v", h)
		}
	})
	t.Run("writes_nothing_while_nothing_changes", func(t *testing.T) {
		t.Parallel()
		b := twoWorkers(t)
		b.pass(1000)
		if r := b.View.Decide(1000); r != nil {
			t.Fatalf("rounds %v", r)
		}
	})
}

func TestHoldEnds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why string
		end func(b *bench) Applied
	}{
		{"JOB_CANCELLED", func(b *bench) Applied { return b.entry(cancelOp("wide")) }},
		{"JOB_EXPIRED", func(b *bench) Applied {
			for b.now < b.JobTable.Get("wide").ExpireAbs {
				b.now += 500
				b.entry()
			}
			return b.entry(sweepOp())
		}},
		{"QUEUE_PAUSED", func(b *bench) Applied { return b.entry(queueOp("default", "paused", "on")) }},
		{"NOT_ELIGIBLE", func(b *bench) Applied { return b.entry(statusOp("w1", rota.WorkerDraining, 0)) }},
		{"NOT_ELIGIBLE", func(b *bench) Applied { return b.entry(statusOp("w1", rota.WorkerRetired, 0)) }},
		{"NOT_ELIGIBLE", func(b *bench) Applied {
			s, _ := b.View.Session("w1")
			return b.entry(reachOp("w1", s, false, b.now))
		}},
		{"NOT_ELIGIBLE", func(b *bench) Applied { return b.entry(registerOp("w1", 9, "w1", false, cpuWorker(3000))) }},
		{"PLACED", func(b *bench) Applied {
			b.completeAll("on-w1")
			return b.entry(roundOps(b)...)
		}},
		{"PLACED", func(b *bench) Applied { // elsewhere
			b.completeAll("on-w2")
			return b.entry(roundOps(b)...)
		}},
	} {
		t.Run(c.why, func(t *testing.T) {
			t.Parallel()
			b := twoWorkers(t)
			if h := b.placement.holds.Get("wide"); h.Worker != "w1" {
				t.Fatalf("hold %+v", h)
			}
			a := c.end(b)
			i := slices.IndexFunc(a.Events, func(e rota.Event) bool { return e.Kind == rota.EventWorkerHeld })
			if i < 0 || a.Events[i].Text != "ENDED "+c.why || a.Events[i].Worker != "w1" || a.Events[i].Job != "wide" {
				t.Fatalf("events %+v", a.Events)
			}
			if b.placement.holds.Get("wide") != nil || len(b.placement.registry.heldFor) != 0 {
				t.Fatal("the hold is still there")
			}
			b.sound()
		})
	}
}

// TestHoldOutlivesRestores restores the twin at every entry, so that it decides everything from a state that went
// through a snapshot during holds.
func TestHoldOutlivesRestores(t *testing.T) {
	t.Parallel()
	b := twoWorkers(t)
	for i := range 40 {
		b.twin = b.restored()
		b.submit(fmt.Sprint("narrow", i), cpuJob(500))
		b.match()
		b.pass(20_000)
		b.twin = b.restored()
		if i == 20 {
			b.completeAll("on-w2")
		}
	}
	b.sound()
}

// heldBench makes the job "wide", which needs 4 cpu, wait for 30 s, then others.
func heldBench(t *testing.T, workers func(b *bench), others ...string) *bench {
	t.Helper()
	b := newBench(t)
	b.ok(queueOp("default", "oldest_every", "0", "lease_ms", "36000000", "ack_timeout", "3600000"))
	workers(b)
	b.match()
	for _, id := range append([]string{"wide"}, others...) {
		b.submit(id, cpuJob(4000), func(s *rota.JobSpec) { s.TTL = time.Hour })
		b.now++
	}
	if len(b.match()) != 0 || b.placement.holds.Len() != 0 {
		t.Fatal("placed or held at once")
	}
	b.pass(29_000)
	if b.match(); b.placement.holds.Len() != 0 {
		t.Fatal("held too early")
	}
	b.pass(1_100)
	a := b.entry(roundOps(b)...)
	if e := a.Events[0]; e.Kind != rota.EventWorkerHeld || e.Text != "GRANTED" || e.Job != "wide" ||
		e.Epoch != b.Header.Epoch {
		t.Fatalf("events %+v", a.Events)
	}
	if b.placement.holds.Len() == 0 {
		t.Fatal("no worker is held")
	}
	return b
}

// twoWorkers has "wide" hold w1 out of w1 and w2, both of which run a small job.
func twoWorkers(t *testing.T) *bench {
	t.Helper()
	return heldBench(t, func(b *bench) {
		b.every = 20
		for _, w := range []string{"w1", "w2"} {
			b.worker(w, 9, cpuWorker(4000))
			b.submit("on-"+w, cpuJob(1000), func(s *rota.JobSpec) { s.Worker = rota.WorkerID(w) })
		}
	})
}

// completeAll completes the leases of jobs.
func (b *bench) completeAll(jobs ...rota.JobID) {
	b.t.Helper()
	for _, id := range jobs {
		j, _ := b.View.Job(id)
		b.ok(verb(rota.VerbComplete, *j.Lease))
	}
}

// TestHoldEndsBeforeItsJob cancels a job that holds a worker: its end is the last event about it.
func TestHoldEndsBeforeItsJob(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.worker("w", 1)
	b.submit("first")
	b.match()
	b.ok(verb(rota.VerbAck, *b.state("first", rota.JobAssigned).Lease))
	b.submit("j")
	for b.placement.holds.Get("j") == nil {
		if b.pass(1_000); b.Header.Clock > startClock+50_000 {
			t.Fatal("no worker is held")
		}
		b.match()
	}
	events := b.entry(cancelOp("j")).Events
	if last := events[len(events)-1]; last.Kind != rota.EventJobCancelled || events[0].Kind != rota.EventWorkerHeld {
		t.Fatalf("%+v", events)
	}
}
