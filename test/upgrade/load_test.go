package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/test/rig"
)

// load simulates users of a cluster while its binaries change: a producer for each node, one for all of them, and
// workers. Accepted jobs are submitted again, and must be known.
type load struct {
	*rig.Ledger
	t     testing.TB
	nodes rig.Nodes

	mu    sync.Mutex
	took  []time.Duration
	holds map[rota.JobID]rota.WorkerID
	wrong []string

	stopSubmit, stopWork context.CancelFunc
	submitters, workers  sync.WaitGroup
}

// pause is the pause of a producer between two jobs.
const pause = 20 * time.Millisecond

func startLoad(t testing.TB, nodes rig.Nodes) *load {
	t.Helper()
	submitting, stopSubmit := context.WithCancel(t.Context())
	working, stopWork := context.WithCancel(t.Context())
	l := &load{Ledger: rig.NewLedger(), t: t, nodes: nodes, holds: make(map[rota.JobID]rota.WorkerID),
		stopSubmit: stopSubmit, stopWork: stopWork}
	t.Cleanup(func() {
		stopSubmit()
		stopWork()
		l.submitters.Wait()
		l.workers.Wait()
	})
	for i := range 3 {
		w, err := client.NewWorker(l.dial(nodes.APIs()), rota.WorkerSpec{ID: rota.WorkerID(fmt.Sprint("w", i)),
			Queues: []rota.QueueName{rota.DefaultQueue}, Slots: 8})
		check(t, err)
		w.Handle("", func(_ context.Context, job *client.Job) (client.Result, error) {
			l.take(job.ID(), w.ID())
			defer l.give(job.ID())
			return client.Result{Output: []byte(job.ID())}, nil
		})
		l.workers.Go(func() { _ = w.Run(working) })
	}
	for _, n := range nodes {
		l.submitters.Go(func() { l.produce(submitting, l.dial([]string{n.API}), n.ID, false) })
	}
	l.submitters.Go(func() { l.produce(submitting, l.dial(nodes.APIs()), "all", true) })
	return l
}

func (l *load) dial(addrs []string) *client.Client {
	cl, err := client.Dial(addrs, client.WithInsecure())
	check(l.t, err)
	l.t.Cleanup(func() { _ = cl.Close() })
	return cl
}

func (l *load) produce(ctx context.Context, cl *client.Client, name string, timed bool) {
	for i := 0; ctx.Err() == nil; i++ {
		spec := rota.NewJobSpec("load", []byte("x"))
		spec.ID = rota.JobID(fmt.Sprintf("%s-%06d", name, i))
		begun := time.Now()
		l.Submit(ctx, cl, spec, 5*time.Second)
		if timed && ctx.Err() == nil {
			l.mu.Lock()
			l.took = append(l.took, time.Since(begun))
			l.mu.Unlock()
		}
		if i%10 == 0 {
			l.Answered(ctx, 5*time.Second, func(ctx context.Context) error {
				again, err := cl.Submit(ctx, spec)
				if err == nil && !again[0].Existed {
					l.say("%s was accepted, and is not known when it is submitted again", spec.ID)
				}
				return err
			}, spec.ID)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

func (l *load) say(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrong = append(l.wrong, fmt.Sprintf(format, args...))
}

func (l *load) take(id rota.JobID, worker rota.WorkerID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if other, held := l.holds[id]; held {
		l.wrong = append(l.wrong, fmt.Sprintf("%s is at %s and %s", id, other, worker))
	}
	l.holds[id] = worker
}

func (l *load) give(id rota.JobID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.holds, id)
}

// flows waits until more further jobs were accepted.
func (l *load) flows(more int) {
	l.t.Helper()
	want := l.Count() + more
	if err := rig.Within(time.Minute, func() error {
		if n := l.Count(); n < want {
			return fmt.Errorf("%d of %d", n, want)
		}
		return nil
	}); err != nil {
		l.t.Fatalf("%d more jobs are not accepted: %v", more, err)
	}
}

// settle ends the load and checks the ledger: all accepted jobs have completed, with one output.
func (l *load) settle() {
	l.t.Helper()
	l.stopSubmit()
	l.submitters.Wait()
	cl := l.dial(l.nodes.APIs())
	if err := rig.Within(2*time.Minute, func() error { return l.missing(cl) }); err != nil {
		l.t.Errorf("not all that was accepted has completed: %v", err)
	}
	l.stopWork()
	l.workers.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, text := range l.wrong[:min(len(l.wrong), 10)] {
		l.t.Error(text)
	}
	if refused := l.Refused(); len(refused) > 0 {
		l.t.Errorf("submissions were refused: %v", refused)
	}
	slices.Sort(l.took)
	n := len(l.took)
	l.t.Logf("%d jobs were accepted and completed; of %d submissions through all nodes half took %s, 99%% %s, the longest %s",
		l.Count(), n, l.took[n/2], l.took[n*99/100], l.took[n-1])
}

func (l *load) missing(cl *client.Client) error {
	ctx, cancel := context.WithTimeout(l.t.Context(), time.Minute)
	defer cancel()
	completed := make(map[rota.JobID]bool)
	for j, err := range cl.Jobs(ctx, rota.JobFilter{}) {
		if err != nil {
			return err
		}
		completed[j.ID] = j.State == rota.JobCompleted
	}
	var open []rota.JobID
	for _, id := range l.Accepted() {
		if !completed[id] {
			open = append(open, id)
		}
	}
	if len(open) > 0 {
		return errors.New(fmt.Sprint(len(open), " jobs, such as ", open[0]))
	}
	return nil
}
