package loadgen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// producers submit the jobs of a measurement. With a schedule the loop is open: a job's time counts from when it should
// have been sent, however late earlier calls were answered (no coordinated omission). Without one it is closed: every
// producer has one batch in flight.
type producers struct {
	to     submitter
	ledger *Ledger
	count  int
	batch  int
	// at returns the moment of job i, from the start; nil for a closed loop. It never decreases.
	at   func(i int) time.Duration
	spec func(i int) rota.JobSpec
	// drop gives up a refused job, for a load that does not slow down; otherwise it is sent again after the refusal's
	// delay.
	drop bool
	// patience is how long a job may be refused for lack of room before the run ends with that refusal; 0 is forever.
	patience time.Duration

	mu   sync.Mutex
	next int
}

// submitter is the part of the client that producers use.
type submitter interface {
	Submit(ctx context.Context, jobs ...rota.JobSpec) ([]rota.Submitted, error)
}

// retryDelay is how long a producer waits after a refusal without a delay.
const retryDelay = 100 * time.Millisecond

// run submits everything and returns when every job has its answer, or ctx ended.
func (p *producers) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for range p.count {
		group.Go(func() error {
			for {
				from, to, err := p.take(ctx)
				if err != nil || from == to {
					return err
				}
				if err := p.submit(ctx, from, to); err != nil {
					return err
				}
			}
		})
	}
	return group.Wait()
}

// take returns the next jobs from…to−1 once the first is due: all that are due by then, at most a batch. Other
// producers wait for the lock meanwhile.
func (p *producers) take(ctx context.Context) (from, to int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	from, most := p.next, min(p.next+p.batch, len(p.ledger.jobs))
	if from == most {
		return from, from, nil
	}
	if p.at == nil {
		p.next = most
		for i := from; i < most; i++ {
			p.ledger.plan(i, p.ledger.Now())
		}
		return from, most, nil
	}
	if err := pause(ctx, p.at(from)-time.Since(p.ledger.begin)); err != nil {
		return from, from, err
	}
	now := time.Since(p.ledger.begin)
	for to = from; to < most && (to == from || p.at(to) <= now); to++ {
		p.ledger.plan(to, int64(p.at(to))+1)
	}
	p.next = to
	return from, to, nil
}

// submit sends jobs from…to−1 until each has an answer. A retry has the same ids, so it never creates a second job.
func (p *producers) submit(ctx context.Context, from, to int) error {
	left := make([]int, 0, to-from)
	for i := from; i < to; i++ {
		left = append(left, i)
	}
	progress := time.Now()
	for first := true; len(left) > 0; first = false {
		specs := make([]rota.JobSpec, len(left))
		for k, i := range left {
			specs[k] = p.spec(i)
			specs[k].Minted = first // by this run; a retry may find its own first try
		}
		outcomes, err := p.call(ctx, specs)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		refusal := err
		if err != nil {
			p.ledger.errors.Add(1)
			if !mayRetry(err) {
				return fmt.Errorf("submit: %w", err)
			}
			if len(outcomes) == 0 && rota.KindOf(err) == rota.KindExhausted {
				p.ledger.refuse(len(left), rota.RetryAfterOf(err))
				if p.drop {
					return nil
				}
			}
		}
		if len(outcomes) == len(left) {
			// A call that failed midway has outcomes for a part of its jobs.
			before := len(left)
			if left, refusal, err = p.answers(left, outcomes); err != nil {
				return err
			}
			if len(left) < before {
				progress = time.Now()
			}
		} else if err == nil {
			return fmt.Errorf("submit: %d outcomes for %d jobs", len(outcomes), len(left))
		}
		if len(left) > 0 {
			if waits := time.Since(progress); p.patience > 0 && waits > p.patience &&
				rota.KindOf(refusal) == rota.KindExhausted {
				return fmt.Errorf("submit: no room for %s: %w", waits.Round(time.Second), refusal)
			}
			if err := pause(ctx, cmp.Or(rota.RetryAfterOf(refusal), retryDelay)); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxCall bounds one call: after it a producer counts an error and calls again.
const maxCall = 30 * time.Second

func (p *producers) call(ctx context.Context, specs []rota.JobSpec) ([]rota.Submitted, error) {
	ctx, cancel := context.WithTimeout(ctx, maxCall)
	defer cancel()
	return client.EachOutcome(p.to.Submit(ctx, specs...))
}

// answers records the outcomes and returns the jobs to be tried again, and of their refusals the one with the longest
// delay.
func (p *producers) answers(left []int, outcomes []rota.Submitted) (again []int, refusal, err error) {
	for k, o := range outcomes {
		if o.Err == nil {
			p.ledger.accept(left[k])
			continue
		}
		p.ledger.errors.Add(1)
		if !mayRetry(o.Err) {
			return nil, nil, fmt.Errorf("submit %s: %w", p.ledger.id(left[k]), o.Err)
		}
		if rota.KindOf(o.Err) == rota.KindExhausted {
			p.ledger.refuse(1, rota.ErrorOf(o.Err).RetryAfter)
			if errors.Is(o.Err, client.ErrHeldBack) {
				p.ledger.held.Add(1)
			}
			if p.drop {
				continue
			}
		}
		again = append(again, left[k])
		if refusal == nil || rota.RetryAfterOf(o.Err) > rota.RetryAfterOf(refusal) {
			refusal = o.Err
		}
	}
	return again, refusal, nil
}

// mayRetry reports whether waiting may fix the refusal: no leader, no room.
func mayRetry(err error) bool {
	switch rota.KindOf(err) {
	case rota.KindUnavailable, rota.KindExhausted, rota.KindTimeout:
		return true
	default:
		return errors.Is(err, context.DeadlineExceeded)
	}
}
