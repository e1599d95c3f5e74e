package virtual

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/flowfile"
	"github.com/rotasched/rota/internal/foresight"
)

// foreseen is a load that is both simulated and run for about half an hour: bursts, and a stream of wide jobs.
const foreseen = `
seed: 5
for: 20m
streams:
- {tenant: a, per_hour: 1100, run: 12s, spread: 1, processors: {1: 5, 2: 3}}
- {tenant: b, per_hour: 600, run: 8s, pattern: bursty, burst: 12}
- {tenant: c, per_hour: 60, run: 20s, spread: 0.5, processors: {6: 1}}
`

// TestForesight compares the simulator with a cluster of three nodes and two workers: the same jobs wait equally long
// on average, within 5 %, under policies that differ by more than that. With shares and turns, a decision a few
// milliseconds later may change the course of the remaining load: of 13 lives of the preset 12 were within 1 % and one
// was 4.7 % off, so the median of three counts. Holds are left out: with them two of nine were 14 % off, and one 4.4 %.
func TestForesight(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	load, err := flowfile.ParseLoad([]byte(foreseen))
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := foresight.Draw(load, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < len(jobs); i++ { // a client submits one after another
		jobs[i].Submit = max(jobs[i].Submit, jobs[i-1].Submit+50)
	}
	workers := []rota.WorkerSpec{{ID: "big", Slots: 8, CPUMilli: 8000}, {ID: "small", Slots: 4, CPUMilli: 4000}}
	waits := make(map[string]float64)
	for _, c := range []struct {
		policy string
		lives  int // of which the median counts
	}{
		{"bare:ranking=fifo,strategy=round_robin", 1},
		{"standard:preset=standard,hold_after=0,strategy=round_robin", 3},
		{"shortest:ranking=shortest,strategy=round_robin", 1},
		{"easy:ranking=fifo,backfill=easy,strategy=round_robin", 1},
	} {
		p, err := foresight.ParsePolicy(c.policy)
		if err != nil {
			t.Fatal(err)
		}
		results, err := foresight.Run(context.Background(), &foresight.Plan{Jobs: jobs, Workers: workers,
			Policies: []foresight.Policy{p}})
		if err != nil {
			t.Fatal(err)
		}
		means := make([]float64, c.lives)
		for i := range means {
			means[i] = liveThrough(t, jobs, workers, p.Settings)
		}
		slices.Sort(means)
		lived := means[c.lives/2]
		waits[p.Name] = results[0].WaitMeanS
		t.Logf("%s: %d jobs wait for %.2f s on average, in the simulator %.2f s", p.Name, len(jobs), means,
			results[0].WaitMeanS)
		if math.Abs(lived/results[0].WaitMeanS-1) > 0.05 {
			t.Errorf("%s: jobs wait for %.2f s on average, in the simulator %.2f s", p.Name, lived,
				results[0].WaitMeanS)
		}
	}
	if a, b := waits["bare"], waits["standard"]; a < 5 || math.Abs(a/b-1) < 0.1 {
		t.Errorf("jobs wait for %.2f s and for %.2f s: that shows too little", a, b)
	}
}

// liveThrough runs jobs on a cluster as they arrive, and returns their average wait in seconds.
func liveThrough(t *testing.T, jobs []foresight.Job, workers []rota.WorkerSpec,
	settings []rota.Setting) (mean float64) {
	t.Helper()
	play(t, settings, func(s *scene) {
		var mu sync.Mutex
		var ended sync.WaitGroup
		due := make(map[rota.JobID]time.Time)
		ended.Add(len(jobs))
		started := func(e client.HandlerEvent) {
			mu.Lock()
			defer mu.Unlock()
			mean += time.Since(due[e.Job]).Seconds() / float64(len(jobs))
		}
		ctx, stop := context.WithCancel(s.ctx)
		for i := range workers {
			spec := workers[i]
			spec.Queues = []rota.QueueName{queueName}
			c := s.dial(host(spec.ID), s.servers)
			s.clients = append(s.clients, c)
			w, err := client.NewWorker(c, spec, client.WithClock(s.sinceBoot),
				client.WithObserver(client.Observer{Started: started}))
			if err != nil {
				s.Fatal(err)
			}
			w.Handle("", func(_ context.Context, job *client.Job) (client.Result, error) {
				defer ended.Done()
				task, err := parseTask(job.Payload())
				time.Sleep(task.takes)
				return client.Result{}, err
			})
			s.workers.Go(func() { _ = w.Run(ctx) })
		}
		time.Sleep(5 * time.Second)
		began := time.Now()
		for i := range jobs {
			at := began.Add(time.Duration(jobs[i].Submit) * time.Millisecond)
			time.Sleep(time.Until(at))
			spec := *jobs[i].Spec
			spec.ID, spec.Queue, spec.Tenant, spec.CPUMilli = rota.JobID(fmt.Sprint("j",
				i)), queueName, jobs[i].Tenant, jobs[i].CPUMilli
			spec.Expected = time.Duration(jobs[i].Estimate) * time.Millisecond
			spec.Payload = task{takes: time.Duration(jobs[i].Run) * time.Millisecond}.payload()
			mu.Lock()
			due[spec.ID] = at
			mu.Unlock()
			if _, err := s.admin.Submit(s.ctx, spec); err != nil {
				s.Fatal(err)
			}
		}
		ended.Wait()
		time.Sleep(time.Second)
		stop()
	})
	return mean
}
