package client

import (
	"context"
	"errors"
	"time"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// waitMost is how long one node is asked for a workflow's end before the next one
// is: one that is cut off from the others would never answer.
const waitMost = 20 * time.Second

// WaitWorkflow returns a workflow, without nodes, once it is over. It asks again, and
// other nodes too, until ctx ends; the kind then is Timeout if a node was still
// waiting with it, else Unavailable.
func (c *Client) WaitWorkflow(ctx context.Context, id rota.WorkflowID) (rota.Workflow, error) {
	const op = "wait workflow"
	var last *rota.Error
	began := time.Now()
	for at, try := c.at.Load(), 0; ; at++ {
		n := c.nodes[int(at)%len(c.nodes)]
		flow, err := awaitAt(ctx, n, id)
		if err == nil {
			return flow, nil
		}
		if rota.KindOf(err) == rota.KindNotFound {
			// A node's replica may lag behind the submission: only a linearizable
			// reading reports that there is none.
			flow, err := c.Workflow(ctx, id)
			if err != nil || flow.State.Terminal() {
				return flow, err
			}
		}
		e := words.FromStatus(err)
		open := e.Kind == rota.KindTimeout && e.Cause == nil // the node's word, not ours
		switch {
		case c.life.Err() != nil:
			return rota.Workflow{}, &rota.Error{Kind: rota.KindUnavailable, Op: op, Text: "the client is closed"}
		case open, e.Kind == rota.KindNotFound:
			try, last, began = 0, nil, time.Now()
		case e.Kind != rota.KindUnavailable && e.Kind != rota.KindTimeout:
			return rota.Workflow{}, during(op, e)
		case !ended(ctx):
			last = c.judge(ctx, n, err)
			c.moveOn(n)
			c.retrying(ctx, op, n, began, last)
			try++
		}
		if pause(ctx, retryDelay(try, e.RetryAfter)) {
			continue
		}
		if last != nil || errors.Is(ctx.Err(), context.Canceled) {
			return rota.Workflow{}, c.gaveUp(ctx, op, last)
		}
		return rota.Workflow{}, &rota.Error{Kind: rota.KindTimeout, Op: op, Subject: string(id),
			Text: "workflow " + string(id) + " did not end in time", Cause: endOf(ctx)}
	}
}

// awaitAt asks one node, once.
func awaitAt(ctx context.Context, n *node, id rota.WorkflowID) (rota.Workflow, error) {
	ctx, cancel := context.WithTimeout(ctx, waitMost)
	defer cancel()
	wire, err := n.flows.Wait(ctx, &rotav1.WaitWorkflowRequest{Id: string(id)})
	if err != nil {
		return rota.Workflow{}, words.FromStatus(err)
	}
	return words.WorkflowFromWire(wire)
}
