package client

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// commitEach is the additional answer time allowed per node of a workflow: all of them go through the log.
const commitEach = time.Millisecond

// watchdog ends a try at a node that is silent for too long. Other calls bound the whole try; a stream that makes
// progress may take long.
type watchdog struct {
	client *Client
	ctx    context.Context
	cancel context.CancelFunc
	timer  *time.Timer
}

// watch starts a watchdog. If there is no other node to try, it never ends the try.
func (c *Client) watch(ctx context.Context) (context.Context, *watchdog) {
	w := &watchdog{client: c, ctx: ctx}
	ctx, w.cancel = context.WithCancel(ctx)
	w.timer = time.AfterFunc(share(w.ctx, maxAnswer, len(c.nodes)), w.cancel)
	if len(c.nodes) == 1 {
		w.timer.Stop()
	}
	return ctx, w
}

// moved restarts the allowed time, allow sets a different one.
func (w *watchdog) moved() { w.allow(maxAnswer) }

func (w *watchdog) allow(most time.Duration) {
	if len(w.client.nodes) > 1 {
		w.timer.Reset(share(w.ctx, most, len(w.client.nodes)))
	}
}

// stop pauses the watchdog until moved is called.
func (w *watchdog) stop() { w.timer.Stop() }

func (w *watchdog) end() {
	w.timer.Stop()
	w.cancel()
}

// pieces calls send with a workflow, in messages that a node accepts. A node with too many parents for one message
// sends them as edges.
func pieces(spec *rota.WorkflowSpec, send func(*rotav1.SubmitWorkflowRequest) error) error {
	m := &rotav1.SubmitWorkflowRequest{Workflow: words.WorkflowHeaderToWire(spec)}
	size := proto.Size(m)
	room := func(n int) error {
		if size += n + 8; size <= submitBytes {
			return nil
		}
		err := send(m)
		m, size = &rotav1.SubmitWorkflowRequest{}, n+8
		return err
	}
	edge := func(e rota.Edge) error {
		wire := words.EdgeToWire(&e)
		if err := room(proto.Size(wire)); err != nil {
			return err
		}
		m.Edges = append(m.Edges, wire)
		return nil
	}
	for i := range spec.Nodes {
		wire := words.NodeSpecToWire(&spec.Nodes[i])
		var loose []string
		if proto.Size(wire) > submitBytes {
			loose, wire.Parents = wire.Parents, nil
		}
		n := proto.Size(wire)
		if n > submitBytes {
			return rota.Refusef(rota.KindInvalid, "payload", "payload too long: node %q has %d bytes, maximum %d",
				spec.Nodes[i].ID, n, rota.MaxPayloadBytes)
		}
		if err := room(n); err != nil {
			return err
		}
		m.Nodes = append(m.Nodes, wire)
		for _, parent := range loose {
			if err := edge(rota.Edge{From: parent, To: wire.Id}); err != nil {
				return err
			}
		}
	}
	for _, e := range spec.Edges {
		if err := edge(e); err != nil {
			return err
		}
	}
	return send(m)
}

// upload submits a workflow to one node.
func (c *Client) upload(ctx context.Context, n *node, spec *rota.WorkflowSpec) (*rotav1.WorkflowSubmitted, error) {
	ctx, watch := c.watch(ctx)
	defer watch.end()
	stream, err := n.flows.Submit(ctx)
	if err != nil {
		return nil, err
	}
	err = pieces(spec, func(m *rotav1.SubmitWorkflowRequest) error {
		err := stream.Send(m)
		watch.moved()
		return err
	})
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	// If the stream has ended, the node has already decided: its answer has the reason.
	watch.allow(maxAnswer + time.Duration(len(spec.Nodes))*commitEach)
	return stream.CloseAndRecv()
}
