package foresight

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/flowfile"
)

// openLog reads a log.
func openLog(t *testing.T, path string) *flowfile.SWFLog {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	log, err := flowfile.ReadSWF(f, 0)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func policy(t testing.TB, text string) Policy {
	t.Helper()
	p, err := ParsePolicy(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// job makes a job for the tests below; times are in seconds.
func job(submit, run, estimate, procs int64) Job {
	return Job{Submit: seconds(submit), Run: seconds(run), Estimate: seconds(estimate), CPUMilli: procs * 1000}
}

// startsOf simulates, and returns when jobs started, in seconds, -1 if they did not.
func startsOf(t *testing.T, l *Life) (starts []float64) {
	t.Helper()
	fates, err := Simulate(context.Background(), l)
	if err != nil {
		t.Fatal(err)
	}
	for i := range fates {
		if fates[i].Start < 0 {
			starts = append(starts, -1)
		} else {
			starts = append(starts, inS(fates[i].Start))
		}
	}
	return starts
}

// TestRun compares a window of the log with an independent computation, to the last digit: in the order of submission,
// every job that fits starts.
func TestRun(t *testing.T) {
	jobs, _ := Clean(openLog(t, "testdata/lublin_256_1981.swf.gz"), CleanRLS)
	plan := &Plan{Jobs: jobs, Workers: Machine(256), Policies: []Policy{policy(t, "fifo:ranking=fifo")}}
	got, err := Run(context.Background(), plan)
	if err != nil {
		t.Fatal(err)
	}
	const want, wait, longest = 296.97097780874753, 16891.7734375, 458844
	if r := &got[0]; math.Abs(r.BoundedSlowdown-want) > 1e-9 || math.Abs(r.WaitMeanS-wait) > 1e-9 ||
		r.WaitMaxS != longest || r.Jobs != 1024 {
		t.Errorf("%d jobs, slowdown %.10f, wait %.10f, at most %f", r.Jobs, r.BoundedSlowdown, r.WaitMeanS, r.WaitMaxS)
	}
	plan.Starts, plan.Length = []int{1}, 1024
	if _, err := Run(context.Background(), plan); err == nil {
		t.Error("a window beyond the log is accepted")
	}
	if _, err := Run(context.Background(), &Plan{Workers: Machine(1), Policies: plan.Policies}); err == nil {
		t.Error("a log without jobs is accepted")
	}
}

// TestSimulate_repeats runs the same jobs twice.
func TestSimulate_repeats(t *testing.T) {
	jobs, _ := Clean(openLog(t, "testdata/lublin_256_1981.swf.gz"), CleanRLS)
	l := &Life{Jobs: jobs[:300], Workers: Machine(256), Settings: policy(t, "c:preset=standard").Settings}
	first, err := Simulate(context.Background(), l)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Simulate(context.Background(), l)
	if err != nil || !slices.Equal(first, again) {
		t.Fatalf("the second run differs: %v", err)
	}
}

func prioritised(j Job, priority int32) Job {
	spec := rota.NewJobSpec("ranked", nil)
	spec.Priority = priority
	j.Spec = &spec
	return j
}

// TestRun_windows compares figures of two windows on two workers with those computed by hand. In the first window jobs
// start at 0, 5 and 10, when the third has waited for 4 s; it ends at 30, and 160 of 300 processor-seconds were used.
// In the second two run from 100 to 130, 240 of 300, and the third expires at 141, before it has ended.
func TestRun_windows(t *testing.T) {
	jobs := []Job{job(0, 10, 10, 4), job(5, 10, 10, 4), job(6, 20, 20, 4), job(100, 30, 30, 4), job(100, 30, 30, 4),
		job(101, 30, 30, 4)}
	jobs[0].Tenant, jobs[3].Tenant = "t", "t"
	workers := []rota.WorkerSpec{{ID: "a", Slots: 1, CPUMilli: 4000}, {ID: "b", Slots: 1, CPUMilli: 6000}}
	got, err := Run(context.Background(), &Plan{Jobs: jobs, Workers: workers,
		Policies: []Policy{policy(t, "p:ttl_abs=40s")}, Starts: []int{0, 3}, Length: 3})
	if err != nil {
		t.Fatal(err)
	}
	const first = (1 + 1 + 24.0/20) / 3 // the mean slowdown of the first window, and of the jobs not of t
	want := Result{Name: "p", Jobs: 6, Expired: 1, BoundedSlowdown: (first + 1) / 2, SlowdownP95: (1.2 + 1) / 2,
		WaitMeanS: 4.0 / 3 / 2, WaitP95S: 4.0 / 2, WaitP99S: 4.0 / 2,
		WaitMaxS: 4, Unbounded: "backfill=free: whatever fits may start before a job that does not",
		Utilisation: (160.0/300 + 240.0/300) / 2, MakespanS: 30, ThroughputPerDay: (3.0 + 2) / 2 / 30 * 86_400,
		Fairness: (first + 1) * (first + 1) / 2 / (first*first + 1),
		Tenants:  []Group{{"default", 3, first, 4.0 / 3, 4, 4, 240.0 / 3600}, {"t", 2, 1, 0, 0, 0, 160.0 / 3600}},
		Sizes:    []Group{{"small", 5, (4 + 1.2) / 5, 4.0 / 5, 4, 4, 400.0 / 3600}}}
	if g, w := fmt.Sprintf("%.9v", got[0]), fmt.Sprintf("%.9v", want); g != w {
		t.Errorf("\n%s, want\n%s", g, w)
	}
}

// TestSimulate_small has schedules that are computed by hand from SPEC §7.8, on 10 processors.
func TestSimulate_small(t *testing.T) {
	// A runs on 5 processors from 0 to 100. B, of all 10, arrives at 1. C, of 5, runs for 99 s, D, of 5, for 50 s.
	a, b, d := job(0, 100, 100, 5), job(1, 50, 50, 10), job(3, 50, 50, 5)
	for _, test := range []struct {
		name, policy string
		jobs         []Job
		want         []float64
	}{
		{
			// C fits next to A at 2, D at 100 next to C. They end at 101 and 150: B starts then.
			name: "whatever fits starts", policy: "p:ranking=fifo",
			jobs: []Job{a, b, job(2, 99, 99, 5), d}, want: []float64{0, 150, 2, 100},
		}, {
			// At 2, B has waited for hold_after. But C arrives at 2, too: the round that places it goes first, and the
			// hold follows it in the entry of rounds, as there is still no room for B. From then on "no other job goes
			// there". A ends at 100, and leaves 5 processors that D may not have; C ends at 101, and B starts, because
			// "a hold ends with placement". B ends at 151: D starts.
			name: "a job and a hold of one moment", policy: "p:ranking=fifo,hold_after=1s",
			jobs: []Job{a, b, job(2, 99, 99, 5), d}, want: []float64{0, 101, 2, 151},
		}, {
			// The only event at 2 is the leader's tick, which grants the hold. C arrives at 3 and may not start. A ends
			// at 100: B runs from 100 to 150, then C and D side by side.
			name: "a hold between two events", policy: "p:ranking=fifo,hold_after=1s",
			jobs: []Job{a, b, job(3, 99, 99, 5), d}, want: []float64{0, 100, 150, 150},
		}, {
			// B's hold of 2 is over at 62. It could move to no other worker, so it ends, and B has to wait for
			// hold_after again. C, pending since 3, starts; D finds no room then, and has waited long enough: now D
			// holds the worker. A ends at 100: D starts, and B, pending since 62, has the next hold, until 160. D ends
			// at 150, C at 161: B starts.
			name: "a hold that is over", policy: "p:ranking=fifo,hold_after=1s,hold_max=60s",
			jobs: []Job{a, b, job(3, 99, 99, 5), d}, want: []float64{0, 161, 62, 100},
		}, {
			// Ticks are 700 ms apart after the decision at 1: 1.7, 2.4, …; the one at 2.4 is the first at which B has
			// waited for 1 s. C, at 2.3 s, arrives before it and starts.
			name: "the tick's interval", policy: "p:ranking=fifo,hold_after=1s,dispatch_interval=700ms",
			jobs: []Job{a, b, {Submit: 2300, Run: 99_000, Estimate: 99_000, CPUMilli: 5000}},
			want: []float64{0, 101.3, 2.3},
		}, {
			// As before, but C arrives at 2.5 s, when B has held the worker since 2.4.
			name: "after the tick", policy: "p:ranking=fifo,hold_after=1s,dispatch_interval=700ms",
			jobs: []Job{a, b, {Submit: 2500, Run: 99_000, Estimate: 99_000, CPUMilli: 5000}},
			want: []float64{0, 100, 150},
		}, {
			// B may live for 150 s from its submission at 1, in which there is never room for it: it expires. The last
			// job needs all processors, too, and starts as the third ends.
			name: "a time to live", policy: "p:ranking=fifo,ttl_abs=150s",
			jobs: []Job{a, b, job(50, 140, 140, 5), job(152, 50, 50, 10)}, want: []float64{0, -1, 50, 190},
		}, {
			// Both of the first two end at 100 and were expected to run longer. The first, which started first, leaves
			// room for the last only; then the second leaves room for the third.
			name: "two ends of one moment", policy: "p:ranking=fifo",
			jobs: []Job{job(0, 100, 200, 4), job(1, 99, 200, 6), job(2, 50, 50, 5), job(3, 50, 50, 5),
				job(4, 50, 50, 4)}, want: []float64{0, 1, 100, 150, 100},
		}, {
			// The second, of priority 0, takes the place of the first, of priority 9, which starts again at 60 (SPEC
			// §7.9).
			name: "preemption", policy: "p:ranking=fifo,preempt=on",
			jobs: []Job{prioritised(job(0, 100, 100, 10), 9), prioritised(job(10, 50, 50, 10), 0), job(70, 5, 5, 10)},
			want: []float64{60, 10, 160},
		},
	} {
		got := startsOf(t, &Life{Jobs: test.jobs, Workers: Machine(10), Settings: policy(t, test.policy).Settings})
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: starts %v, want %v", test.name, got, test.want)
		}
	}
}

// randomJobs returns a load of some hundred jobs that keeps 12 processors busy.
func randomJobs(r *rand.Rand) []Job {
	jobs := make([]Job, 20+r.IntN(60))
	now := int64(0)
	for i := range jobs {
		now += 1 + r.Int64N(20_000)*r.Int64N(2)
		run := 1 + r.Int64N(40_000)
		jobs[i] = Job{Submit: now, Run: run, Estimate: max(1, run*(1+r.Int64N(5))/2),
			CPUMilli: 1000 * (1 + r.Int64N(8)), Tenant: rota.TenantID(fmt.Sprint("t", r.IntN(3)))}
		if r.IntN(3) == 0 {
			spec := rota.NewJobSpec("other", nil)
			spec.Priority = int32(r.IntN(11))
			jobs[i].Spec = &spec
		}
	}
	return jobs
}

// TestSimulate_ticks compares lives without the ticks that change nothing with lives that have every tick of the
// leader, and every acknowledgement of a worker. A decision drawn from a seed would differ between them, so no two jobs
// arrive at one moment, and workers take turns.
func TestSimulate_ticks(t *testing.T) {
	policies := []string{"p:ranking=fifo,hold_after=7s,hold_max=9s", "p:preset=standard", "p:preset=fluxforge",
		"p:preset=standard,hold_after=3s,ttl_abs=70s",
		"p:ranking=aging,fair_share=on,hold_after=2s,dispatch_interval=330ms,oldest_every=3",
		"p:preset=fluxforge,hold_after=5s,hold_max=20s,preempt=on",
		"p:preset=standard,ranking=adaptive,aging_threshold=6s,hold_after=11s",
		"p:ranking=fifo,backfill=easy,ttl_abs=90s",
		"p:ranking=shortest,shortest_aging=3,backfill=easy,backfill_order=shortest,fair_share=on,oldest_every=4",
		"p:ranking=shortest,backfill=none", "p:preset=batch", "p:ranking=fifo,backfill=easy,estimate=last2"}
	var preempted, expired int
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 7))
		text := policies[seed%uint64(len(policies))] + ",strategy=round_robin"
		l := &Life{Jobs: randomJobs(r), Workers: Machine(12), Settings: policy(t, text).Settings}
		if seed%3 == 0 {
			l.Workers = append(Machine(8), rota.WorkerSpec{ID: "small", Slots: 3, CPUMilli: 4000})
		}
		got, err := Simulate(context.Background(), l)
		if err != nil {
			t.Fatalf("seed %d, %s: %v", seed, text, err)
		}
		l.thorough = true
		want, err := Simulate(context.Background(), l)
		if err != nil {
			t.Fatalf("seed %d, %s, every tick: %v", seed, text, err)
		}
		for i := range want {
			preempted += int(got[i].Preempted)
			if got[i].Expired {
				expired++
			}
			if got[i] != want[i] {
				t.Fatalf("seed %d, %s: job %d: %+v, with every tick %+v", seed, text, i, got[i], want[i])
			}
		}
	}
	if preempted == 0 || expired == 0 {
		t.Errorf("%d jobs were preempted, %d expired: the runs show too little", preempted, expired)
	}
}

// TestSimulate_memory counts the state's rows while jobs arrive: as many after 60,000 as after 10,000, because ended
// jobs are deleted.
func TestSimulate_memory(t *testing.T) {
	jobs := make([]Job, 60_000)
	for i := range jobs {
		jobs[i] = job(int64(i), 60, 60, 1)
	}
	most := make([]int, len(jobs)/10_000)
	l := &Life{Jobs: jobs, Workers: Machine(64), Settings: policy(t, "p:ranking=fifo").Settings}
	l.Submitted = func(m *fsm.Machine, job int, _ []Fate) error {
		if job%100 == 0 {
			rows := m.Freeze().Rows() + len(m.Staged(math.MaxInt, math.MaxInt))
			most[job/10_000] = max(most[job/10_000], rows)
		}
		return nil
	}
	if _, err := Simulate(context.Background(), l); err != nil {
		t.Fatal(err)
	}
	t.Logf("at most %d rows, by the 10,000 jobs in which they were counted", most)
	if first, last := most[0], most[len(most)-1]; first < 60 || first > 2_000 || last > first {
		t.Errorf("the state has up to %d rows", most)
	}
}

// TestRun_interrupted interrupts the second of two policies: of its jobs those are counted that had ended.
func TestRun_interrupted(t *testing.T) {
	jobs := make([]Job, 4_000)
	for i := range jobs {
		jobs[i] = job(int64(i), 90, 90, 1)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	plan := &Plan{Jobs: jobs, Workers: Machine(64), Policies: []Policy{policy(t, "a:ranking=fifo,backfill=easy"),
		policy(t, "b:ranking=fifo,backfill=easy")}}
	plan.Progress = func(over int) {
		if over > 6_000 {
			cancel()
		}
	}
	got, err := Run(ctx, plan)
	if !errors.Is(err, context.Canceled) || len(got) != 2 {
		t.Fatalf("%v: %+v", err, got)
	}
	if a := &got[0]; a.Partial || a.Jobs != 4_000 || a.Unbounded != "" {
		t.Errorf("the policy that was finished: %+v", a)
	}
	if b := &got[1]; !b.Partial || b.Jobs < 2_000 || b.Jobs > 3_000 || b.WaitMaxS == 0 ||
		b.WaitMaxS >= got[0].WaitMaxS || b.Unbounded != "it was interrupted" {
		t.Errorf("the policy that was not: %+v, the other %+v", b, got[0])
	}
}

func TestParsePolicy_refuses(t *testing.T) {
	for _, text := range []string{"", "x", "x:ranking", "x:ranking=best", "x:speed=1", "x:preset=none", "x:w_fee_ppm=7",
		"x:t_lease=10s", "x:queue_cap=5", "x:max_runtime=9s"} {
		if p, err := ParsePolicy(text); err == nil {
			t.Errorf("%q is accepted: %v", text, p)
		}
	}
}

func TestClean(t *testing.T) {
	log := &flowfile.SWFLog{Jobs: []flowfile.SWFJob{
		{Submit: 1, Run: -1, Allocated: -1, Requested: 4, Estimate: -1, User: -1},
		{Submit: 2, Run: 0, Allocated: 4, Requested: 4, Estimate: 9, User: -1},
		{Submit: 3, Run: 20, Allocated: 4, Requested: 8, Estimate: 9, User: -1},
		{Submit: 4, Run: 5, Allocated: 4, Requested: -1, Estimate: math.MaxInt64, User: -1},
		{Submit: 4, Run: 5, Allocated: 99, Requested: -1, Estimate: 9, User: 7},
	}}
	endless := job(4, 5, longest/1000, 4)
	for _, test := range []struct {
		how     Cleaning
		want    []Job
		dropped int64
	}{
		{CleanRLS, []Job{job(1, 10, 10, 4), job(3, 20, 9, 8), endless}, 2},
		{CleanPredictsim, []Job{job(3, 9, 9, 8), endless}, 3},
		{CleanSWF, []Job{job(3, 20, 9, 4), endless}, 3},
	} {
		jobs, dropped := Clean(log, test.how)
		if last := jobs[len(jobs)-1].Tenant; last != "u7" {
			t.Errorf("%s: the last job's tenant is %q", test.how, last)
		}
		jobs, large := Fitting(jobs, Machine(16))
		sum := int64(0)
		for _, d := range slices.Concat(dropped, large) {
			sum += d.Jobs
		}
		if !reflect.DeepEqual(jobs, test.want) || sum != test.dropped {
			t.Errorf("%s: %v, %v", test.how, jobs, dropped)
		}
	}
}

func BenchmarkSimulate(b *testing.B) {
	jobs := make([]Job, 20_000)
	for i := range jobs {
		jobs[i] = job(int64(i), 60, 60, 1)
	}
	l := &Life{Jobs: jobs, Workers: Machine(64), Settings: policy(b, "p:ranking=fifo").Settings}
	for b.Loop() {
		if _, err := Simulate(context.Background(), l); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(jobs)*b.N)/b.Elapsed().Seconds(), "jobs/s")
}
