package fsm

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
)

func expecting(milli int64, d time.Duration) func(*rota.JobSpec) {
	return func(s *rota.JobSpec) { s.CPUMilli, s.Expected = milli, d }
}

// batchBench has a worker of four processors and a queue that backfills.
func batchBench(t *testing.T, settings ...string) *bench {
	b := newBench(t)
	b.ok(switchOp(entry.RulesVersion))
	b.ok(queueOp("default", append([]string{"ranking", "fifo", "backfill", "easy", "estimate", "user", "fair_share",
		"off", "oldest_every", "0", "lease_ms", "3600000", "ack_timeout", "3600000"}, settings...)...))
	b.worker("w", 100, cpuWorker(4000))
	return b
}

// TestBackfill checks that jobs that do not delay it pass the first job without room, and that explanations report it.
func TestBackfill(t *testing.T) {
	t.Parallel()
	b := batchBench(t)
	b.submit("runs", expecting(3000, time.Minute))
	b.match()
	b.submit("wide", expecting(4000, time.Second))
	b.submit("long", expecting(1000, 2*time.Minute))
	b.submit("short", expecting(1000, 30*time.Second))
	until := b.Header.Now().At(b.Header.Clock + 60_000).Date
	x, reasons := b.whyOf("long")
	if reasons != "HELD_FOR_ANOTHER_JOB:1" || !strings.Contains(x.Reasons[0].Detail,
		fmt.Sprintf("worker w is kept for job wide from %s on", until)) {
		t.Errorf("long: %s: %+v", reasons, x)
	}
	x, reasons = b.whyOf("wide")
	if reasons != "CPU_FULL:1" || !strings.Contains(strings.Join(x.WouldRun, "\n"),
		fmt.Sprintf("worker w has room, which is kept for this job: from %s on, in 60000 ms", until)) {
		t.Errorf("wide: %s: %q", reasons, x.WouldRun)
	}
	if x, reasons = b.whyOf("short"); reasons != "" || !strings.Contains(x.WouldRun[0], "the next round applies") {
		t.Errorf("short: %s: %q", reasons, x.WouldRun)
	}
	rounds := b.View.Decide(100)
	if kept := rounds[0].GetReserved(); len(kept) != 1 || kept[0].GetJob() != "wide" || kept[0].GetWorker() != "w" ||
		kept[0].GetUntilMs() != int64(until) {
		t.Errorf("the round reserves %v", kept)
	}
	leases := b.match()
	if len(leases) != 1 || leases["short"].Decision.Reasoning != (rota.Reasoning{Rule: rota.ReasoningBackfilled,
		N: int64(until), Of: 30_000}) {
		t.Errorf("%+v start", leases)
	}
	b.ok(queueOp("default", "backfill", "none"))
	b.ok(verb(rota.VerbComplete, leases["short"]))
	if x, reasons = b.whyOf("long"); reasons != "BEHIND_HIGHER_RANK:0" ||
		!strings.HasPrefix(x.Reasons[0].Detail, "backfill=none") {
		t.Errorf("long: %s: %+v", reasons, x.Reasons)
	}
	if leases := b.match(); len(leases) != 0 {
		t.Errorf("%v start before the first", leases)
	}
	b.ok(queueOp("default", "backfill", "free"))
	if leases := b.match(); len(leases) != 1 {
		t.Errorf("%v start where any job may", leases)
	}
	b.sound()
}

// TestBackfill_conservative checks that room is reserved for each pending job, and that explanations name the jobs, the
// times, and the reservations that a job would delay.
func TestBackfill_conservative(t *testing.T) {
	t.Parallel()
	b := batchBench(t, "backfill", "conservative")
	b.submit("runs", expecting(3000, time.Minute))
	b.match()
	b.submit("wide", expecting(4000, time.Minute))
	b.submit("second", expecting(1000, 90*time.Second)) // from 0 on it would delay the first
	b.submit("third", expecting(3000, time.Minute))     // next to the second
	b.submit("late", expecting(1000, 60*time.Second))   // could start now, until the first does
	b.submit("last", expecting(1000, 3*time.Minute))
	until := func(s int64) rota.Date { return b.Header.Now().At(b.Header.Clock + rota.Clock(s*1000)).Date }
	for _, c := range []struct{ job, would, reasons, detail string }{
		{"wide", fmt.Sprintf("kept for this job: from %s on, in 60000 ms", until(60)), "CPU_FULL:1", ""},
		{"second", fmt.Sprintf("kept for this job: from %s on, in 120000 ms", until(120)), "HELD_FOR_ANOTHER_JOB:1",
			fmt.Sprintf("kept for job wide from %s on", until(60))},
		{"third", fmt.Sprintf("kept for this job: from %s on, in 120000 ms", until(120)), "CPU_FULL:1", ""},
		{"late", "the next round applies", "", ""},
		{"last", fmt.Sprintf("kept for this job: from %s on, in 180000 ms", until(180)), "HELD_FOR_ANOTHER_JOB:1",
			fmt.Sprintf("kept for job wide from %s on", until(60))},
	} {
		x, reasons := b.whyOf(c.job)
		if reasons != c.reasons || !strings.Contains(strings.Join(x.WouldRun, "\n"), c.would) || c.detail != "" &&
			!strings.Contains(x.Reasons[0].Detail+x.Reasons[len(x.Reasons)-1].Detail, c.detail) {
			t.Errorf("%s: %s: %+v", c.job, reasons, x)
		}
	}
	rounds := b.View.Decide(100)
	if kept := rounds[0].GetReserved(); len(kept) != 1 || kept[0].GetJob() != "wide" {
		t.Errorf("the round reserves %v", kept)
	}
	date := until(60)
	leases := b.match()
	if len(leases) != 1 || leases["late"].Decision.Reasoning != (rota.Reasoning{Rule: rota.ReasoningBackfilled,
		N: int64(date), Of: 60_000}) {
		t.Errorf("%+v start", leases)
	}
	b.ok(verb(rota.VerbComplete, leases["late"]))
	b.ok(queueOp("default", "backfill_depth", "2"))
	if x, reasons := b.whyOf("last"); reasons != "BEHIND_HIGHER_RANK:0" ||
		!strings.Contains(x.Reasons[0].Detail, "backfill_depth") {
		t.Errorf("last: %s: %+v", reasons, x.Reasons)
	}
	b.sound()
}

// TestBackfill_estimates changes the inputs of estimates while jobs run and wait: indexes follow.
func TestBackfill_estimates(t *testing.T) {
	t.Parallel()
	b := batchBench(t, "ranking", "shortest", "shortest_aging", "0")
	b.submit("runs", expecting(3000, time.Minute))
	b.match()
	b.submit("wide", expecting(4000, time.Second))
	b.submit("other", expecting(4000, 2*time.Second), ofType("other"))
	first := func() string {
		b.sound()
		_, draft := b.View.decide(100, "", nil)
		kept := draft.Reservations()
		return fmt.Sprint(kept[0].Item.ID, " ", kept[0].Until-b.Header.Clock)
	}
	for _, c := range []struct {
		set  []string
		want string
	}{
		{nil, "wide 60000"},
		{[]string{"estimate", "type"}, fmt.Sprint("wide ",
			int64(rota.MaxDuration/time.Millisecond))}, // no estimates: by submission
		{[]string{"expected.other", "5s"}, fmt.Sprint("other ", int64(rota.MaxDuration/time.Millisecond))},
		{[]string{"expected.work", "4s"}, "wide 4000"},
		{[]string{"max_runtime", "3s"}, "wide 3000"}, // of both; the running job keeps its own, which was none
		{[]string{"estimate", "user"}, "wide 3000"},
	} {
		if c.set != nil {
			b.ok(queueOp("default", c.set...))
		}
		if got := first(); got != c.want {
			t.Errorf("%v: kept for %s, want %s", c.set, got, c.want)
		}
	}
}

// TestBackfill_timeout checks that a running job should end when its attempt times out, though its estimate has been
// raised since.
func TestBackfill_timeout(t *testing.T) {
	t.Parallel()
	b := batchBench(t, "max_runtime", "3s")
	b.submit("runs", expecting(3000, time.Minute))
	b.match()
	b.ok(queueOp("default", "max_runtime", "1h"))
	b.submit("wide", expecting(4000, time.Second))
	_, draft := b.View.decide(100, "", nil)
	if kept := draft.Reservations(); len(kept) != 1 || kept[0].Until != b.Header.Clock+3000 {
		t.Errorf("reserved is %+v, want until %d", kept, b.Header.Clock+3000)
	}
	b.sound()
}

// TestBackfill_holds checks that a queue that begins to backfill gives up its holds and makes none, whatever the bound.
func TestBackfill_holds(t *testing.T) {
	t.Parallel()
	b := batchBench(t, "backfill", "free", "hold_after", "1s")
	for i := range 23 { // an eighth of 24 workers may be held
		b.worker(fmt.Sprint("v", i), 100, cpuWorker(4000))
	}
	for i := range 24 {
		b.submit(fmt.Sprint("runs", i), expecting(3000, time.Hour))
	}
	b.match()
	for i := range 4 {
		b.submit(fmt.Sprint("wide", i), expecting(4000, time.Second))
	}
	b.pass(1000)
	b.match()
	if n := len(b.placement.held()); n != 3 {
		t.Fatalf("%d workers are held, want 3", n)
	}
	b.ok(queueOp("default", "backfill", "easy"))
	if n := len(b.placement.held()); n != 0 {
		t.Errorf("%d holds are left", n)
	}
	b.pass(1000)
	for _, r := range b.View.Decide(100) {
		if len(r.GetHolds()) > 0 {
			t.Errorf("it holds %v", r.GetHolds())
		}
	}
	b.sound()
}

// busyFor keeps the worker's processors busy with jobs that run for 4 s each, one of which comes every second. It
// returns after how many ms a job was placed that comes then, 0 if not within most.
func busyFor(b *bench, most rota.Clock, narrow, late func(*rota.JobSpec)) rota.Clock {
	b.t.Helper()
	b.every = 25
	var running []rota.Lease
	n := 0
	one := func() {
		n++
		b.submit(fmt.Sprint("narrow", n), narrow)
	}
	for range 4 {
		one()
		running = append(running, inOrder(b.match())...)
		b.pass(1000)
	}
	b.submit("late", late)
	start := b.now
	for b.now < start+most {
		one()
		b.ok(verb(rota.VerbComplete, running[0]))
		running = running[1:]
		for _, l := range inOrder(b.match()) {
			if l.Job == "late" {
				return b.now - start
			}
			running = append(running, l)
		}
		if b.pass(1000); len(running) == 0 {
			b.t.Fatal("no job runs, and none starts")
		}
	}
	return 0
}

// TestBackfill_bound checks the bounds on waiting of SPEC §26.4: for a wide job that narrow ones could pass forever,
// with estimates that hold and with far too short ones, and for a long job that shorter ones precede. Without
// reservation and aging they starve.
func TestBackfill_bound(t *testing.T) {
	t.Parallel()
	const lease, step = 4_000, 1_000 // L, and δ at most
	for _, c := range []struct {
		name         string
		settings     []string
		narrow, late func(*rota.JobSpec)
		bound        rota.Clock // 0: it starves
	}{
		{"estimates that hold", nil, expecting(1000, lease*time.Millisecond), expecting(4000, time.Hour), lease + step},
		{"estimates that are too short", nil, expecting(1000, time.Second), expecting(4000, time.Hour), 2*lease + step},
		{"no estimates", []string{"max_runtime", "5s"}, expecting(1000, 0), expecting(4000, 0), 5_000 + step},
		{"nothing behind it starts", []string{"backfill", "none"}, expecting(1000, time.Second),
			expecting(4000, time.Hour), lease + step},
		{"room is kept for all", []string{"backfill", "conservative"}, expecting(1000, time.Second),
			expecting(4000, time.Hour), 2*lease + step},
		{"whatever fits", []string{"backfill", "free", "hold_after", "24h"}, expecting(1000, time.Second),
			expecting(4000, time.Hour), 0},
		// The jobs that come within shortest_aging times its estimate precede it, 5 × 8 s, one a second, and those at
		// the end are four.
		{"a long one ages", []string{"ranking", "shortest", "shortest_aging", "5"}, expecting(2000, time.Second),
			expecting(2000, 8*time.Second),
			5*8_000 + (40/2+1)*(lease+step)},
		{"a long one does not age", []string{"ranking", "shortest", "shortest_aging", "0"},
			expecting(2000, time.Second), expecting(2000, 8*time.Second), 0},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			b := batchBench(t, c.settings...)
			most := c.bound
			if most == 0 {
				most = 200_000
			}
			after := busyFor(b, most, c.narrow, c.late)
			if (after == 0) != (c.bound == 0) {
				t.Fatalf("it was placed after %d ms, the bound is %d", after, c.bound)
			}
			t.Logf("placed after %d ms, bound %d", after, c.bound)
		})
	}
}

// TestBackfill_keeps runs random loads whose estimates hold, on workers of several sizes and in two queues: once room
// is reserved for a job until a date, and while no other job precedes it, it starts by then.
func TestBackfill_keeps(t *testing.T) {
	t.Parallel()
	long(t)
	kept := 0
	for seed := range uint64(20) {
		d := rand.New(rand.NewPCG(seed, 67))
		b := batchBench(t, "backfill_order", []string{"rank", "shortest"}[d.IntN(2)])
		b.every = 1 << 20
		b.ok(queueOp("other", "ranking", "fifo", "estimate", "user", "fair_share", "off", "oldest_every", "0",
			"hold_after", "24h", "lease_ms", "3600000", "ack_timeout", "3600000"))
		for i := range 1 + d.IntN(3) {
			b.worker(fmt.Sprint("v", i), int32(1+d.IntN(4)), cpuWorker(1000*int64(2+d.IntN(5))),
				func(w *rota.WorkerSpec) { w.Queues = []rota.QueueName{"default", "other"} })
		}
		ends := make(map[rota.JobID]rota.Clock)
		due := make(map[rota.JobID]rota.Clock)
		expected := make(map[rota.JobID]time.Duration)
		running := make(map[rota.JobID]rota.Lease)
		for step := range 150 {
			b.pass(250)
			for _, l := range inOrder(running) {
				if ends[l.Job] <= b.now {
					b.entry(verb(rota.VerbComplete, l))
					delete(running, l.Job)
				}
			}
			if d.IntN(2) == 0 {
				id := rota.JobID(fmt.Sprint("j", step))
				expected[id] = time.Duration(1+d.IntN(20)) * 250 * time.Millisecond
				b.submit(string(id), expecting(1000*int64(1+d.IntN(4)), expected[id]), func(s *rota.JobSpec) {
					s.Queue = []rota.QueueName{"default", "default", "other"}[d.IntN(3)]
				})
			}
			for len(b.View.Decide(1000)) > 0 {
				for id, l := range b.match() {
					ends[id], running[id] = b.Header.Clock+rota.Clock(expected[id].Milliseconds()), l
				}
			}
			_, draft := b.View.decide(1000, "", nil)
			for _, r := range draft.Reservations() {
				if at, ok := due[r.Item.ID]; !ok {
					due[r.Item.ID] = r.Until
					kept++
				} else if r.Until > at {
					t.Fatalf("seed %d: room for job %s was kept from %d on, and now from %d", seed, r.Item.ID, at,
						r.Until)
				}
			}
		}
		b.sound()
	}
	if kept < 100 {
		t.Errorf("room was kept for %d jobs: too few for this test", kept)
	}
}
