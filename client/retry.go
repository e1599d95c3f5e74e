package client

import (
	"context"
	"time"

	"github.com/rotasched/rota"
)

// FailedTry is a try that failed and is repeated, at this node or another.
type FailedTry struct {
	// Op is the call, Address the node that failed, Err its error.
	Op, Address string
	Err         *rota.Error
	// Began is the first try of the call, or of the part of it that was interrupted; Until is when the call is given
	// up, zero for never.
	Began, Until time.Time
}

// WithRetries calls f for each try that failed and is repeated. f is called concurrently and must return at once.
func WithRetries(f func(FailedTry)) Option { return func(s *settings) { s.retries = f } }

// retrying reports a failed try.
func (c *Client) retrying(ctx context.Context, op string, n *node, began time.Time, e *rota.Error) {
	if c.retries == nil {
		return
	}
	until, _ := ctx.Deadline()
	if soon := began.Add(c.patience); c.patience > 0 && (until.IsZero() || soon.Before(until)) {
		until = soon
	}
	c.retries(FailedTry{Op: op, Address: n.address, Err: e, Began: began, Until: until})
}
