package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/millis"
	"github.com/rotasched/rota/test/rig"
)

// load is the users of a cluster: submitters that retry as long as necessary and workers that record when they hold
// which job.
type load struct {
	*rig.Ledger
	t     testing.TB
	queue string

	mu       sync.Mutex
	asked    map[rota.JobID]bool // submitted, regardless of the answer
	held     map[rota.JobID]rota.WorkerID
	runs     map[rota.JobID]int
	overlaps []string
	done     map[rota.JobID]int

	stopSubmit, stopWork context.CancelFunc
	submitters, workers  sync.WaitGroup
}

// startLoad starts submitters and workers on a separate queue.
func startLoad(t testing.TB, c *nodes, queue string, submitters, workers int, every time.Duration) *load {
	t.Helper()
	// A frozen node lets all leases of its workers end at once, and each of them costs health: up to 300 s would pass
	// before the workers count as able again (SPEC 6.2). This test checks whether jobs survive, not which workers a
	// queue trusts.
	c.rota(t, "queue", "set", queue, "--preset", "standard", "--set", "min_health=0").want(t, 0)
	l := &load{t: t, queue: queue, Ledger: rig.NewLedger(), asked: make(map[rota.JobID]bool),
		held: make(map[rota.JobID]rota.WorkerID), runs: make(map[rota.JobID]int), done: make(map[rota.JobID]int)}
	submitting, stopSubmit := context.WithCancel(context.Background())
	working, stopWork := context.WithCancel(context.Background())
	l.stopSubmit, l.stopWork = stopSubmit, stopWork
	t.Cleanup(func() {
		stopSubmit()
		stopWork()
		l.submitters.Wait()
		l.workers.Wait()
	})
	for i := range workers {
		w := l.newWorker(c, fmt.Sprintf("%s-w%d", queue, i))
		l.workers.Go(func() { _ = w.Run(working) })
	}
	for i := range submitters {
		cl := c.dial(t)
		l.submitters.Go(func() { l.submit(submitting, cl, i, every) })
	}
	return l
}

func (l *load) newWorker(c *nodes, id string) *client.Worker {
	cl := c.dial(l.t)
	w, err := client.NewWorker(cl, rota.WorkerSpec{ID: rota.WorkerID(id),
		Queues: []rota.QueueName{rota.QueueName(l.queue)}, Slots: 8, Prefetch: 8})
	check(l.t, err)
	w.Handle("", func(ctx context.Context, job *client.Job) (client.Result, error) {
		l.take(job.ID(), w.ID())
		defer l.give(job.ID())
		select {
		case <-ctx.Done():
			return client.Result{}, context.Cause(ctx)
		case <-time.After(job.Spec().Simulate):
		}
		l.mu.Lock()
		l.done[job.ID()]++
		l.mu.Unlock()
		return client.Result{}, nil
	})
	return w
}

// take records that a worker runs a job, and whether another one still does.
func (l *load) take(id rota.JobID, worker rota.WorkerID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if other, ok := l.held[id]; ok {
		l.overlaps = append(l.overlaps, fmt.Sprintf("%s at %s and %s", id, other, worker))
	}
	l.held[id] = worker
	l.runs[id]++
}

func (l *load) give(id rota.JobID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, id)
}

// submit sends one job after another, and repeats each until it is answered.
func (l *load) submit(ctx context.Context, cl *client.Client, submitter int, every time.Duration) {
	for i := 0; ctx.Err() == nil; i++ {
		spec := rota.NewJobSpec("load", []byte("x"))
		spec.ID, spec.Queue = rota.JobID(fmt.Sprintf("%s-%d-%06d", l.queue, submitter, i)), rota.QueueName(l.queue)
		spec.Simulate = millis.Duration(int64(i % 40))
		l.ask(spec.ID)
		l.Submit(ctx, cl, spec, 20*time.Second)
		select {
		case <-ctx.Done():
		case <-time.After(every):
		}
	}
}

func (l *load) ask(id rota.JobID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked[id] = true
}

// flows waits until `more` further jobs were accepted.
func (l *load) flows(t testing.TB, more int) {
	t.Helper()
	want := l.Count() + more
	eventually(t, 30*time.Second, fmt.Sprintf("%d more jobs are accepted", more), func() error {
		if n := l.Count(); n < want {
			return fmt.Errorf("%d of %d", n, want)
		}
		return nil
	})
}

// settle ends the submissions and checks the account: every accepted job is COMPLETED, none was at two workers at once,
// none was refused.
func (l *load) settle(c *nodes) {
	l.t.Helper()
	l.stopSubmit()
	l.submitters.Wait()
	cl := c.dial(l.t)
	if err := rig.Within(90*time.Second, func() error { return l.missing(cl) }); err != nil {
		l.t.Errorf("the workers:\n%s", c.rota(l.t, "worker", "list", "-o", "wide").stdout)
		l.t.Errorf("the queue:\n%s", c.rota(l.t, "queue", "show", l.queue).stdout)
		l.t.Fatalf("not every accepted job is COMPLETED within 90 s: %v", err)
	}
	l.stopWork()
	l.workers.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.overlaps) > 0 {
		l.t.Errorf("%d jobs were at two workers at once: %v", len(l.overlaps), l.overlaps[:min(5, len(l.overlaps))])
	}
	if refused := l.Refused(); len(refused) > 0 {
		l.t.Errorf("submissions were refused: %v", refused)
	}
	again := 0
	for _, n := range l.runs {
		again += n - 1
	}
	l.t.Logf("%s: %d jobs accepted and completed, %d handlers beyond the first", l.queue, l.Count(), again)
}

// missing returns an error that names accepted jobs which the cluster does not report as COMPLETED.
func (l *load) missing(cl *client.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	states := make(map[rota.JobID]rota.JobState)
	for j, err := range cl.Jobs(ctx, rota.JobFilter{Queue: rota.QueueName(l.queue)}) {
		if err != nil {
			return err
		}
		states[j.ID] = j.State
	}
	open, example := 0, ""
	for _, id := range l.Accepted() {
		if states[id] != rota.JobCompleted {
			open, example = open+1, fmt.Sprintf("%s is %s", id, states[id])
		}
	}
	if open > 0 {
		return fmt.Errorf("%d of %d jobs, %s", open, l.Count(), example)
	}
	return nil
}
