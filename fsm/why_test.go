package fsm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/access"
)

// whyOf explains a job and lists its reasons as reason:workers.
func (b *bench) whyOf(id string) (rota.Explanation, string) {
	b.t.Helper()
	x, ok := b.View.Why(rota.JobID(id), 1_024)
	if !ok {
		b.t.Fatalf("job %s is not live", id)
	}
	var reasons []string
	for _, w := range x.Reasons {
		reasons = append(reasons, fmt.Sprintf("%s:%d", w.Reason, w.Workers))
	}
	return x, strings.Join(reasons, " ")
}

func TestWhy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		set  func(b *bench)
		want string
		if_  string
	}{
		{"nobody_serves_the_queue", func(b *bench) { b.submit("j") }, "NO_WORKER_REGISTERED:0",
			"a worker that serves its queue"},
		{"all_slots_are_taken", func(b *bench) {
			b.worker("w", 1)
			b.submit("first")
			b.match()
			b.submit("j")
		}, "NO_FREE_SLOT:1", "ends a lease"},
		{"each_worker_fails_by_its_own_rule", func(b *bench) {
			b.worker("w1", 1, func(w *rota.WorkerSpec) { w.Capabilities = []string{"gpu"}; w.Region = "us" })
			b.worker("w2", 1, func(w *rota.WorkerSpec) { w.Region = "eu" })
			b.worker("w3", 1, func(w *rota.WorkerSpec) { w.Region = "eu" })
			b.worker("w4", 1, func(w *rota.WorkerSpec) {
				w.Region, w.Capabilities, w.Queues = "eu", []string{"gpu"}, []rota.QueueName{"other"}
			})
			b.worker("w5", 1, func(w *rota.WorkerSpec) { w.Region, w.Capabilities = "eu", []string{"gpu"} })
			b.submit("j", func(s *rota.JobSpec) {
				s.Requires, s.RegionsAllow, s.CPUMilli = []string{"gpu"}, []string{"eu"}, 500
			})
		}, "REGION_DENIED:1 CAPABILITY_MISSING:2 CPU_FULL:4", "500 millicores or more"},
		{"the_tenant_is_at_its_limit", func(b *bench) {
			b.ok(tenantOp("acme", "max_concurrent", "1"))
			acme := func(s *rota.JobSpec) { s.Tenant = "acme" }
			b.leased("first", "w", acme)
			b.submit("j", acme)
		}, "TENANT_AT_LIMIT:0", "max_concurrent"},
		{"the_mode_holds", func(b *bench) {
			b.submit("j", func(s *rota.JobSpec) { s.Priority = 9 })
			b.ok(&fsmpb.Op{Op: &fsmpb.Op_SetMode{SetMode: &fsmpb.SetMode{Mode: uint32(rota.ModeDegraded),
				Reason: "test"}}})
			b.worker("w", 5)
		}, "MODE_HOLDS:0", "the mode becomes NORMAL"},
		{"others_stand_before_it", func(b *bench) {
			b.ok(queueOp("default", "ranking", "fifo"))
			b.submit("a")
			b.pass(100)
			b.submit("j")
			b.worker("w", 1)
		}, "BEHIND_HIGHER_RANK:0", "the jobs before it"},
		{"its_time_has_not_come", func(b *bench) {
			b.submit("j", func(s *rota.JobSpec) { s.Delay = 5 * time.Second })
		}, "NOT_YET_DUE:0", "its time comes"},
		{"the_only_worker_has_retired", func(b *bench) {
			b.worker("w", 1)
			b.ok(statusOp("w", rota.WorkerRetired, 0))
			b.submit("j")
		}, "NO_WORKER_REGISTERED:0", "rota worker run --queues default"},
		{"its_pinned_worker_has_retired", func(b *bench) {
			b.worker("w", 1)
			b.worker("v", 1)
			b.ok(statusOp("w", rota.WorkerRetired, 0))
			b.submit("j", func(s *rota.JobSpec) { s.Worker = "w" })
		}, "NOT_THE_PINNED_WORKER:1", "rota worker run --id w --queues default"},
		{"who_has_retired_is_not_counted", func(b *bench) {
			for _, id := range []string{"gone1", "gone2", "w"} {
				b.worker(id, 1)
			}
			b.ok(statusOp("gone1", rota.WorkerRetired, 0))
			b.ok(statusOp("gone2", rota.WorkerRetired, 0))
			b.ok(statusOp("w", rota.WorkerDraining, 0))
			b.submit("j")
		}, "NOT_ACTIVE:1", "a worker becomes ACTIVE again"},
		{"nothing_keeps_it", func(b *bench) {
			b.submit("j")
			b.worker("w", 1)
		}, "", "the next round"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			c.set(b)
			before := b.View.Digest()
			x, got := b.whyOf("j")
			if got != c.want {
				t.Errorf("reasons: got %q, want %q", got, c.want)
			}
			if !slices.ContainsFunc(x.WouldRun, func(s string) bool { return strings.Contains(s, c.if_) }) {
				t.Errorf("would run if: got %q, want %q", x.WouldRun, c.if_)
			}
			if b.View.Digest() != before {
				t.Error("an explanation changed the state")
			}
			b.sound()
		})
	}
}

// TestWhyWorkers checks the names of the workers that a reason counts, their statuses other than ACTIVE, and that no
// retired worker is among those not chosen.
func TestWhyWorkers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, id := range []string{"w1", "w2", "w3", "gone", "w4", "w5"} {
		b.worker(id, 1)
	}
	b.ok(statusOp("gone", rota.WorkerRetired, 0))
	b.submit("first")
	b.sound()
	others, ok := b.Reenact("first", nil, 10)
	if !ok || slices.ContainsFunc(others, func(o rota.OtherWorker) bool { return o.Worker == "gone" }) ||
		len(others) != 4 {
		t.Errorf("not chosen: %v", others)
	}
	for _, id := range []string{"w1", "w2", "w3", "w4"} {
		b.ok(statusOp(id, rota.WorkerDraining, 0))
	}
	b.ok(statusOp("w5", rota.WorkerSuspended, 0))
	x, got := b.whyOf("first")
	if got != "NOT_ACTIVE:5" || fmt.Sprint(x.Reasons[0].WorkerIDs) != "[w1 w2 w3 w4 w5]" ||
		x.Reasons[0].Detail != "worker w1 is DRAINING, worker w2 is DRAINING, worker w3 is DRAINING, 2 more are not ACTIVE" {
		t.Errorf("%s, %+v", got, x.Reasons)
	}
	for _, id := range []string{"w1", "w2", "w3", "w4", "w5"} {
		b.ok(statusOp(id, rota.WorkerRetired, 0))
	}
	if x, got = b.whyOf("first"); got != "NO_WORKER_REGISTERED:0" ||
		x.Reasons[0].Detail != "no worker is there, for any queue" {
		t.Errorf("with all retired: %s, %+v", got, x.Reasons)
	}
	b.sound()
}

// TestWhyNoHold checks that no hold is suggested if none is granted: no end of a lease returns units, so no worker is
// held for them.
func TestWhyNoHold(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(queueOp("default", "units_per_period", "10"))
	b.worker("w", 2)
	b.submit("a", func(s *rota.JobSpec) { s.Units = 10 })
	b.match()
	b.submit("j")
	for _, ms := range []rota.Clock{10_000, 30_000} { // before hold_after and after
		b.pass(ms)
		x, got := b.whyOf("j")
		if got != "UNITS_EXHAUSTED:1" || strings.Contains(strings.Join(x.WouldRun, "\n"), "kept for it") {
			t.Errorf("waits for %q, would run if %q", got, x.WouldRun)
		}
		b.match()
	}
	if b.placement.holds.Len() != 0 {
		t.Fatal("a worker without units is kept")
	}
}

// TestWhyHold follows a wide job that narrow ones would pass: the explanation names the time from which a worker will
// be held for it, the worker, and why the narrow ones wait.
func TestWhyHold(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(queueOp("default", "oldest_every", "0", "lease_ms", "3600000", "ack_timeout", "3600000"))
	b.worker("w", 9, cpuWorker(4000))
	b.submit("first", cpuJob(2000))
	b.match()
	b.submit("wide", cpuJob(4000))
	says := func(job, reasons, text string) {
		t.Helper()
		x, got := b.whyOf(job)
		if got != reasons {
			t.Errorf("%s waits for %q, want %q", job, got, reasons)
		}
		all := strings.Join(x.WouldRun, "\n")
		for _, r := range x.Reasons {
			all += "\n" + r.Detail
		}
		if !strings.Contains(all, text) || text == "" && strings.Contains(all, "kept") {
			t.Errorf("%s: the explanation is\n%s\nwant %q", job, all, text)
		}
	}
	b.pass(10_000)
	says("wide", "CPU_FULL:1", fmt.Sprintf("one is from %s on, in 20000 ms (hold_after), if fewer than 1 are kept",
		b.Header.Now().At(b.now+20_000).Date))
	b.pass(20_000)
	b.match()
	says("wide", "CPU_FULL:1", "worker w, kept for this job for 0 ms now, has room")
	b.submit("narrow", cpuJob(1000))
	b.submit("other", cpuJob(3000), func(s *rota.JobSpec) { s.Priority = 0 })
	says("narrow", "HELD_FOR_ANOTHER_JOB:1", "worker w is kept for job wide")
	if len(b.match()) != 0 {
		t.Fatal("a worker that is held got another job")
	}
	b.pass(31_000)
	says("other", "CPU_FULL:1 HELD_FOR_ANOTHER_JOB:1", "one is as soon as fewer than 1 are kept")
	b.submit("never", cpuJob(9000))
	says("never", "CPU_FULL:1 HELD_FOR_ANOTHER_JOB:1", "registers that has 9000 millicores")
	b.completeAll("first")
	b.match()
	says("wide", "", "")
	b.sound()
}

// TestWhyRank compares the rank with the order in which jobs are placed.
func TestWhyRank(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(queueOp("default", "fair_share", "off", "oldest_every", "0"))
	b.worker("w", 1)
	for i := range 30 {
		b.submit(fmt.Sprint("j", i), func(s *rota.JobSpec) {
			s.Priority, s.Tenant = int32(i*7%11), rota.TenantID(fmt.Sprint("t", i%3))
		})
		b.pass(700)
	}
	// Keys of this ranking never change: jobs are placed in their present order.
	stand := b.queuedJobs()
	place := func(id rota.JobID) int64 {
		x, _ := b.whyOf(string(id))
		if x.Rank != x.Before {
			t.Fatalf("%s has rank %d, and %d before it", id, x.Rank, x.Before)
		}
		return x.Before
	}
	slices.SortFunc(stand, func(x, y rota.JobID) int { return cmp.Compare(place(x), place(y)) })
	for len(stand) > 0 {
		for i, id := range stand {
			if at := place(id); at != int64(i) {
				t.Fatalf("%s is reported at position %d of %d, want %d", id, at, len(stand), i)
			}
		}
		next := stand[0]
		placed := b.match()
		if len(placed) != 1 || placed[next].Job != next {
			t.Fatalf("%v was placed, %s was first", placed, next)
		}
		b.completeAll(next)
		stand = stand[1:]
	}
}

func (b *bench) queuedJobs() (ids []rota.JobID) {
	b.JobTable.Scan(func(id rota.JobID, j *state.JobRow) bool {
		if j.State == rota.JobQueued {
			ids = append(ids, id)
		}
		return true
	})
	return ids
}

// TestReenact repeats the decision on the state that a placement was decided on.
func TestReenact(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.worker("busy", 1)
	b.submit("first")
	b.match()
	b.worker("cold", 1, func(w *rota.WorkerSpec) { w.Region = "eu" })
	b.worker("x", 2)
	b.worker("y", 2)
	b.submit("j", func(s *rota.JobSpec) { s.RegionsDeny = []string{"eu"} })
	others, ok := b.Reenact("j", nil, 1_024)
	lease := b.match()["j"]
	if !ok || len(others) != 3 {
		t.Fatalf("%v, %v", others, ok)
	}
	for _, o := range others {
		want := map[rota.WorkerID]string{"busy": "NO_FREE_SLOT", "cold": "REGION_DENIED", "x": "had room",
			"y": "had room"}[o.Worker]
		if !strings.HasPrefix(o.Reason, want) || o.Worker == lease.Worker {
			t.Errorf("%s: got %q, want %q; %s was chosen", o.Worker, o.Reason, want, lease.Worker)
		}
	}
	if _, ok := b.Reenact("nobody", nil, 1_024); ok {
		t.Error("an unknown job was placed")
	}
}

// BenchmarkWhy explains the last of a million pending jobs that 1,000 workers
// could take.
func BenchmarkWhy(b *testing.B) {
	m := fill(b, 1_000_000)
	var last rota.JobID
	m.JobTable.Scan(func(id rota.JobID, _ *state.JobRow) bool { last = id; return true })
	for b.Loop() {
		if _, ok := m.View.Why(last, 1_024); !ok {
			b.Fatal("not live")
		}
	}
}

func TestDispatchMs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(queueOp("slow", "dispatch_interval", "5s"))
	b.ok(queueOp("fast", "dispatch_interval", "20ms"))
	if ms := b.View.DispatchMs(); ms != 0 {
		t.Fatalf("%d ms without pending jobs", ms)
	}
	for _, c := range []struct {
		queue rota.QueueName
		want  int64
	}{{"slow", 5_000}, {"default", 250}, {"fast", 20}} {
		b.submit("j-"+string(c.queue), func(s *rota.JobSpec) { s.Queue = c.queue })
		if ms := b.View.DispatchMs(); ms != c.want {
			t.Fatalf("%d ms once %s waits, want %d", ms, c.queue, c.want)
		}
	}
}

// TestWhy_ofADeclinedJob checks that tries are counted from 1, and that a job whose time has passed is reported as due,
// not with a negative time.
func TestWhy_ofADeclinedJob(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	l := b.leased("j", "w")
	b.ok(verb(rota.VerbDecline, l))
	b.whyNames("j", "BACKING_OFF", "try 1 was declined 1 times; due at ")
	b.whyNames("j", "BACKING_OFF", ", in 100 ms")
	b.now += 100
	b.submit("another") // the clock passes, without a sweep
	b.whyNames("j", "BACKING_OFF", ", the next sweep takes it")
	b.ok(sweepOp())
	l = b.match()["j"]
	b.ok(verb(rota.VerbDecline, l))
	b.whyNames("j", "BACKING_OFF", "try 1 was declined 2 times; due at ")
}

// TestWhy_score compares the score of a pending job with the score in its decision. Readers of a part of the queue get
// none, because other tenants' jobs may have changed it.
func TestWhy_score(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(queueOp("default", "ranking", "fifo"))
	b.submit("j")
	b.pass(7_000)
	x, _ := b.whyOf("j")
	if x.Score == nil || *x.Score != 7_000 {
		t.Fatalf("after 7 s the score is %v", x.Score)
	}
	narrow := access.ReaderOf([]rota.Grant{{Right: rota.RightRead, Tenant: string(rota.DefaultTenant),
		Queue: access.Everything}})
	if x, ok := b.View.WhyFor("j", 1_024, narrow); !ok || x.Score != nil {
		t.Errorf("a reader of one tenant gets %+v, %v", x, ok)
	}
	b.worker("w", 1)
	b.match()
	if x, _ = b.whyOf("j"); x.Score != nil || x.Decision.Score != 7_000 {
		t.Errorf("once it is assigned: %v, and its decision %v", x.Score, x.Decision.Score)
	}
}
