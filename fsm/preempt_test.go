package fsm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
)

func priority(p int32) func(*rota.JobSpec) { return func(s *rota.JobSpec) { s.Priority = p } }

// preemptBench has a queue whose critical jobs preempt, and long leases.
func preemptBench(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.ok(queueOp("default", "preempt", "on", "oldest_every", "0", "lease_ms", "3600000", "ack_timeout", "3600000"))
	return b
}

// background runs a job of priority 9 on a worker, and acknowledges it.
func (b *bench) background(id, worker string, change ...func(*rota.JobSpec)) rota.Lease {
	b.t.Helper()
	b.submit(id, append([]func(*rota.JobSpec){priority(9), func(s *rota.JobSpec) { s.Worker = rota.WorkerID(worker) }},
		change...)...)
	l, placed := b.match()[rota.JobID(id)]
	if !placed {
		b.t.Fatalf("job %s was not placed", id)
	}
	b.ok(verb(rota.VerbAck, l))
	b.now++
	return l
}

// revoked applies the next entry of rounds and returns the jobs whose leases it revoked, in order.
func (b *bench) revoked() []rota.JobID {
	b.t.Helper()
	jobs := []rota.JobID{}
	rounds := roundOps(b)
	if len(rounds) == 0 {
		return jobs
	}
	for _, e := range b.entry(rounds...).Events {
		if e.Kind == rota.EventLeaseRevoked && e.Reason == rota.ReasonPreempted {
			jobs = append(jobs, e.Job)
		} else if e.Kind == rota.EventAssignmentDropped {
			b.t.Fatalf("dropped: %+v", e)
		}
	}
	return jobs
}

func (b *bench) wantsRevoked(jobs ...rota.JobID) {
	b.t.Helper()
	if got := b.revoked(); !slices.Equal(got, jobs) {
		b.t.Fatalf("leases of %v were revoked, want %v", got, jobs)
	}
}

func TestPreemption(t *testing.T) {
	t.Parallel()
	run := func(name string, f func(b *bench)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(preemptBench(t))
		})
	}
	run("gives_a_critical_job_the_room_of_a_background_one", func(b *bench) {
		b.worker("w", 1)
		l := b.background("back", "w")
		b.submit("crit", priority(0))
		b.submit("high", priority(1))
		b.wantsRevoked("back")
		h := b.placement.holds.Get("crit")
		if h == nil || h.Worker != "w" || !h.Preempted || h.Revoked != 1 {
			b.t.Fatalf("hold %+v", h)
		}
		b.refuses(rota.KindStale, "lease", verb(rota.VerbRenew, l))
		b.wantsRevoked() // nothing more is decided while the worker has not confirmed
		b.ok(verb(rota.VerbDecline, l))
		if j := b.state("back", rota.JobQueued); j.Attempt != 0 || j.Preempted != 1 ||
			j.Reason != rota.ReasonPreempted {
			b.t.Fatalf("job %+v", j)
		}
		placed := b.match()
		if got := placed["crit"]; len(placed) != 1 || got.Worker != "w" ||
			got.Decision.Reasoning != (rota.Reasoning{Rule: rota.ReasoningByPreemption, N: 1}) {
			b.t.Fatalf("placed %+v", placed)
		}
		if b.placement.holds.Len() != 0 || b.placement.registry.preempting != 0 {
			b.t.Fatal("the hold outlives the placement")
		}
	})
	run("says_that_the_worker_is_held", func(b *bench) {
		b.worker("w", 1)
		b.background("back", "w")
		b.submit("crit", priority(0))
		events := b.entry(roundOps(b)...).Events
		i := slices.IndexFunc(events, func(e rota.Event) bool { return e.Kind == rota.EventWorkerHeld })
		if i < 0 || events[i].Text != "PREEMPTED" || events[i].Payload != `{"revoked":1}` || events[i].Job != "crit" ||
			events[i].Worker != "w" || events[i].Epoch != b.Header.Epoch {
			b.t.Fatalf("events %+v", events)
		}
	})
	run("reaches_jobs_of_every_queue", func(b *bench) {
		b.ok(queueOp("other", "lease_ms", "3600000", "ack_timeout", "3600000"))
		b.worker("w", 1, func(w *rota.WorkerSpec) { w.Queues = append(w.Queues, "other") })
		b.background("back", "w", func(s *rota.JobSpec) { s.Queue = "other" })
		b.submit("crit", priority(0))
		b.wantsRevoked("back")
	})
	run("leaves_alone", func(b *bench) {
		b.worker("w", 3)
		b.background("lighter", "w", priority(8))
		b.background("critical", "w", priority(0))
		b.background("normal", "w", priority(5))
		b.submit("crit", priority(0))
		b.wantsRevoked() // no job of priority 9 or 10 runs
	})
	run("is_off_where_the_queue_says_so", func(b *bench) {
		b.worker("w", 1)
		b.background("back", "w")
		b.ok(queueOp("default", "preempt", "off"))
		b.submit("crit", priority(0))
		b.wantsRevoked()
		b.ok(queueOp("default", "preempt", "on", "paused", "on"))
		b.wantsRevoked()
		b.ok(queueOp("default", "paused", "off"))
		b.wantsRevoked("back")
	})
	run("serves_priority_0_only", func(b *bench) {
		b.worker("w", 1)
		b.background("back", "w")
		b.submit("high", priority(1))
		b.wantsRevoked()
	})
	run("only_where_nothing_but_room_is_wanting", func(b *bench) {
		b.worker("w", 1)
		b.background("back", "w")
		b.submit("crit", priority(0), func(s *rota.JobSpec) { s.Requires = []string{"gpu"} })
		b.wantsRevoked()
		b.ok(statusOp("w", rota.WorkerDraining, 0))
		b.submit("crit2", priority(0))
		b.wantsRevoked()
	})
	run("not_while_there_is_room_elsewhere", func(b *bench) {
		b.worker("w", 1)
		b.background("back", "w")
		b.worker("v", 1)
		b.submit("crit", priority(0))
		b.wantsRevoked()
		b.state("crit", rota.JobAssigned)
	})
	run("stops_after_preempt_max_times", func(b *bench) {
		b.worker("w", 1)
		for i := range 4 {
			l, placed := b.match()["back"]
			if i == 0 {
				l, placed = b.background("back", "w"), true
			}
			if !placed {
				b.t.Fatal("the background job was not placed")
			}
			crit := rota.JobID(fmt.Sprint("crit", i))
			b.submit(string(crit), priority(0))
			if i == 3 {
				b.wantsRevoked()
				return
			}
			b.wantsRevoked("back")
			b.ok(verb(rota.VerbDecline, l))
			b.ok(verb(rota.VerbComplete, b.match()[crit]))
			if j := b.state("back", rota.JobQueued); j.Preempted != int32(i+1) || j.Attempt != 0 {
				b.t.Fatalf("job %+v", j)
			}
		}
	})
	run("does_not_count_what_ended_well_after_all", func(b *bench) {
		b.worker("w", 1)
		l := b.background("back", "w")
		b.submit("crit", priority(0))
		b.wantsRevoked("back")
		b.ok(verb(rota.VerbComplete, l))
		if j := b.state("back", rota.JobCompleted); j.Preempted != 0 {
			b.t.Fatalf("job %+v", j)
		}
		if _, placed := b.match()["crit"]; !placed {
			b.t.Fatal("the room did not go to the critical job")
		}
	})
	run("ends_the_lease_at_its_deadline_if_nobody_confirms", func(b *bench) {
		b.ok(queueOp("default", "lease_ms", "20000", "ack_timeout", "5000"))
		b.worker("w", 1)
		b.background("back", "w")
		b.submit("crit", priority(0))
		b.wantsRevoked("back")
		b.pass(20_000)
		if j := b.state("back", rota.JobQueued); j.Preempted != 1 || j.Attempt != 0 {
			b.t.Fatalf("job %+v", j)
		}
		if _, placed := b.match()["crit"]; !placed {
			b.t.Fatal("the room did not go to the critical job")
		}
	})
}

func TestPreemptionIsCheckedAnew(t *testing.T) {
	t.Parallel()
	b := preemptBench(t)
	b.worker("w", 2)
	b.worker("v", 1)
	one := b.background("one", "w")
	two := b.background("two", "w")
	b.background("three", "v")
	b.submit("crit", priority(0))
	b.submit("high", priority(1))
	b.submit("needs", priority(0), func(s *rota.JobSpec) { s.Requires = []string{"gpu"} })
	b.submit("later", priority(0), func(s *rota.JobSpec) { s.Delay = time.Second })
	op := func(job, worker string, leases ...rota.Lease) *fsmpb.Op {
		p := &fsmpb.Preempt{Job: job, Worker: worker}
		for _, l := range leases {
			p.Leases = append(p.Leases, l.ID[:])
		}
		return opsOf([]*fsmpb.Round{{Epoch: b.Header.Epoch + 1, Queue: "default", Preempts: []*fsmpb.Preempt{p}}})[0]
	}
	drops := func(why string, o *fsmpb.Op) {
		t.Helper()
		events := b.entry(o).Events
		if len(events) != 1 || events[0].Kind != rota.EventAssignmentDropped || events[0].Text != why {
			t.Fatalf("events %+v, want %s", events, why)
		}
		if b.placement.holds.Len() != 0 {
			t.Fatalf("%s: a worker is held", why)
		}
	}
	drops("JOB_GONE", op("nobody", "w", one))
	drops("JOB_DELAYED", op("later", "w", one))
	drops("JOB_RUNNING", op("one", "w", two))
	drops("NOT_CRITICAL", op("high", "w", one))
	drops("NOT_ELIGIBLE", op("needs", "w", one))
	drops("NOT_ELIGIBLE", op("crit", "nobody", one))
	drops("NO_ROOM_TO_GAIN", op("crit", "v", one)) // a lease elsewhere makes no room here
	drops("NO_ROOM_TO_GAIN", op("crit", "w"))
	b.ok(queueOp("default", "preempt", "off"))
	drops("PREEMPTION_OFF", op("crit", "w", one))
	b.ok(queueOp("default", "preempt", "on", "paused", "on"))
	drops("QUEUE_PAUSED", op("crit", "w", one))
	b.ok(queueOp("default", "paused", "off", "preempt_max", "0"))
	drops("NO_ROOM_TO_GAIN", op("crit", "w", one))
	b.ok(queueOp("default", "preempt_max", "3"))

	var got []string
	for _, e := range b.entry(op("crit", "w", two, two, one)).Events { // one lease is enough
		got = append(got, fmt.Sprint(e.Kind, " ", e.Job))
	}
	if want := "leaseRevoked two,workerHeld crit"; strings.Join(got, ",") != want {
		t.Fatalf("events %v, want %s", got, want)
	}
	for why, o := range map[string]*fsmpb.Op{"HOLDS_A_WORKER": op("crit", "v")} {
		if e := b.entry(o).Events; len(e) != 1 || e[0].Text != why {
			t.Fatalf("events %+v", e)
		}
	}
	b.submit("crit2", priority(0))
	if e := b.entry(op("crit2", "w", one)).Events; len(e) != 1 || e[0].Text != "HELD_FOR_ANOTHER_JOB" {
		t.Fatalf("events %+v", e)
	}
	b.sound()
}

// TestPreemptionHoldEnds covers holds that end without their job's placement.
func TestPreemptionHoldEnds(t *testing.T) {
	t.Parallel()
	held := func(t *testing.T) *bench {
		b := preemptBench(t)
		b.every = 50
		b.worker("w", 1)
		b.worker("v", 1)
		b.background("back", "w")
		b.submit("busy", priority(5), func(s *rota.JobSpec) { s.Worker = "v" })
		b.match()
		b.submit("crit", priority(0))
		b.wantsRevoked("back")
		return b
	}
	t.Run("after_hold_max_and_does_not_move", func(t *testing.T) {
		t.Parallel()
		b := held(t)
		b.pass(600_000)
		events := b.entry(roundOps(b)...).Events
		i := slices.IndexFunc(events, func(e rota.Event) bool { return e.Kind == rota.EventWorkerHeld })
		if i < 0 || events[i].Text != "ENDED HOLD_MAX" || b.placement.holds.Len() != 0 {
			t.Fatalf("events %+v, %d holds", events, b.placement.holds.Len())
		}
		b.revoked() // and comes back, at the same worker, at no further cost
		if h := b.placement.holds.Get("crit"); h == nil || h.Worker != "w" || h.Revoked != 0 {
			t.Fatalf("hold %+v", h)
		}
	})
	t.Run("with_the_placement_elsewhere", func(t *testing.T) {
		t.Parallel()
		b := held(t)
		b.completeAll("busy")
		if l := b.match()["crit"]; l.Worker != "v" {
			t.Fatalf("lease %+v", l)
		}
		if b.placement.holds.Len() != 0 {
			t.Fatal("the worker is still held")
		}
	})
	t.Run("when_the_worker_drains", func(t *testing.T) {
		t.Parallel()
		b := held(t)
		b.ok(statusOp("w", rota.WorkerDraining, 0))
		if b.placement.holds.Len() != 0 {
			t.Fatal("the worker is still held")
		}
	})
}

// TestPreemptionOutlivesRestores restores the twin during preemptions.
func TestPreemptionOutlivesRestores(t *testing.T) {
	t.Parallel()
	b := preemptBench(t)
	for i := range 4 {
		b.worker(fmt.Sprint("w", i), 2, cpuWorker(4000))
	}
	chance := rand.New(rand.NewPCG(5, 6))
	for i := range 60 {
		b.twin = b.restored()
		b.submit(fmt.Sprint("back", i), priority(int32(8+chance.IntN(3))), cpuJob(500*chance.Int64N(6)))
		if i%3 == 0 {
			b.submit(fmt.Sprint("crit", i), priority(0), cpuJob(500*chance.Int64N(8)))
		}
		b.match()
		b.now += 10
		b.twin = b.restored()
		b.match()
		for _, w := range b.View.Workers() {
			for _, a := range b.View.Assignments(w.ID, w.Session) {
				if v := rota.VerbComplete; chance.IntN(3) == 0 {
					if a.Lease.Revoked != rota.ReasonNone {
						v = rota.VerbDecline
					}
					b.ok(verb(v, a.Lease))
				}
			}
		}
	}
	b.sound()
}

func TestPreemptionCountsALeaseOnce(t *testing.T) {
	t.Parallel()
	b := preemptBench(t)
	b.worker("w", 9, cpuWorker(2000))
	one := b.background("one", "w", cpuJob(1000))
	b.background("two", "w", cpuJob(1000))
	b.submit("crit", priority(0), cpuJob(2000))
	op := &fsmpb.Preempt{Job: "crit", Worker: "w", Leases: [][]byte{one.ID[:], one.ID[:]}}
	events := b.entry(opsOf([]*fsmpb.Round{{Epoch: b.Header.Epoch + 1, Queue: "default",
		Preempts: []*fsmpb.Preempt{op}}})...).Events
	if len(events) != 1 || events[0].Text != "NO_ROOM_TO_GAIN" {
		t.Fatalf("events %+v", events)
	}
	b.wantsRevoked("two", "one")
}
