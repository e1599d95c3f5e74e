package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	rotav1 "github.com/rotasched/rota/api/rota/v1"
)

// The command and the client library validate a graph before they send it. A graph sent directly over the wire must
// pass the same rules at every node, and leaves nothing.
func TestWorkflowRefusedOnTheWire(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	node := func(id string, parents ...string) *rotav1.NodeSpec {
		return &rotav1.NodeSpec{Id: id, Parents: parents, Job: &rotav1.JobSpec{Type: "t"}}
	}
	edge := func(from, to string) *rotav1.Edge { return &rotav1.Edge{From: from, To: to} }
	header := &rotav1.WorkflowHeader{Id: "raw"}
	message := func(h *rotav1.WorkflowHeader, nodes []*rotav1.NodeSpec, edges ...*rotav1.Edge) *rotav1.SubmitWorkflowRequest {
		return &rotav1.SubmitWorkflowRequest{Workflow: h, Nodes: nodes, Edges: edges}
	}
	var ring []*rotav1.NodeSpec
	for i := range 1_000 {
		ring = append(ring, node(fmt.Sprintf("r%d", i), fmt.Sprintf("r%d", (i+999)%1_000)))
	}
	type messages = []*rotav1.SubmitWorkflowRequest
	for name, row := range map[string]struct {
		sent messages
		says string
	}{
		"cycle of two":      {messages{message(header, []*rotav1.NodeSpec{node("a", "b"), node("b", "a")})}, "cycle"},
		"cycle of thousand": {messages{message(header, ring)}, "cycle"},
		"cycle over messages": {messages{message(header, []*rotav1.NodeSpec{node("a")}),
			message(nil, []*rotav1.NodeSpec{node("b", "a")}), message(nil, nil, edge("b", "a"))}, "cycle"},
		"self-edge":        {messages{message(header, []*rotav1.NodeSpec{node("a", "a")})}, "a"},
		"unknown parent":   {messages{message(header, []*rotav1.NodeSpec{node("a", "nobody")})}, "nobody"},
		"unknown edge end": {messages{message(header, []*rotav1.NodeSpec{node("a")}, edge("a", "nowhere"))}, "nowhere"},
		"double id":        {messages{message(header, []*rotav1.NodeSpec{node("a"), node("a")})}, "a"},
		"double id later": {messages{message(header, []*rotav1.NodeSpec{node("a")}),
			message(nil, []*rotav1.NodeSpec{node("a")})}, "a"}, "no node": {messages{message(header, nil)}, "node"},
		"no header":  {messages{message(nil, []*rotav1.NodeSpec{node("a")})}, ""},
		"no message": {nil, ""},
		"no job":     {messages{message(header, []*rotav1.NodeSpec{{Id: "a"}})}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, n := range c.all {
				err := submitRaw(t, n, row.sent)
				if code := status.Code(err); code != codes.InvalidArgument || !strings.Contains(err.Error(), row.says) {
					t.Errorf("node %s returns %v, want an invalid argument with the text %q", n.ID, err, row.says)
				}
			}
		})
	}
	c.rota(t, "workflow", "show", "raw").want(t, 3)
	if left := c.rota(t, "workflow", "list", "-o", "name").want(t, 0).stdout; left != "" {
		t.Errorf("the refused submissions left %q", left)
	}
	check(t, submitRaw(t, c.all[1], messages{message(header, []*rotav1.NodeSpec{node("a"), node("b", "a")},
		edge("a", "b"))}))
	c.verified(t, 3)
}

// submitRaw sends messages unchanged.
func submitRaw(t *testing.T, n *node, sent []*rotav1.SubmitWorkflowRequest) error {
	t.Helper()
	conn, err := grpc.NewClient(n.API, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(t, err)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	stream, err := rotav1.NewWorkflowsClient(conn).Submit(ctx)
	check(t, err)
	for _, m := range sent {
		if stream.Send(m) != nil {
			break // the node has answered already
		}
	}
	_, err = stream.CloseAndRecv()
	return err
}
