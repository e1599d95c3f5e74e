package crash

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// load is users of a cluster: at each node a producer, which repeats every outcome
// that it does not know under the same id, and a worker.
type load struct {
	t *testing.T

	mu       sync.Mutex
	accepted map[rota.JobID]bool
	refused  []error

	stopSubmit, stopWork context.CancelFunc
	producers, workers   sync.WaitGroup
}

// produceEvery is the producers' pause between two jobs.
const produceEvery = 20 * time.Millisecond

func startLoad(t *testing.T, nodes []*node) *load {
	t.Helper()
	l := &load{t: t, accepted: make(map[rota.JobID]bool)}
	submitting, stopSubmit := context.WithCancel(context.Background())
	working, stopWork := context.WithCancel(context.Background())
	l.stopSubmit, l.stopWork = stopSubmit, stopWork
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

// dial makes a client of some nodes: of one alone, so that each node has users.
func dial(t *testing.T, nodes ...*node) *client.Client {
	t.Helper()
	var addrs []string
	for _, n := range nodes {
		addrs = append(addrs, n.api)
	}
	c, err := client.Dial(addrs, client.WithInsecure())
	check(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (l *load) work(ctx context.Context, w *client.Worker) {
	if err := w.Run(ctx); err != nil && ctx.Err() == nil {
		l.refuse(fmt.Errorf("worker %s: %w", w.ID(), err))
	}
}

func (l *load) produce(ctx context.Context, c *client.Client, producer int) {
	for i := 0; ctx.Err() == nil; i++ {
		spec := rota.NewJobSpec("load", []byte("x"))
		spec.ID = rota.JobID(fmt.Sprintf("p%d-%06d", producer, i))
		l.submit(ctx, c, spec)
		select {
		case <-ctx.Done():
		case <-time.After(produceEvery):
		}
	}
}

// submit sends one job until it is answered.
func (l *load) submit(ctx context.Context, c *client.Client, spec rota.JobSpec) {
	for ctx.Err() == nil {
		call, cancel := context.WithTimeout(ctx, 5*time.Second)
		_, err := c.Submit(call, spec)
		cancel()
		if err == nil {
			l.accept(spec.ID)
			return
		}
		if ctx.Err() == nil && rota.KindOf(err) != rota.Unavailable && rota.KindOf(err) != rota.Timeout {
			l.refuse(err)
		}
	}
}

func (l *load) accept(id rota.JobID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accepted[id] = true
}

// refuse notes an answer that no user should get while nodes come and go.
func (l *load) refuse(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.refused) < 10 {
		l.refused = append(l.refused, err)
	}
}

func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.accepted)
}

// flows waits until more jobs are acknowledged.
func (l *load) flows() {
	l.t.Helper()
	const more = 10
	want := l.count() + more
	eventually(l.t, 30*time.Second, "more jobs are accepted", func() error {
		if n := l.count(); n < want {
			return fmt.Errorf("%d, not %d", n, want)
		}
		return nil
	})
}

// settle ends the load and holds the account: what was acknowledged is completed, and
// each completion was told once.
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
		l.mu.Lock()
		defer l.mu.Unlock()
		open := 0
		for id := range l.accepted {
			if told[id] == 0 {
				open++
			}
		}
		if open > 0 {
			time.Sleep(10 * poll) // all events are read again
			return fmt.Errorf("%d of %d are not", open, len(l.accepted))
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
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.refused) > 0 {
		l.t.Errorf("users were refused: %v", l.refused)
	}
	l.t.Logf("%d jobs acknowledged, each completed once", len(l.accepted))
}

// completions counts what the events tell.
func completions(c *client.Client) (map[rota.JobID]int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	told := make(map[rota.JobID]int)
	err := c.Events(ctx, rota.EventFilter{Kinds: []rota.EventKind{rota.JobCompleted}}, func(events []rota.ServedEvent) error {
		for _, e := range events {
			told[e.Job]++
		}
		return nil
	})
	return told, err
}
