package client

import (
	"context"
	"errors"
	"time"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// maxWait is how long one node may wait for the end of a workflow or a batch before the next node is tried: a node
// that is cut off from the others would never answer.
const maxWait = 20 * time.Second

// WaitWorkflow returns a workflow, without nodes, once it is over. It retries, at other nodes too, until ctx ends; the
// kind then is Timeout if a node was still waiting for the workflow, else Unavailable.
func (c *Client) WaitWorkflow(ctx context.Context, id rota.WorkflowID) (rota.Workflow, error) {
	w := endWait[rota.Workflow]{op: "wait workflow", what: "workflow " + string(id), id: string(id)}
	w.ask = func(ctx context.Context, n *node) (rota.Workflow, error) {
		wire, err := n.flows.Wait(ctx, &rotav1.WaitWorkflowRequest{Id: string(id)})
		if err != nil {
			return rota.Workflow{}, words.FromStatus(err)
		}
		return words.WorkflowFromWire(wire)
	}
	w.look = func(ctx context.Context) (rota.Workflow, bool, error) {
		flow, err := c.Workflow(ctx, id)
		return flow, flow.State.Terminal(), err
	}
	return awaitEnd(ctx, c, &w)
}

// endWait is a wait for the end of one object.
type endWait[T any] struct {
	op, what, id string
	// ask makes one node wait for it, once; look reads it, and reports whether it has ended.
	ask  func(context.Context, *node) (T, error)
	look func(context.Context) (T, bool, error)
}

// awaitEnd asks one node after another until one reports the end.
func awaitEnd[T any](ctx context.Context, c *Client, w *endWait[T]) (none T, err error) {
	var last *rota.Error
	began := time.Now()
	for at, try := c.at.Load(), 0; ; at++ {
		n := c.nodes[int(at)%len(c.nodes)]
		got, err := w.askOnce(ctx, n)
		if err == nil {
			return got, nil
		}
		if rota.KindOf(err) == rota.KindNotFound {
			// A node's replica may lag behind: only a linearizable read proves that the object is missing.
			got, over, err := w.look(ctx)
			if err != nil || over {
				return got, err
			}
		}
		e := words.FromStatus(err)
		open := e.Kind == rota.KindTimeout && e.Cause == nil // the node's timeout, not ours
		switch {
		case c.life.Err() != nil:
			return none, &rota.Error{Kind: rota.KindUnavailable, Op: w.op, Text: "the client is closed"}
		case open, e.Kind == rota.KindNotFound:
			try, last, began = 0, nil, time.Now()
		case e.Kind != rota.KindUnavailable && e.Kind != rota.KindTimeout:
			return none, during(w.op, e)
		case !ended(ctx):
			last = judge(ctx, n, err)
			c.moveOn(n)
			c.retrying(ctx, w.op, n, began, last)
			try++
		}
		if pause(ctx, retryDelay(try, e.RetryAfter)) {
			continue
		}
		if last != nil || errors.Is(ctx.Err(), context.Canceled) {
			return none, c.gaveUp(ctx, w.op, last)
		}
		return none, &rota.Error{Kind: rota.KindTimeout, Op: w.op, Subject: w.id, Text: w.what + " did not end in time",
			Cause: endOf(ctx)}
	}
}

func (w *endWait[T]) askOnce(ctx context.Context, n *node) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	return w.ask(ctx, n)
}
