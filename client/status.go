package client

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// sight is the cluster as one node sees it.
type sight struct {
	node   *node
	status rota.ClusterStatus
	err    error
}

// Status returns the cluster as one node sees it. It calls all nodes at once, each once and for at most 5 s, and
// returns the first answer that names a leader, else that of the node that has applied most. If no node answers, the
// error gives the reason for each.
func (c *Client) Status(ctx context.Context) (rota.ClusterStatus, error) {
	own := ctx
	ctx, cancel := context.WithTimeout(own, maxAnswer)
	defer cancel()
	seen := make(chan sight, len(c.nodes))
	for _, n := range c.nodes {
		go func() {
			s := sight{node: n}
			var wire *rotav1.StatusResponse
			if wire, s.err = n.cluster.Status(ctx, &rotav1.StatusRequest{}); s.err == nil {
				s.status, s.err = words.ClusterStatusFromWire(wire)
			}
			seen <- s
		}()
	}
	var best *sight
	var failed []sight
	for range c.nodes {
		s := <-seen
		switch {
		case s.err != nil:
			failed = append(failed, s)
		case s.status.Leader != "":
			return s.status, nil
		case best == nil || s.status.AppliedIndex > best.status.AppliedIndex:
			best = &s
		}
	}
	if best != nil {
		return best.status, nil
	}
	return rota.ClusterStatus{}, unseen(own, c, failed)
}

// unseen returns the error of a status call that no node answered.
func unseen(ctx context.Context, c *Client, failed []sight) error {
	const op = "cluster status"
	if errors.Is(ctx.Err(), context.Canceled) {
		return c.gaveUp(ctx, op, nil)
	}
	var whys []string
	for _, s := range failed {
		e := words.FromStatus(s.err)
		switch e.Kind {
		case rota.KindTimeout:
			whys = append(whys, fmt.Sprintf("node %s did not answer in time", s.node.address))
		case rota.KindUnavailable:
			whys = append(whys, fmt.Sprintf("node %s: %s", s.node.address, e.Text))
		default:
			return during(op, e) // it answered with a refusal
		}
	}
	e := &rota.Error{Kind: rota.KindUnavailable, Op: op, Text: "no node answered: " + strings.Join(whys, "; ")}
	if ended(ctx) {
		e.Cause = endOf(ctx)
	}
	return e
}
