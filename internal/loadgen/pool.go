package loadgen

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// Workers configures the workers of a measurement.
type Workers struct {
	// Queues are divided among the workers if one may not serve them all; otherwise each serves all.
	Queues                 []rota.QueueName
	Count, Slots, Prefetch int
	CPUMilli               int64
	Handle                 client.Handler
}

// pool is a set of workers in this process, each with its own connection, that record their events in the ledger.
type pool struct {
	run     string
	workers Workers
	ledger  *Ledger
	clients []*client.Client

	cancel context.CancelFunc
	done   sync.WaitGroup
	once   sync.Once
	fail   func(error)
}

// poolDrain is how long handlers may continue at the end: there should be none.
const poolDrain = 5 * time.Second

// start starts the workers and waits until the cluster knows all of them, so that the measurement begins with all
// workers. stop ends them.
func (l *Lab) start(ctx context.Context, run string, workers Workers, ledger *Ledger) (*pool, error) {
	p := &pool{run: run, workers: workers, ledger: ledger}
	p.fail = func(err error) { l.Talk("worker: %v", err) }
	inner, cancel := context.WithCancel(ctx)
	p.cancel = cancel
	for i := range workers.Count {
		if err := p.hire(inner, l, i); err != nil {
			p.stop()
			return nil, err
		}
	}
	if err := awaitWorkers(ctx, l.Client, run, workers.Count); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

func (p *pool) hire(ctx context.Context, l *Lab, i int) error {
	// Workers start at different nodes, as in production.
	at := i % len(l.Addrs)
	cl, err := l.Dial(slices.Concat(l.Addrs[at:], l.Addrs[:at]))
	if err != nil {
		return err
	}
	p.clients = append(p.clients, cl)
	w, err := client.NewWorker(cl, rota.WorkerSpec{
		ID: workerID(p.run, i), Queues: p.workers.queuesOf(i),
		Slots: int32(p.workers.Slots), Prefetch: int32(p.workers.Prefetch), CPUMilli: p.workers.CPUMilli,
	}, client.WithDrainTimeout(poolDrain), client.WithObserver(client.Observer{Reported: p.reported}))
	if err != nil {
		return err
	}
	w.Handle("", p.work)
	p.done.Go(func() {
		if err := w.Run(ctx); err != nil && ctx.Err() == nil {
			p.ledger.errors.Add(1)
			p.fail(err)
		}
	})
	return nil
}

// queuesOf returns the queues that worker i serves: as many as one may, from a different start for each worker, so that
// every queue is served.
func (w *Workers) queuesOf(i int) []rota.QueueName {
	n := len(w.Queues)
	if n <= rota.MaxQueuesPerWorker {
		return w.Queues
	}
	from, own := i*n/w.Count, make([]rota.QueueName, 0, rota.MaxQueuesPerWorker)
	for k := range rota.MaxQueuesPerWorker {
		own = append(own, w.Queues[(from+k)%n])
	}
	return own
}

func workerID(run string, i int) rota.WorkerID { return rota.WorkerID(fmt.Sprintf("%s-w%d", run, i)) }

func (p *pool) work(ctx context.Context, job *client.Job) (client.Result, error) {
	p.ledger.start(job.ID())
	defer p.ledger.stop(job.ID())
	return p.workers.Handle(ctx, job)
}

// reported records that the cluster accepted an outcome, or refused it for good. A lease that was lost after its
// handler had returned without error is declined, and its job done elsewhere.
func (p *pool) reported(e client.HandlerEvent) {
	if e.Verb == rota.VerbComplete && e.Err == nil {
		p.ledger.complete(e.Job)
	}
}

// stop ends the workers and waits for them.
func (p *pool) stop() {
	p.once.Do(func() {
		p.cancel()
		p.done.Wait()
		for _, cl := range p.clients {
			_ = cl.Close()
		}
	})
}

// Simulate is the built-in handler: it waits as long as the job specifies, or until its lease is lost, and returns the
// payload's digest.
func Simulate(ctx context.Context, job *client.Job) (client.Result, error) {
	return hold(ctx, job, job.Spec().Simulate)
}

func hold(ctx context.Context, job *client.Job, d time.Duration) (client.Result, error) {
	if pause(ctx, d) != nil {
		return client.Result{}, context.Cause(ctx)
	}
	digest := sha256.Sum256(job.Payload())
	return client.Result{Digest: digest[:]}, nil
}

// registerEach is the additional time allowed for each worker to register.
const registerEach = 20 * time.Millisecond

func awaitWorkers(ctx context.Context, c *client.Client, run string, n int) error {
	ctx, cancel := context.WithTimeout(ctx, maxAsk+time.Duration(n)*registerEach)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range n {
		group.Go(func() error { return awaitWorker(ctx, c, workerID(run, i)) })
	}
	return group.Wait()
}

func awaitWorker(ctx context.Context, c *client.Client, id rota.WorkerID) error {
	for {
		_, err := c.Worker(ctx, id)
		if err == nil || rota.KindOf(err) != rota.KindNotFound {
			return err
		}
		if pause(ctx, drainTick) != nil {
			return errors.Join(errors.New("workers did not register in time"), err)
		}
	}
}
