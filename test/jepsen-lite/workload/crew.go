package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/test/jepsen-lite/check"
	"github.com/rotasched/rota/test/jepsen-lite/fault"
)

const (
	crewProducers = 2
	crewWorkers   = 4
	// crewBatch is the most that a producer submits at once; crewPause is how long it waits then.
	crewBatch = 8
	crewPause = 20 * time.Millisecond
	// keepEvery is how often a worker keeps a lease: about when the last one ran out, so that one of its slots still
	// works.
	keepEvery = 4 * time.Second
	// crewKeeps bounds the remembered leases for haunt.
	crewKeeps = 12
)

// crew are the users of the aftermath. They keep their earlier tokens, whatever is lost.
type crew struct {
	submitter, worker *trial
	seed              uint64
	// stop ends the running users; nil while there are none.
	stop context.CancelFunc
	all  sync.WaitGroup

	mu sync.Mutex
	// jobs counts submitted ones; held are the newest leases that were not reported.
	jobs int
	held []heldLease
}

// heldLease is a lease that its worker neither reports nor gives back.
type heldLease struct {
	worker int
	*rotav1.Assignment
}

// muster gets the tokens of the crew.
func (a *aftermath) muster(ctx context.Context) (*crew, error) {
	with := func(holder, role string) (*trial, error) {
		badge, err := a.Cluster.NewBadge(ctx, holder, role, false)
		own := *a.trial
		own.badge = badge
		return &own, err
	}
	c := &crew{seed: a.Options.Seed}
	var err error
	if c.submitter, err = with("last-producer", "submitter"); err != nil {
		return nil, err
	}
	c.worker, err = with("last-worker", "worker")
	return c, err
}

// work starts all users.
func (c *crew) work(ctx context.Context) {
	ctx, c.stop = context.WithCancel(ctx)
	for i := range crewProducers {
		c.all.Go(func() { c.produce(ctx, i) })
	}
	for i := range crewWorkers {
		c.all.Go(func() { c.serve(ctx, i) })
	}
}

// rest ends all users: calls without an answer get none.
func (c *crew) rest() {
	if c.stop != nil {
		c.stop()
		c.all.Wait()
		c.stop = nil
	}
}

// produce submits one batch after the other.
func (c *crew) produce(ctx context.Context, i int) {
	name, r := fmt.Sprintf("last-producer-%d", i), rand.New(rand.NewPCG(c.seed, uint64(41_000+i)))
	for ctx.Err() == nil {
		batch := make([]rota.JobSpec, 1+r.IntN(crewBatch))
		for k := range batch {
			batch[k] = newJob(fmt.Sprintf("c%d-last-%d", c.seed, c.next()), r)
			batch[k].Queue = "prey"
		}
		submitAll(ctx, c.submitter, r, name, batch)
		fault.Rest(ctx, crewPause)
	}
}

// next counts a job.
func (c *crew) next() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jobs++
	return c.jobs
}

// dial connects a worker, always under the same id and secret.
func (c *crew) dial(ctx context.Context, node *fault.Server, i int) (*rawSession, error) {
	return dialRaw(ctx, c.worker, node, fmt.Sprintf("last-worker-%d", i),
		rand.New(rand.NewPCG(c.seed, uint64(42_000+i))))
}

// serve completes the jobs of a worker, and keeps one now and then.
func (c *crew) serve(ctx context.Context, i int) {
	r, kept := rand.New(rand.NewPCG(c.seed, uint64(43_000+i))), time.Time{}
	for ctx.Err() == nil {
		s, err := c.dial(ctx, c.worker.Someone(r), i)
		if err != nil {
			fault.Rest(ctx, 100*time.Millisecond)
			continue
		}
		h := &hostile{w: c.worker, r: r}
		for s.ctx.Err() == nil {
			select {
			case one := <-s.assigned:
				if time.Since(kept) > keepEvery {
					kept = time.Now()
					c.keep(heldLease{i, one})
				} else {
					h.report(s, one, completion(one), check.DidComplete)
				}
			case <-s.ctx.Done():
			}
		}
		s.close()
	}
}

func (c *crew) keep(l heldLease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = append(c.held[max(0, len(c.held)+1-crewKeeps):], l)
}

// haunt lets workers complete with earlier leases: their own ones, and each other's.
func (c *crew) haunt(ctx context.Context, node *fault.Server) {
	for _, l := range c.held {
		for _, i := range []int{l.worker, (l.worker + 1) % crewWorkers} {
			s, err := c.dial(ctx, node, i)
			if err != nil {
				c.worker.Rec.Note("%v", err)
				continue
			}
			h := &hostile{w: c.worker}
			h.forge(s, l.Assignment, completion(l.Assignment), "a lease of before the recovery")
			s.close()
		}
	}
}

// acknowledged waits until n more jobs are acknowledged.
func (c *crew) acknowledged(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, maxAct)
	defer cancel()
	count := func() (all int) {
		c.submitter.Rec.With(func(h *check.History) {
			for i := range h.Ops {
				if h.Ops[i].Func == check.OpSubmit && h.Ops[i].Outcome == check.OK {
					all++
				}
			}
		})
		return all
	}
	for until := count() + n; ; {
		now := count()
		if now >= until {
			return nil
		}
		if !fault.Rest(ctx, actPoll) {
			return fmt.Errorf("%d jobs of %d were acknowledged: %w", now+n-until, n, ctx.Err())
		}
	}
}
