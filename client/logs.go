package client

import (
	"context"
	"iter"
	"time"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// followEvery is how often a followed log is read: workers send new output every 2 s.
const followEvery = time.Second

// followTries is how often a missing log is read again: the node that has it may be slow to answer, or has just handed
// it to the cluster, which it does every 2 s.
const followTries = 5

// JobLog reads the log of an attempt; if the attempt is open, the part that its worker has sent so far. NotFound means
// that the job or attempt does not exist, or that none of its log is kept.
func JobLog(ctx context.Context, c *Client, of rota.LogOf, opts ...ReadOption) (rota.AttemptLog, error) {
	ask := func(ctx context.Context, n *node, how *rotav1.Read) (*rotav1.JobLogResponse, error) {
		return n.jobs.Log(ctx, words.LogOfToWire(&of, how))
	}
	from := func(w *rotav1.JobLogResponse) (rota.AttemptLog, error) { return words.AttemptLogFromWire(of.Job, w) }
	return read(ctx, c, "read log", opts, from, ask)
}

// FollowLog reads the log of an attempt until it has ended: each item has the new part, and the last item has Open
// false. It follows one attempt, whatever happens to the job.
func FollowLog(ctx context.Context, c *Client, of rota.LogOf, opts ...ReadOption) iter.Seq2[rota.AttemptLog, error] {
	return func(yield func(rota.AttemptLog, error) bool) {
		for first, misses := true, 0; ; first = false {
			l, err := JobLog(ctx, c, of, opts...)
			if !first && misses < followTries && rota.KindOf(err) == rota.KindNotFound &&
				rota.ErrorOf(err).Subject == "lease" {
				if misses++; !pause(ctx, followEvery) {
					yield(rota.AttemptLog{}, ctx.Err())
					return
				}
				continue
			}
			if rota.KindOf(err) == rota.KindNotFound && !first {
				yield(rota.AttemptLog{Job: of.Job, Lease: of.Lease, Parts: []rota.LogPart{}}, nil) // it logged nothing
				return
			}
			if err != nil {
				yield(l, err)
				return
			}
			of.Lease, misses = l.Lease, 0
			if n := len(l.Parts); n > 0 {
				of.After = l.Parts[n-1].End()
			}
			if (len(l.Parts) > 0 || !l.Open || first) && !yield(l, nil) || !l.Open {
				return
			}
			if !pause(ctx, followEvery) {
				yield(rota.AttemptLog{}, ctx.Err())
				return
			}
		}
	}
}
