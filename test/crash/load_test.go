package crash

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/test/rig"
)

// load simulates users of a cluster: at each node a producer, which repeats every unknown outcome under the same id,
// and a worker.
type load struct {
	*rig.Ledger
	t *testing.T

	submitting           context.Context
	stopSubmit, stopWork context.CancelFunc
	producers, workers   sync.WaitGroup
}

const (
	// produceEvery is the producers' pause between two jobs.
	produceEvery = 20 * time.Millisecond
	// maxCall bounds one call.
	maxCall = 5 * time.Second
)

func startLoad(t *testing.T, nodes []*node) *load {
	t.Helper()
	l := &load{t: t, Ledger: rig.NewLedger()}
	submitting, stopSubmit := context.WithCancel(context.Background())
	working, stopWork := context.WithCancel(context.Background())
	l.submitting, l.stopSubmit, l.stopWork = submitting, stopSubmit, stopWork
	t.Cleanup(func() {
		stopSubmit()
		stopWork()
		l.producers.Wait()
		l.workers.Wait()
	})
	for i, n := range nodes {
		w, err := client.NewWorker(dial(t, n), rota.WorkerSpec{ID: rota.WorkerID(fmt.Sprintf("w%d", i)),
			Queues: []rota.QueueName{rota.DefaultQueue}, Slots: 16})
		check(t, err)
		w.Handle("", func(context.Context, *client.Job) (client.Result, error) { return client.Result{}, nil })
		l.workers.Go(func() { l.work(working, w) })
		producer := dial(t, n)
		l.producers.Go(func() { l.produce(submitting, producer, i) })
	}
	return l
}

// dial returns a client of some nodes: of a single one, so that each node has users.
func dial(t *testing.T, nodes ...*node) *client.Client {
	t.Helper()
	var addrs []string
	for _, n := range nodes {
		addrs = append(addrs, n.API)
	}
	c, err := client.Dial(addrs, client.WithInsecure())
	check(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (l *load) work(ctx context.Context, w *client.Worker) {
	if err := w.Run(ctx); err != nil && ctx.Err() == nil {
		l.Refuse(fmt.Errorf("worker %s: %w", w.ID(), err))
	}
}

func (l *load) produce(ctx context.Context, c *client.Client, producer int) {
	for i := 0; ctx.Err() == nil; i++ {
		spec := rota.NewJobSpec("load", []byte("x"))
		spec.ID = rota.JobID(fmt.Sprintf("p%d-%06d", producer, i))
		l.Submit(ctx, c, spec, maxCall)
		select {
		case <-ctx.Done():
		case <-time.After(produceEvery):
		}
	}
}

// flows waits until more jobs are acknowledged.
func (l *load) flows() {
	l.t.Helper()
	const more = 10
	want := l.Count() + more
	eventually(l.t, 30*time.Second, "more jobs are accepted", func() error {
		if n := l.Count(); n < want {
			return fmt.Errorf("%d, not %d", n, want)
		}
		return nil
	})
}

// settle ends the load and checks the ledger: every acknowledged job is completed, and each completion was reported
// once.
func (l *load) settle(c *client.Client) {
	l.t.Helper()
	l.stopSubmit()
	l.producers.Wait()
	var told map[rota.JobID]int
	eventually(l.t, 60*time.Second, "every accepted job is completed", func() (err error) {
		told, err = completions(c)
		if err != nil {
			return err
		}
		open := 0
		for _, id := range l.Accepted() {
			if told[id] == 0 {
				open++
			}
		}
		if open > 0 {
			time.Sleep(10 * rig.Poll) // all events are read again
			return fmt.Errorf("%d of %d are not", open, l.Count())
		}
		return nil
	})
	l.stopWork()
	l.workers.Wait()
	for id, times := range told {
		if times != 1 {
			l.t.Errorf("job %s was completed %d times", id, times)
		}
	}
	if refused := l.Refused(); len(refused) > 0 {
		l.t.Errorf("users were refused: %v", refused)
	}
	l.t.Logf("%d jobs acknowledged, each completed once", l.Count())
}

// completions counts the completions in the events.
func completions(c *client.Client) (map[rota.JobID]int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	told := make(map[rota.JobID]int)
	for e, err := range c.Events(ctx, rota.EventFilter{Kinds: []rota.EventKind{rota.EventJobCompleted}}) {
		if err != nil {
			return told, err
		}
		told[e.Job]++
	}
	return told, nil
}
