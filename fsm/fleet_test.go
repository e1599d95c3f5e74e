package fsm

import (
	"fmt"
	"slices"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
)

// fleetBench is a machine with many workers over many queues, and a naive model of the jobs that each of them may run.
// It has no twin: a twin's checks do not depend on the number of workers.
type fleetBench struct {
	*Machine
	t       testing.TB
	now     rota.Clock
	workers map[string]*fleetWorker
}

type fleetWorker struct {
	queue, capability, region string
	slots                     int32
	cpu                       int64
}

const (
	fleetQueues = 100
	fleetCPU    = 4_000
)

func newFleet(t testing.TB, workers int) *fleetBench {
	t.Helper()
	f := &fleetBench{Machine: New(), t: t, now: startClock, workers: make(map[string]*fleetWorker, workers)}
	f.entry(&fsmpb.Op{Op: &fsmpb.Op_BeginTerm{BeginTerm: &fsmpb.BeginTerm{Term: 1, Node: "n", Random: make([]byte, 32),
		ClusterId: "fleet", StartMs: startClock}}})
	var ops []*fsmpb.Op
	for q := range fleetQueues {
		ops = append(ops, queueOp(fmt.Sprint("q", q), "min_health", "0"))
	}
	f.entry(ops...)
	for i := 0; i < workers; {
		for ops = ops[:0]; i < workers && len(ops) < 1_000; i++ {
			ops = append(ops, f.register(i))
		}
		f.entry(ops...)
	}
	return f
}

func (f *fleetBench) register(i int) *fsmpb.Op {
	id := fmt.Sprintf("w%06d", i)
	w := &fleetWorker{queue: fmt.Sprint("q", i%fleetQueues), capability: fmt.Sprint("c", i/fleetQueues%5),
		region: []string{"eu", "us"}[i/7%2], slots: 1 + int32(i%3), cpu: fleetCPU}
	f.workers[id] = w
	return registerOp(id, w.slots, "s", false, func(s *rota.WorkerSpec) {
		s.Queues, s.Capabilities = []rota.QueueName{rota.QueueName(w.queue)}, []string{w.capability}
		s.Region, s.CPUMilli = w.region, w.cpu
	})
}

// spec returns job i: two of every seven require a class that no worker has, one of every five requires more cpu than
// any has.
func (f *fleetBench) spec(i int) *rota.JobSpec {
	return jobSpec(fmt.Sprintf("job-%06d", i), func(s *rota.JobSpec) {
		s.Queue, s.Requires = rota.QueueName(fmt.Sprint("q", i%fleetQueues)), []string{fmt.Sprint("c", i%7)}
		s.CPUMilli = int64(1_000 * (1 + i%5))
		if i%3 == 0 {
			s.RegionsDeny = []string{"us"}
		}
	})
}

// fits is the relevant part of SPEC §6.1.
func (w *fleetWorker) fits(s *rota.JobSpec) bool {
	return w.queue == string(s.Queue) && s.Requires[0] == w.capability && !slices.Contains(s.RegionsDeny, w.region) &&
		w.slots > 0 && w.cpu >= s.CPUMilli
}

func (f *fleetBench) entry(ops ...*fsmpb.Op) Applied {
	f.t.Helper()
	a := f.try(ops...)
	for _, o := range a.Outcomes {
		if o.GetKind() != 0 {
			f.t.Fatal(o)
		}
	}
	return a
}

func (f *fleetBench) try(ops ...*fsmpb.Op) Applied {
	f.t.Helper()
	data, err := entry.Seal(&fsmpb.Entry{Term: 1, NowMs: int64(f.now), Ops: ops}, entry.FirstRules)
	if err != nil {
		f.t.Fatal(err)
	}
	a, err := f.Apply(f.Header.Index+1, 1, data)
	if err != nil {
		f.t.Fatal(err)
	}
	return a
}

func (f *fleetBench) submit(from, to int) {
	f.t.Helper()
	for i := from; i < to; {
		var ops []*fsmpb.Op
		for ; i < to && len(ops) < 1_000; i++ {
			ops = append(ops, submitOp(f.spec(i)))
		}
		f.entry(ops...)
	}
}

// TestFleet has the maximum number of workers: every assignment is one that the naive model allows, applying drops
// none, and no job waits that some worker has room for.
func TestFleet(t *testing.T) {
	t.Parallel()
	workers, jobs := limits.MaxWorkers, 5_000
	if testing.Short() {
		workers = 5_000
	}
	f := newFleet(t, workers)
	if workers == limits.MaxWorkers {
		one := f.try(registerOp("one-more", 1, "s", false))
		if k := rota.Kind(one.Outcomes[0].GetKind()); k != rota.KindExhausted {
			t.Errorf("one worker more than %d: %v", workers, one.Outcomes[0])
		}
	}
	f.submit(0, jobs)
	placed := map[string]string{}
	for {
		rounds := f.View.Decide(1_000)
		if len(rounds) == 0 {
			break
		}
		pairs := 0
		for _, r := range rounds {
			for _, p := range r.Pairs {
				pairs++
				f.place(p, placed)
			}
		}
		if pairs == 0 {
			t.Fatal("a leader would decide empty rounds forever")
		}
		assigned := 0
		for _, e := range f.entry(opsOf(rounds)...).Events {
			switch e.Kind {
			case rota.EventJobAssigned:
				assigned++
			case rota.EventAssignmentDropped:
				t.Errorf("applying drops a decision made on the same state: %+v", e)
			}
		}
		if assigned != pairs {
			t.Errorf("%d pairs decided, %d assigned", pairs, assigned)
		}
	}
	f.nobodyFor(jobs, placed)
	for _, violation := range f.Check() {
		t.Error(violation)
	}
	t.Logf("%d of %d jobs at %d workers", len(placed), jobs, workers)
}

// place records a pair, if the naive model allows it.
func (f *fleetBench) place(p *fsmpb.Pair, placed map[string]string) {
	f.t.Helper()
	var i int
	if _, err := fmt.Sscanf(p.Job, "job-%d", &i); err != nil {
		f.t.Fatal(err)
	}
	s, w := f.spec(i), f.workers[p.Worker]
	if w == nil || !w.fits(s) || placed[p.Job] != "" {
		f.t.Errorf("job %s at %s: %+v has no room for %+v, or it was placed at %q", p.Job, p.Worker, w, s,
			placed[p.Job])
		return
	}
	placed[p.Job] = p.Worker
	w.slots--
	w.cpu -= s.CPUMilli
}

// nobodyFor checks every worker against every pending job.
func (f *fleetBench) nobodyFor(jobs int, placed map[string]string) {
	f.t.Helper()
	byQueue := map[string][]*fleetWorker{}
	for _, w := range f.workers {
		byQueue[w.queue] = append(byQueue[w.queue], w)
	}
	for i := range jobs {
		s := f.spec(i)
		if placed[string(s.ID)] != "" {
			continue
		}
		if slices.ContainsFunc(byQueue[string(s.Queue)], func(w *fleetWorker) bool { return w.fits(s) }) {
			f.t.Errorf("job %s waits although a worker has room for it", s.ID)
		}
	}
}

// BenchmarkFleet measures rounds with this many registered workers: an operation decides, or applies, up to 256 pairs
// of a hundred queues.
func BenchmarkFleet(b *testing.B) {
	const pairs = 256
	for _, workers := range []int{1_000, 10_000, 100_000} {
		f := newFleet(b, workers)
		f.submit(0, 1_000)
		b.Run(fmt.Sprintf("decide workers=%d", workers), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if len(f.View.Decide(pairs)) == 0 {
					b.Fatal("nothing to decide")
				}
			}
		})
		b.Run(fmt.Sprintf("apply workers=%d", workers), func(b *testing.B) {
			b.ReportAllocs()
			b.StopTimer()
			next := 1_000_000
			for range b.N {
				f.submit(next, next+1_000) // two out of seven stay pending
				next += 1_000
				ops := opsOf(f.View.Decide(pairs))
				b.StartTimer()
				events := f.entry(ops...).Events
				b.StopTimer()
				f.end(events)
			}
		})
		b.Run(fmt.Sprintf("register again workers=%d", workers), func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i = (i + 7_919) % workers
				f.entry(f.register(i))
			}
		})
	}
}

// end completes the jobs assigned last and cancels pending jobs, so that every round starts the same.
func (f *fleetBench) end(assigned []rota.Event) {
	var ops []*fsmpb.Op
	for _, e := range assigned {
		if e.Kind == rota.EventJobAssigned {
			j, _ := f.View.Job(e.Job)
			ops = append(ops, verb(rota.VerbAck, *j.Lease), verb(rota.VerbComplete, *j.Lease))
		}
	}
	f.JobTable.Scan(func(id rota.JobID, r *state.JobRow) bool {
		if r.State == rota.JobQueued {
			ops = append(ops, cancelOp(string(id)))
		}
		return true
	})
	f.entry(ops...)
}
