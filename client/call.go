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
	// backoffLeast and backoffMost bound the pause between two tries.
	backoffLeast = 50 * time.Millisecond
	backoffMost  = time.Second
	// retryAfterMost bounds a pause that a node asks for: another may know better.
	retryAfterMost = 5 * time.Second
	// answerMost is how long one of several nodes may take before another is
	// asked: a node that is cut off or paused waits for its leader in vain.
	answerMost = 5 * time.Second
	// timerMost is how long a context's timer may be late.
	timerMost = time.Second
	// unbounded leaves a call as much time as the context has.
	unbounded time.Duration = 0
)

// nodeCall is one try at one node.
type nodeCall func(ctx context.Context, n *node) error

// call asks the present node, then the next ones, until one answers, an error
// comes that another try does not mend, or ctx ends. most bounds one try where
// there is another node to ask.
func (c *Client) call(ctx context.Context, op string, most time.Duration, f nodeCall) error {
	if c.patience > 0 && most > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.patience)
		defer cancel()
	}
	return c.callAt(ctx, op, func() (*node, time.Duration) { return c.present(), most }, f)
}

// callAt is call, but of the node that at names before each try, for so long.
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
			if !errors.Is(ctx.Err(), context.Canceled) { // it had the caller's whole time: the next call has another way
				c.lead.lost(n)
			}
			return c.gaveUp(ctx, op, last)
		}
		// A reason from a node is worth more than silence.
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

// attempt is one try on one node.
func (c *Client) attempt(ctx context.Context, n *node, most time.Duration, f nodeCall) error {
	if most > 0 && len(c.nodes) > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, share(ctx, most, len(c.nodes)))
		defer cancel()
	}
	return f(ctx, n)
}

// shareLeast is the least that one try gets: less is no fair chance.
const shareLeast = 700 * time.Millisecond

// share bounds a try at one of so many nodes, so that a silent one leaves the others their
// part of a short deadline.
func share(ctx context.Context, most time.Duration, nodes int) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return most
	}
	return min(most, max(shareLeast, time.Until(deadline)/time.Duration(nodes)))
}

// judge names what went wrong at a node. A try that took too long while the
// caller still has time is the node's fault, and its outcome is unknown.
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

// ended reports whether the caller's time is over. A node gets the same deadline and
// may notice it first: ctx's own timer is then still to fire, and is waited for, so
// that a caller who looks at ctx afterwards sees what is returned here. Not for long: a
// deadline given as a date passes when the wall clock is set past it, the timer's time
// does not.
func ended(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	if !ok || time.Now().Before(deadline) {
		return ctx.Err() != nil
	}
	late := time.NewTimer(timerMost)
	defer late.Stop()
	select {
	case <-ctx.Done():
	case <-late.C:
	}
	return true
}

// gaveUp returns the error of a call whose time ended before a node answered: Unavailable,
// for it is the cluster that was waited for, or Timeout where the caller cancelled. It wraps
// the last error, ctx's own error and its cause.
func (c *Client) gaveUp(ctx context.Context, op string, last *rota.Error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return &rota.Error{Kind: rota.KindTimeout, Op: op, Text: "cancelled by the caller", Cause: endOf(ctx)}
	}
	e := &rota.Error{Kind: rota.KindUnavailable, Op: op, Text: "no node of " + addressesOf(c) + " answered in time", Cause: endOf(ctx)}
	if last != nil {
		e.Text, e.Cause, e.RetryAfter = e.Text+", the last error was", &lastError{last, e.Cause}, last.RetryAfter
	}
	return e
}

// failed returns the error of a call that is made once.
func (c *Client) failed(ctx context.Context, op string, n *node, err error) error {
	e := *during(op, judge(ctx, n, err))
	if e.Cause == nil && ended(ctx) {
		e.Cause = endOf(ctx)
	}
	return &e
}

// endOf returns why the caller's time is over: ctx's error, and its cause where that is
// another. A deadline may have passed although ctx does not say so: a call's patience ends
// so, and so does a wait that a node ends a little before the caller would.
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

// endError is the end of a context that has a cause of its own.
type endError struct{ end, cause error }

func (e *endError) Error() string   { return e.end.Error() + ": " + e.cause.Error() }
func (e *endError) Unwrap() []error { return []error{e.end, e.cause} }

// lastError is the last error of a call whose time ended. It reads as that error alone.
type lastError struct {
	last *rota.Error
	end  error
}

func (e *lastError) Error() string   { return e.last.Error() }
func (e *lastError) Unwrap() []error { return []error{e.last, e.end} }

// present is the node that calls go to now.
func (c *Client) present() *node { return c.nodes[int(c.at.Load())%len(c.nodes)] }

// moveOn leaves a node that failed, unless another call did so already.
func (c *Client) moveOn(failed *node) {
	at := c.at.Load()
	if c.nodes[int(at)%len(c.nodes)] == failed {
		c.at.CompareAndSwap(at, (at+1)%uint32(len(c.nodes)))
	}
}

// during adds to an error the call that it stopped.
func during(op string, e *rota.Error) *rota.Error {
	if e.Op != "" {
		return e
	}
	named := *e
	named.Op = op
	return &named
}

// retryDelay is the pause after a failed try: doubling, with jitter so that a
// crowd does not come back as one, and never less than the node asked for.
func retryDelay(try int, asked time.Duration) time.Duration {
	d := backoffMost
	if try < 5 {
		d = min(backoffLeast<<try, backoffMost)
	}
	d = d/2 + rand.N(d/2+1)
	return max(d, min(asked, retryAfterMost))
}

// pause waits, and reports false where ctx ended first.
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
