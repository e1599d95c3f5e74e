package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/words"
)

const (
	// minBackoff and maxBackoff bound the pause between two tries.
	minBackoff = 50 * time.Millisecond
	maxBackoff = time.Second
	// maxRetryAfter bounds the pause that a node can ask for: another node may answer sooner.
	maxRetryAfter = 5 * time.Second
	// maxAnswer is how long one of several nodes may take before another is tried: a node that is cut off or paused
	// cannot reach its leader.
	maxAnswer = 5 * time.Second
	// maxTimer bounds how late a context's timer may fire.
	maxTimer = time.Second
	// unbounded lets a call use all the time of its context.
	unbounded time.Duration = 0
)

// nodeCall is one try at one node.
type nodeCall func(ctx context.Context, n *node) error

// call tries the current node, then the next ones, until one answers, an error cannot be fixed by another try, or ctx
// ends. most bounds one try if there is another node to try.
func (c *Client) call(ctx context.Context, op string, most time.Duration, f nodeCall) error {
	if c.patience > 0 && most > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.patience)
		defer cancel()
	}
	return c.callAt(ctx, op, func() (*node, time.Duration) { return c.present(), most }, f)
}

// callAt is call with the node and the bound of each try chosen by at.
func (c *Client) callAt(ctx context.Context, op string, at func() (*node, time.Duration), f nodeCall) error {
	var last *rota.Error
	began := time.Now()
	for try := 0; ; try++ {
		n, most := at()
		err := c.attempt(ctx, n, most, f)
		if err == nil {
			return nil
		}
		e := judge(ctx, n, err)
		switch {
		case c.life.Err() != nil:
			return &rota.Error{Kind: rota.KindUnavailable, Op: op, Text: "the client is closed"}
		case e.Kind != rota.KindUnavailable && e.Kind != rota.KindTimeout:
			return during(op, e)
		case ended(ctx):
			if !errors.Is(ctx.Err(), context.Canceled) { // it had all the time: the next call moves on
				c.lead.lost(n)
			}
			return c.gaveUp(ctx, op, last)
		}
		// A node's reason is more useful than a timeout.
		if last == nil || words.FromStatus(err).Kind != rota.KindTimeout {
			last = e
		}
		if c.patience > 0 && time.Since(began) >= c.patience {
			return c.gaveUp(ctx, op, last)
		}
		c.moveOn(n)
		c.lead.lost(n)
		c.retrying(ctx, op, n, began, e)
		c.log.Debug("call failed, trying again", "op", op, "node", n.address, "try", try, "err", e)
		if !pause(ctx, retryDelay(try, e.RetryAfter)) {
			return c.gaveUp(ctx, op, last)
		}
	}
}

// attempt makes one try at one node.
func (c *Client) attempt(ctx context.Context, n *node, most time.Duration, f nodeCall) error {
	if most > 0 && len(c.nodes) > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, share(ctx, most, len(c.nodes)))
		defer cancel()
	}
	return f(ctx, n)
}

// minShare is the minimum time of one try.
const minShare = 700 * time.Millisecond

// share returns the time for a try at one of nodes nodes, so that a silent node leaves the others part of a short
// deadline.
func share(ctx context.Context, most time.Duration, nodes int) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return most
	}
	return min(most, max(minShare, time.Until(deadline)/time.Duration(nodes)))
}

// judge converts the error of a try. If a try timed out while the caller still has time, the node is at fault and the
// outcome is unknown.
func judge(ctx context.Context, n *node, err error) *rota.Error {
	e := words.FromStatus(err)
	if e.Kind == rota.KindTimeout && !ended(ctx) {
		text := fmt.Sprintf("node %s did not answer in time", n.address)
		return &rota.Error{Kind: rota.KindUnavailable, Text: text}
	}
	if e.Kind == rota.KindUnavailable {
		named := *e
		named.Text = fmt.Sprintf("node %s: %s", n.address, e.Text)
		return &named
	}
	return e
}

// ended reports whether the caller's time is over. A node gets the same deadline and may notice its end first. ended
// then waits until ctx's own timer fires, so that ctx agrees with the error returned here. It waits at most maxTimer:
// a deadline given as a date passes when the wall clock is set forward, but the timer runs on the monotonic clock.
func ended(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	if !ok || time.Now().Before(deadline) {
		return ctx.Err() != nil
	}
	late := time.NewTimer(maxTimer)
	defer late.Stop()
	select {
	case <-ctx.Done():
	case <-late.C:
	}
	return true
}

// gaveUp returns the error of a call whose time ended before a node answered: Unavailable, because the cluster did not
// answer, or Timeout if the caller cancelled. It wraps the last error, ctx's own error and its cause.
func (c *Client) gaveUp(ctx context.Context, op string, last *rota.Error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return &rota.Error{Kind: rota.KindTimeout, Op: op, Text: "cancelled by the caller", Cause: endOf(ctx)}
	}
	e := &rota.Error{Kind: rota.KindUnavailable, Op: op, Text: "no node of " + addressesOf(c) + " answered in time",
		Cause: endOf(ctx)}
	if last != nil {
		e.Text, e.Cause, e.RetryAfter = e.Text+", the last error was", &lastError{last, e.Cause}, last.RetryAfter
	}
	return e
}

// failed returns the error of a call that is not retried.
func (c *Client) failed(ctx context.Context, op string, n *node, err error) error {
	e := *during(op, judge(ctx, n, err))
	if e.Cause == nil && ended(ctx) {
		e.Cause = endOf(ctx)
	}
	return &e
}

// endOf returns why the caller's time is over: ctx's error, and its cause if that differs. The deadline may have passed
// although ctx is not done yet: when a call's patience ends, or when a node ends a wait slightly before the caller
// would.
func endOf(ctx context.Context) error {
	err := ctx.Err()
	if err == nil {
		return context.DeadlineExceeded
	}
	if cause := context.Cause(ctx); cause != err {
		return &endError{err, cause}
	}
	return err
}

// endError is the end of a context with a cause of its own.
type endError struct{ end, cause error }

func (e *endError) Error() string   { return e.end.Error() + ": " + e.cause.Error() }
func (e *endError) Unwrap() []error { return []error{e.end, e.cause} }

// lastError wraps the last error of a call whose time ended. Its text is only that error's.
type lastError struct {
	last *rota.Error
	end  error
}

func (e *lastError) Error() string   { return e.last.Error() }
func (e *lastError) Unwrap() []error { return []error{e.last, e.end} }

// present returns the node that calls go to now.
func (c *Client) present() *node { return c.nodes[int(c.at.Load())%len(c.nodes)] }

// moveOn switches to the next node, unless another call did so already.
func (c *Client) moveOn(failed *node) {
	at := c.at.Load()
	if c.nodes[int(at)%len(c.nodes)] == failed {
		c.at.CompareAndSwap(at, (at+1)%uint32(len(c.nodes)))
	}
}

// during adds the name of the call to an error.
func during(op string, e *rota.Error) *rota.Error {
	if e.Op != "" {
		return e
	}
	named := *e
	named.Op = op
	return &named
}

// retryDelay returns the pause after a failed try: it doubles with each try, has jitter so that many clients do not
// return together, and is never shorter than the node asked for.
func retryDelay(try int, asked time.Duration) time.Duration {
	d := maxBackoff
	if try < 5 {
		d = min(minBackoff<<try, maxBackoff)
	}
	d = d/2 + rand.N(d/2+1)
	return max(d, min(asked, maxRetryAfter))
}

// pause waits for d and reports false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
