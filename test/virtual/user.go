package virtual

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/millis"
	"github.com/rotasched/rota/test/jepsen-lite/check"
)

// user submits jobs, repeats unanswered requests elsewhere, cancels and retries.
type user struct {
	life   *life
	host   host
	random *rand.Rand
	// at has a client for each node.
	at []*client.Client
	// open holds jobs that may still be cancelled or retried.
	open   []rota.JobID
	minted int
}

func newUser(l *life, number int) *user {
	return &user{life: l, host: host(fmt.Sprintf("u%d", number+1)),
		random: rand.New(rand.NewPCG(l.seed, 100+uint64(number)))}
}

// maxThink is the longest wait between two actions of a user.
const maxThink = 18 * time.Second

func (u *user) run() {
	for _, s := range u.life.servers {
		u.at = append(u.at, u.life.dial(u.host, []*server{s}))
	}
	defer func() {
		for _, c := range u.at {
			_ = c.Close()
		}
	}()
	for u.life.pause(time.Duration(u.random.Int64N(int64(maxThink)))) {
		if u.life.calm.Load() {
			continue
		}
		switch k := u.random.IntN(24); {
		case k == 0 && len(u.open) > 0:
			u.cancel(u.take())
		case k == 1 && len(u.open) > 0:
			u.retry(u.take())
		case k < 4:
			u.submitFlow()
		case k < 10:
			u.piece()
		default:
			u.submit()
		}
	}
}

// take returns one of the newest jobs.
func (u *user) take() rota.JobID {
	i := max(0, len(u.open)-1-u.random.IntN(5))
	id := u.open[i]
	u.open = slices.Delete(u.open, i, i+1)
	return id
}

// submit submits a few jobs under ids of their own, until each has a definite answer.
func (u *user) submit() {
	var specs []rota.JobSpec
	for range 1 + u.random.IntN(4) {
		u.minted++
		s := rota.NewJobSpec(rota.JobType(fmt.Sprintf("t%d", u.random.IntN(4))), drawTask(u.random).payload())
		s.ID, s.Queue, s.Priority = rota.JobID(fmt.Sprintf("%s-%d", u.host,
			u.minted)), queueName, int32(u.random.IntN(11))
		switch u.random.IntN(10) {
		case 0:
			s.Delay = millis.Duration(int64(u.random.IntN(5_000)))
		case 1:
			s.TTL = millis.Duration(int64(1_500 + u.random.IntN(20_000)))
		case 2:
			s = drawSteady(u.random, s.ID)
		}
		specs = append(specs, s)
		u.life.ledger.change(s.ID, func(r *jobRecord) { r.ttl = s.TTL })
	}
	u.open = append(u.open, u.offer(specs)...)
}

// offer submits jobs until each has a definite answer, and returns the accepted ones.
func (u *user) offer(specs []rota.JobSpec) (taken []rota.JobID) {
	kept := u.life.ledger.kept
	for try := 0; len(specs) > 0 && u.life.ctx.Err() == nil; try++ {
		invoke := kept.Now()
		outcomes, _ := callElsewhere(u, func(ctx context.Context, c *client.Client) ([]rota.Submitted, error) {
			return client.EachOutcome(c.Submit(ctx, specs...))
		})
		var again []rota.JobSpec
		for i, o := range outcomes {
			op := check.Op{Process: string(u.host), Func: check.OpSubmit, Job: string(specs[i].ID), Invoke: invoke,
				Existed: o.Existed, Output: string(o.Holder)}
			if o.Holder != "" && o.Err == nil {
				op.Func = check.OpMerge
			}
			kept.Add(op.Done(kept, o.Err))
			switch {
			case op.Func == check.OpMerge: // it is not a job of its own
			case o.Err == nil:
				u.life.ledger.change(specs[i].ID, func(r *jobRecord) { r.accepted = true })
				taken = append(taken, specs[i].ID)
			case unknown(o.Err):
				again = append(again, specs[i])
			case try == 0: // later, an earlier try may still be accepted
				u.life.ledger.change(specs[i].ID, func(r *jobRecord) { r.refused = true })
			}
		}
		u.life.ledger.count(func(c *ledgerCounts) { c.submitted += len(specs) - len(again); c.unknown += len(again) })
		specs = again
	}
	return taken
}

// unknown reports whether the outcome of a call is unknown.
func unknown(err error) bool {
	return rota.KindOf(err) == rota.KindUnavailable || rota.KindOf(err) == rota.KindTimeout
}

// callElsewhere makes one call at one node, drawn again each time, with a short timeout.
func callElsewhere[A any](u *user, f func(context.Context, *client.Client) (A, error)) (A, error) {
	ctx, cancel := context.WithTimeout(u.life.ctx,
		500*time.Millisecond+time.Duration(u.random.IntN(3_000))*time.Millisecond)
	defer cancel()
	return f(ctx, u.at[u.random.IntN(len(u.at))])
}

// cancel sends one request, which may be lost.
func (u *user) cancel(id rota.JobID) {
	u.life.ledger.change(id, func(r *jobRecord) { r.cancelled++ })
	_, _ = callElsewhere(u, func(ctx context.Context, c *client.Client) ([]rota.JobOutcome, error) {
		return c.Cancel(ctx, id)
	})
}

// retry requests once that an ended job runs again: refused if it has not ended.
func (u *user) retry(id rota.JobID) {
	u.life.ledger.change(id, func(r *jobRecord) { r.retried++ })
	_, _ = callElsewhere(u, func(ctx context.Context, c *client.Client) ([]rota.JobOutcome, error) {
		return c.Retry(ctx, id)
	})
}

func (l *ledger) count(f func(*ledgerCounts)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(&l.counts)
}
