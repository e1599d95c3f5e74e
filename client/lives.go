package client

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// readsAtOnce bounds the concurrent reads of a call for many jobs.
const readsAtOnce = 32

// Retry revives jobs that are DEAD, EXPIRED or CANCELLED (SPEC §9.1) and returns the outcome of each at its index. The
// life that a retry follows is read before the first try and sent with every try: a retry whose answer was lost
// succeeds, and a job that has ended again since then is refused as Stale.
func (c *Client) Retry(ctx context.Context, ids ...rota.JobID) ([]rota.JobOutcome, error) {
	return c.retryLives(ctx, ids, make(map[string]int32, len(ids)))
}

// RetryLives is Retry for the named lives: a life that is no longer the job's last is refused as Stale.
func (c *Client) RetryLives(ctx context.Context, retries ...rota.JobRetry) ([]rota.JobOutcome, error) {
	ids, lives := make([]rota.JobID, len(retries)), make(map[string]int32, len(retries))
	for i, r := range retries {
		ids[i], lives[string(r.ID)] = r.ID, r.Life
	}
	return c.retryLives(ctx, ids, lives)
}

// retryLives adds the lives that it reads to lives.
func (c *Client) retryLives(ctx context.Context, ids []rota.JobID, lives map[string]int32) ([]rota.JobOutcome, error) {
	retry := func(ctx context.Context, n *node, part []string) (*rotav1.JobOutcomes, error) {
		if err := findLives(ctx, n, part, lives); err != nil {
			return nil, err
		}
		request := &rotav1.RetryJobsRequest{Ids: part, Lives: make([]int32, len(part))}
		for i, id := range part {
			request.Lives[i] = lives[id]
		}
		return n.jobs.Retry(ctx, request)
	}
	return c.change(ctx, "retry", ids, retry)
}

// findLives adds to lives the life of each job that a retry follows.
func findLives(ctx context.Context, n *node, ids []string, lives map[string]int32) error {
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readsAtOnce)
	for _, id := range ids {
		mu.Lock()
		_, known := lives[id]
		mu.Unlock()
		if known {
			continue
		}
		group.Go(func() error {
			job, err := briefly(ctx, n, id)
			life := job.RetryLife()
			switch e := words.FromStatus(err); {
			case e == nil:
			case e.Kind == rota.KindNotFound, e.Kind == rota.KindInvalid:
				life = rota.AnyLife // the retry's outcome reports the problem
			default:
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			lives[id] = life
			return nil
		})
	}
	return group.Wait()
}

// briefly reads a job without payload, output and attempts.
func briefly(ctx context.Context, n *node, id string) (rota.Job, error) {
	answer, err := n.jobs.Get(ctx, &rotav1.GetJobRequest{Id: id, Brief: true})
	if err != nil {
		return rota.Job{}, err
	}
	return words.JobFromWire(answer.GetJob())
}
