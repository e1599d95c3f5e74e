package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// crewPlan says which workers a measurement runs.
type crewPlan struct {
	run string
	// queues are parted among the workers where one may not serve them all; else
	// everyone serves all.
	queues                   []rota.QueueName
	workers, slots, prefetch int
	cpuMilli                 int64
	// addrs are the nodes to connect to; --addr where none are given.
	addrs  []string
	handle func(context.Context, *client.Job) error
}

// crew is workers of this process, each with its own connection, that write
// into the ledger what happens to them.
type crew struct {
	book    *ledger
	handle  func(context.Context, *client.Job) error
	clients []*client.Client

	cancel context.CancelFunc
	done   sync.WaitGroup
	once   sync.Once
	fail   func(error)
}

// crewDrain is how long handlers may go on at the end: there should be none.
const crewDrain = 5 * time.Second

// startCrew starts the workers. stop ends them.
func (a *app) startCrew(ctx context.Context, plan crewPlan, book *ledger) (*crew, error) {
	c := &crew{book: book, handle: plan.handle}
	c.fail = func(err error) { a.talk("worker: %v", err) }
	ctx, c.cancel = context.WithCancel(ctx)
	addrs := plan.addrs
	if len(addrs) == 0 {
		addrs = a.addrs
	}
	for i := range plan.workers {
		// Workers start at different nodes, as they would in life.
		turned := append(append([]string(nil), addrs[i%len(addrs):]...), addrs[:i%len(addrs)]...)
		if err := c.hire(ctx, a, plan, i, turned); err != nil {
			c.stop()
			return nil, err
		}
	}
	return c, nil
}

func (c *crew) hire(ctx context.Context, a *app, plan crewPlan, i int, addrs []string) error {
	cl, err := a.dialTo(addrs)
	if err != nil {
		return err
	}
	c.clients = append(c.clients, cl)
	w, err := client.NewWorker(cl, rota.WorkerSpec{
		ID: crewID(plan.run, i), Queues: plan.queuesOf(i),
		Slots: int32(plan.slots), Prefetch: int32(plan.prefetch), CPUMilli: plan.cpuMilli,
	}, client.WithDrainTimeout(crewDrain), client.WithObserver(client.Observer{Reported: c.reported}))
	if err != nil {
		return err
	}
	w.Handle("", c.work)
	c.done.Go(func() {
		if err := w.Run(ctx); err != nil && ctx.Err() == nil {
			c.book.errors.Add(1)
			c.fail(err)
		}
	})
	return nil
}

// queuesOf are the queues that worker i serves: as many as one may, from a place of
// its own on, so that every queue has somebody.
func (p *crewPlan) queuesOf(i int) []rota.QueueName {
	n := len(p.queues)
	if n <= rota.MaxQueuesPerWorker {
		return p.queues
	}
	from, own := i*n/p.workers, make([]rota.QueueName, 0, rota.MaxQueuesPerWorker)
	for k := range rota.MaxQueuesPerWorker {
		own = append(own, p.queues[(from+k)%n])
	}
	return own
}

func crewID(run string, i int) rota.WorkerID { return rota.WorkerID(fmt.Sprintf("%s-w%d", run, i)) }

func (c *crew) work(ctx context.Context, job *client.Job) (client.Result, error) {
	c.book.start(job.ID())
	defer c.book.stop(job.ID())
	if err := c.handle(ctx, job); err != nil {
		return client.Result{}, err
	}
	return payloadResult(job), nil
}

// reported hears that the cluster took an outcome, or refused it for good. A lease that
// was lost after its handler had returned well is declined, and its job done elsewhere.
func (c *crew) reported(e client.HandlerEvent) {
	if e.Verb == rota.VerbComplete && e.Err == nil {
		c.book.complete(e.Job)
	}
}

// stop ends the workers and waits for them.
func (c *crew) stop() {
	c.once.Do(func() {
		c.cancel()
		c.done.Wait()
		for _, cl := range c.clients {
			_ = cl.Close()
		}
	})
}

// registerEach is how much longer than for one it may take for each worker to be there.
const registerEach = 20 * time.Millisecond

// awaitWorkers waits until the cluster knows all workers of a run: what is
// measured begins with everybody there.
func awaitWorkers(ctx context.Context, c *client.Client, run string, n int) error {
	ctx, cancel := context.WithTimeout(ctx, defaultTimeout+time.Duration(n)*registerEach)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(askAtOnce)
	for i := range n {
		group.Go(func() error { return awaitWorker(ctx, c, crewID(run, i)) })
	}
	return group.Wait()
}

func awaitWorker(ctx context.Context, c *client.Client, id rota.WorkerID) error {
	for {
		_, _, err := c.Worker(ctx, id, rota.ReadOptions{})
		if err == nil || rota.KindOf(err) != rota.NotFound {
			return err
		}
		if pause(ctx, drainTick) != nil {
			return errors.Join(errors.New("workers did not register in time"), err)
		}
	}
}
