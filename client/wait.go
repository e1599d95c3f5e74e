package client

import (
	"context"
	"errors"
	"io"
	"iter"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/limits"
)

const (
	// waitIDs bounds the jobs that one stream waits for, waitStreams the concurrent streams; further jobs wait for a
	// free stream.
	waitIDs     = limits.MaxBatchJobs
	waitStreams = 8
)

// Wait returns each job once when it is terminal, and ends after the last one. Jobs that share a stream (up to 1,000)
// come in the order in which they end. It subscribes again at another node when its node fails. If ctx ends, the kind
// is Timeout if a node was still waiting, else Unavailable.
func (c *Client) Wait(ctx context.Context, ids ...rota.JobID) iter.Seq2[rota.Job, error] {
	return func(yield func(rota.Job, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		jobs, gone, over := make(chan rota.Job), make(chan struct{}), make(chan error, 1)
		go func() {
			defer close(over)
			over <- c.wait(ctx, ids, func(job rota.Job) error {
				select {
				case jobs <- job:
					return nil
				case <-gone:
					return errBroken
				}
			})
		}()
		defer func() { // the goroutine ends before the loop does
			close(gone)
			cancel()
			for range over {
			}
		}()
		for {
			select {
			case job := <-jobs:
				if !yield(job, nil) {
					return
				}
			case err := <-over:
				if err != nil {
					yield(rota.Job{}, err)
				}
				return
			}
		}
	}
}

// errBroken ends a stream whose reader left its loop.
var errBroken = errors.New("the loop was broken")

// wait calls done once for each job that ends, concurrently; an error of done ends the wait and is returned.
func (c *Client) wait(ctx context.Context, ids []rota.JobID, done func(rota.Job) error) error {
	left := make(map[rota.JobID]struct{}, len(ids))
	once := make([]rota.JobID, 0, len(ids))
	for _, id := range ids {
		if _, twice := left[id]; !twice {
			left[id] = struct{}{}
			once = append(once, id)
		}
	}
	if len(once) <= waitIDs {
		return (&subscription{c: c, ids: once, left: left, done: done}).run(ctx)
	}
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(waitStreams)
	for len(once) > 0 {
		part := once[:min(len(once), waitIDs)]
		once = once[len(part):]
		mine := make(map[rota.JobID]struct{}, len(part))
		for _, id := range part {
			mine[id] = struct{}{}
		}
		group.Go(func() error { return (&subscription{c: c, ids: part, left: mine, done: done}).run(inner) })
	}
	return group.Wait()
}

// subscription is one subscription, over as many streams as needed.
type subscription struct {
	c    *Client
	ids  []rota.JobID
	left map[rota.JobID]struct{}
	done func(rota.Job) error
	// sure is the job that a linearizable read looked for before a NotFound was accepted: a node's replica may lag
	// behind a submission.
	sure rota.JobID
}

// doneError carries the caller's own error through the retry loop.
type doneError struct{ err error }

func (e *doneError) Error() string { return e.err.Error() }

func (w *subscription) run(ctx context.Context) error {
	var last *rota.Error
	began := time.Now()
	for try := 0; len(w.left) > 0; {
		n := w.c.present()
		came, err := w.subscribe(ctx, n)
		if came {
			try, last, began = 0, nil, time.Now()
		}
		var own *doneError
		if errors.As(err, &own) {
			return own.err
		}
		if len(w.left) == 0 {
			return nil
		}
		if err == nil {
			err = rota.Refusef(rota.KindUnavailable, "", "the stream ended before the jobs did")
		}
		if stop := w.stopped(ctx, n, err, last); stop != nil {
			return stop
		}
		if last = judge(ctx, n, err); last.Kind != rota.KindNotFound {
			w.c.moveOn(n)
			w.c.retrying(ctx, "wait", n, began, last)
		} // else the linearizable read found the job: ask this node again
		if !pause(ctx, retryDelay(try, last.RetryAfter)) {
			return w.c.gaveUp(ctx, "wait", last)
		}
		try++
	}
	return nil
}

// stopped reports whether an error ends the wait.
func (w *subscription) stopped(ctx context.Context, n *node, err error, last *rota.Error) error {
	e := judge(ctx, n, err)
	switch {
	case w.c.life.Err() != nil:
		return &rota.Error{Kind: rota.KindUnavailable, Op: "wait", Text: "the client is closed"}
	case ended(ctx) && last != nil && !toldOver(ctx, err):
		return w.c.gaveUp(ctx, "wait", last)
	case ended(ctx), toldOver(ctx, err):
		text := plural(len(w.left), "job") + " did not end in time"
		return &rota.Error{Kind: rota.KindTimeout, Op: "wait", Text: text, Cause: endOf(ctx)}
	case e.Kind == rota.KindNotFound && !w.believed(e):
		_, err := w.c.Job(ctx, w.sure)
		return err
	case e.Kind != rota.KindUnavailable:
		return during("wait", e)
	}
	return nil
}

// toldOver reports whether the node itself ended the wait: it does so slightly before the caller's deadline, while the
// caller still listens (SPEC §13.1).
func toldOver(ctx context.Context, err error) bool {
	_, bounded := ctx.Deadline()
	e := words.FromStatus(err)
	return bounded && e.Kind == rota.KindTimeout && e.Cause == nil
}

// believed reports whether a linearizable read already confirmed that a job is missing; if not, it records the job to
// be checked.
func (w *subscription) believed(e *rota.Error) bool {
	id := rota.JobID(e.Subject)
	if _, mine := w.left[id]; !mine {
		for id = range w.left {
			break
		}
	}
	if w.sure != "" && (w.sure == id || e.Subject != string(id)) {
		return true
	}
	w.sure = id
	return false
}

// subscribe listens at one node and reports whether anything was received.
func (w *subscription) subscribe(ctx context.Context, n *node) (came bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	request := &rotav1.WaitJobsRequest{Ids: make([]string, 0, len(w.left))}
	for _, id := range w.ids {
		if _, open := w.left[id]; open {
			request.Ids = append(request.Ids, string(id))
		}
	}
	stream, err := n.jobs.Wait(ctx, request)
	if err != nil {
		return false, err
	}
	for {
		wire, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return came, nil
		}
		if err != nil {
			return came, err
		}
		came = true
		job, err := words.JobFromWire(wire)
		if err != nil {
			return came, err
		}
		if _, open := w.left[job.ID]; !open {
			continue
		}
		delete(w.left, job.ID)
		if err := w.done(job); err != nil {
			return came, &doneError{err}
		}
	}
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
