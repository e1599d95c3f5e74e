package transport

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

func nodeOf(id string, parents ...string) *rotav1.NodeSpec {
	return &rotav1.NodeSpec{Id: id, Parents: parents, Job: &rotav1.JobSpec{Type: "t"}}
}

func headOf(id string) *rotav1.SubmitWorkflowRequest {
	return &rotav1.SubmitWorkflowRequest{Workflow: &rotav1.WorkflowHeader{Id: id}}
}

func nodesOf(nodes ...*rotav1.NodeSpec) *rotav1.SubmitWorkflowRequest {
	return &rotav1.SubmitWorkflowRequest{Nodes: nodes}
}

// upload sends messages until the node ends the stream, and returns its answer.
func (b *bundle) upload(ctx context.Context,
	messages func(yield func(*rotav1.SubmitWorkflowRequest) bool)) (*rotav1.WorkflowSubmitted, error) {
	stream, err := b.flows.Submit(ctx)
	if err != nil {
		return nil, err
	}
	for m := range messages {
		if err := stream.Send(m); err != nil {
			break // the answer has the reason
		}
	}
	return stream.CloseAndRecv()
}

func these(all ...*rotav1.SubmitWorkflowRequest) func(func(*rotav1.SubmitWorkflowRequest) bool) {
	return func(yield func(*rotav1.SubmitWorkflowRequest) bool) {
		for _, m := range all {
			if !yield(m) {
				return
			}
		}
	}
}

func TestSubmitWorkflow_joinsThePieces(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var seen rota.WorkflowSpec
	b.core.flows.submit = func(_ context.Context, spec rota.WorkflowSpec) (rota.WorkflowSubmitted, error) {
		seen = spec
		return rota.WorkflowSubmitted{ID: spec.ID, State: rota.WorkflowRunning, Existed: true, Nodes: 3, Edges: 2,
			Index: 8}, nil
	}
	first := headOf("f1")
	first.Workflow.OnFailure, first.Workflow.Queue = "continue", "q"
	first.Nodes = []*rotav1.NodeSpec{nodeOf("a")}
	answer, err := b.upload(bounded(t), these(first, nodesOf(nodeOf("b", "a"), nodeOf("c")),
		&rotav1.SubmitWorkflowRequest{Edges: []*rotav1.Edge{{From: "b", To: "c"}}}))
	if err != nil || !answer.GetExisted() || answer.GetState() != "RUNNING" || answer.GetIndex() != 8 ||
		answer.GetEdges() != 2 {
		t.Fatalf("answer %v, %v", answer, err)
	}
	if seen.ID != "f1" || seen.OnFailure != rota.FailureContinue || seen.Queue != "q" || len(seen.Nodes) != 3 ||
		seen.Nodes[1].Parents[0] != "a" || seen.Edges[0] != (rota.Edge{From: "b", To: "c"}) ||
		seen.Nodes[2].Priority != rota.DefaultPriority {
		t.Errorf("the core saw %+v", seen)
	}
	if b.server.uploads.used != 0 {
		t.Errorf("%d bytes are still held", b.server.uploads.used)
	}
}

func TestSubmitWorkflow_refusesWhatIsMisshapen(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.core.flows.submit = func(context.Context, rota.WorkflowSpec) (rota.WorkflowSubmitted, error) {
		t.Error("the core saw it")
		return rota.WorkflowSubmitted{}, nil
	}
	own := nodeOf("a")
	own.Job.Id = "mine"
	zoned := nodeOf("a")
	zoned.Job.Zone = strings.Repeat("z", 1000<<10)
	big := nodeOf("a")
	for range 5 {
		big.Job.Requires = append(big.Job.Requires, strings.Repeat("x", 250<<10))
	}
	policy := headOf("f1")
	policy.Workflow.OnFailure = "panic"
	for name, c := range map[string]struct {
		sent    []*rotav1.SubmitWorkflowRequest
		subject string
	}{
		"nothing":          {nil, "workflow"},
		"header late":      {[]*rotav1.SubmitWorkflowRequest{nodesOf(nodeOf("a")), headOf("f1")}, "workflow"},
		"header twice":     {[]*rotav1.SubmitWorkflowRequest{headOf("f1"), headOf("f1")}, "workflow"},
		"header alone":     {[]*rotav1.SubmitWorkflowRequest{headOf("f1")}, "nodes"},
		"an empty message": {[]*rotav1.SubmitWorkflowRequest{headOf("f1"), nodesOf(nodeOf("a")), {}}, "nodes"},
		"no id":            {[]*rotav1.SubmitWorkflowRequest{headOf("")}, "id"},
		"a job's id":       {[]*rotav1.SubmitWorkflowRequest{headOf("f1/a")}, "id"},
		"policy":           {[]*rotav1.SubmitWorkflowRequest{policy}, "failure policy"},
		"node without id": {[]*rotav1.SubmitWorkflowRequest{headOf("f1"), nodesOf(nodeOf("a"), nodeOf(""))},
			"nodes[1].id"},
		"node's id too long": {[]*rotav1.SubmitWorkflowRequest{headOf("f1"), nodesOf(nodeOf(strings.Repeat("a", 201)))},
			"nodes[0].id"},
		"parent without id": {[]*rotav1.SubmitWorkflowRequest{headOf("f1"), nodesOf(nodeOf("a", "b", ""))},
			"nodes[0].parents[1]"},
		"edge from nowhere": {[]*rotav1.SubmitWorkflowRequest{headOf("f1"), {Edges: []*rotav1.Edge{{To: "a"}}}},
			"edges[0].from"},
		"edge to nowhere": {[]*rotav1.SubmitWorkflowRequest{headOf("f1"), {Edges: []*rotav1.Edge{{From: "a"}}}},
			"edges[0].to"},
		"a job's id of its own": {[]*rotav1.SubmitWorkflowRequest{headOf("f1"), nodesOf(own)}, "nodes[0].job.id"},
		"a job's type": {[]*rotav1.SubmitWorkflowRequest{headOf("f1"), nodesOf(&rotav1.NodeSpec{Id: "a"})},
			"nodes[0].type"},
		"a job's zone": {[]*rotav1.SubmitWorkflowRequest{headOf("f1"), nodesOf(zoned)}, "nodes[0].zone"},
		"a gate's timeout": {[]*rotav1.SubmitWorkflowRequest{headOf("f1"),
			nodesOf(nodeOf("a"), &rotav1.NodeSpec{Id: "g", Gate: &rotav1.Gate{OnTimeout: "sulk"}})}, "nodes[1].gate"},
		"a message too large": {[]*rotav1.SubmitWorkflowRequest{headOf("f1"), nodesOf(big)}, "message"},
	} {
		_, err := b.upload(bounded(t), these(c.sent...))
		if got := words.FromStatus(err); got == nil || got.Kind != rota.KindInvalid || got.Subject != c.subject {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	if b.server.uploads.used != 0 {
		t.Errorf("%d bytes are still held", b.server.uploads.used)
	}
}

// TestSubmitWorkflow_endsWhatIsEndless checks callers that never stop: each limit ends one, long before much is kept.
func TestSubmitWorkflow_endsWhatIsEndless(t *testing.T) {
	t.Parallel()
	const batch = 10_000
	many := func(n int, of func(k int) *rotav1.NodeSpec) *rotav1.SubmitWorkflowRequest {
		m := &rotav1.SubmitWorkflowRequest{}
		for k := range n {
			m.Nodes = append(m.Nodes, of(k))
		}
		return m
	}
	parents := make([]string, 100_000)
	for i := range parents {
		parents[i] = fmt.Sprint("p", i%1000)
	}
	edges := make([]*rotav1.Edge, 50_000)
	for i := range edges {
		edges[i] = &rotav1.Edge{From: "a", To: "b"}
	}
	for name, c := range map[string]struct {
		next    func(i int) *rotav1.SubmitWorkflowRequest
		subject string
		most    int // number of messages that may have been accepted
	}{
		"nodes": {func(i int) *rotav1.SubmitWorkflowRequest {
			return many(batch, func(k int) *rotav1.NodeSpec { return nodeOf(fmt.Sprint(i*batch + k)) })
		}, "nodes", rota.MaxWorkflowNodes / batch},
		"one node again and again": {func(int) *rotav1.SubmitWorkflowRequest {
			return many(batch, func(int) *rotav1.NodeSpec { return nodeOf("a") })
		}, "nodes", rota.MaxWorkflowNodes / batch},
		"parents": {func(i int) *rotav1.SubmitWorkflowRequest {
			return nodesOf(nodeOf(fmt.Sprint("n", i), parents...))
		}, "edges", rota.MaxWorkflowEdges / len(parents)},
		"edges": {func(int) *rotav1.SubmitWorkflowRequest { return &rotav1.SubmitWorkflowRequest{Edges: edges} },
			"edges", rota.MaxWorkflowEdges / len(edges)},
		"payloads": {func(i int) *rotav1.SubmitWorkflowRequest {
			return many(3, func(k int) *rotav1.NodeSpec {
				n := nodeOf(fmt.Sprint(i, "-", k))
				n.Job.Payload = make([]byte, rota.MaxPayloadBytes)
				return n
			})
		}, "nodes", maxJobBytes / (3 * rota.MaxPayloadBytes)},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			u, taken := newUpload(setup(t).server), -1 // the last one is not accepted
			defer u.close()
			err := u.add(headOf("f1"))
			for ; err == nil; taken++ {
				err = u.add(c.next(taken + 1))
			}
			if got := words.FromStatus(err); got.Kind != rota.KindInvalid || got.Subject != c.subject {
				t.Errorf("got %+v", got)
			}
			if taken > c.most {
				t.Errorf("messages accepted: got %d, want at most %d", taken, c.most)
			}
		})
	}
	t.Run("over_the_wire", func(t *testing.T) {
		t.Parallel()
		b, sent := setup(t), 0
		b.server.uploads.most = 1 << 20
		_, err := b.upload(bounded(t), func(yield func(*rotav1.SubmitWorkflowRequest) bool) {
			for ok := yield(headOf("f1")); ok; sent++ {
				ok = yield(nodesOf(nodeOf(fmt.Sprint("n", sent))))
			}
		})
		if kindOf(err) != rota.KindUnavailable || b.server.uploads.used != 0 {
			t.Errorf("after %d messages: %v, %d bytes are still held", sent, err, b.server.uploads.used)
		}
	})
}

// TestSubmitWorkflow_boundsNames checks that edges that keep naming new nodes keep at most as many names as a workflow
// may have nodes.
func TestSubmitWorkflow_boundsNames(t *testing.T) {
	t.Parallel()
	u := newUpload(setup(t).server)
	defer u.close()
	err := u.add(headOf("f1"))
	for i := 0; err == nil; i++ {
		err = u.add(&rotav1.SubmitWorkflowRequest{Edges: []*rotav1.Edge{{From: fmt.Sprint("a", i),
			To: fmt.Sprint("b", i)}}})
	}
	if rota.KindOf(err) != rota.KindInvalid || len(u.names) != rota.MaxWorkflowNodes ||
		len(u.spec.Edges) != rota.MaxWorkflowNodes/2 {
		t.Errorf("%d names, %d edges, %v", len(u.names), len(u.spec.Edges), err)
	}
}

func TestSubmitWorkflow_sharesMemory(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if !b.server.uploads.take(uploadsBytes - 1000) {
		t.Fatal("not even the first took part")
	}
	_, err := b.upload(bounded(t), these(headOf("f1"), nodesOf(nodeOf("a"), nodeOf("b"), nodeOf("c"))))
	if got := words.FromStatus(err); got == nil || got.Kind != rota.KindUnavailable || got.RetryAfter == 0 {
		t.Errorf("got %+v", got)
	}
	b.server.uploads.give(uploadsBytes - 1000)
	if _, err := b.upload(bounded(t), these(headOf("f1"), nodesOf(nodeOf("a")))); err != nil {
		t.Errorf("once there is room: %v", err)
	}
}

func TestSubmitWorkflow_isGivenUp(t *testing.T) {
	t.Parallel()
	t.Run("where_nothing_comes", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			b := setup(t)
			stream, err := b.flows.Submit(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			if err := errors.Join(stream.Send(headOf("f1")), stream.Send(nodesOf(nodeOf("a")))); err != nil {
				t.Fatal(err)
			}
			var answer rotav1.WorkflowSubmitted
			if err := stream.RecvMsg(&answer); kindOf(err) != rota.KindTimeout || time.Since(start) != maxStep {
				t.Errorf("after %v: %v", time.Since(start), err)
			}
			synctest.Wait()
			if b.server.uploads.used != 0 {
				t.Errorf("%d bytes are still held", b.server.uploads.used)
			}
		})
	})
	t.Run("where_it_comes_too_slowly", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			b := setup(t)
			start := time.Now()
			_, err := b.upload(t.Context(), func(yield func(*rotav1.SubmitWorkflowRequest) bool) {
				for ok, i := yield(headOf("f1")), 0; ok; i++ {
					time.Sleep(maxStep / 2)
					ok = yield(nodesOf(nodeOf(fmt.Sprint(i))))
				}
			})
			if took := time.Since(start); kindOf(err) != rota.KindTimeout || took < maxUpload ||
				took > maxUpload+maxStep {
				t.Errorf("after %v: %v", took, err)
			}
		})
	})
	t.Run("when_the_node_drains", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		stream, err := b.flows.Submit(bounded(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(stream.Send(headOf("f1")), b.server.Drain(bounded(t))); err != nil {
			t.Fatal(err)
		}
		var answer rotav1.WorkflowSubmitted
		if err := stream.RecvMsg(&answer); kindOf(err) != rota.KindUnavailable ||
			!strings.Contains(err.Error(), "another node") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("when_the_caller_goes", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.core.flows.submit = func(context.Context, rota.WorkflowSpec) (rota.WorkflowSubmitted, error) {
			t.Error("half a workflow came to the core")
			return rota.WorkflowSubmitted{}, nil
		}
		ctx, cancel := context.WithCancel(bounded(t))
		stream, err := b.flows.Submit(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(stream.Send(headOf("f1")), stream.Send(nodesOf(nodeOf("a")))); err != nil {
			t.Fatal(err)
		}
		cancel()
		var answer rotav1.WorkflowSubmitted
		if err := stream.RecvMsg(&answer); !errors.Is(words.FromStatus(err), context.Canceled) {
			t.Errorf("got %v", err)
		}
		if err := b.server.Drain(bounded(t)); err != nil {
			t.Errorf("the stream continues: %v", err)
		}
	})
}

func TestSubmitWorkflow_hasItsOwnTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		b.core.flows.submit = func(ctx context.Context, spec rota.WorkflowSpec) (rota.WorkflowSubmitted, error) {
			select {
			case <-time.After(2 * callTimeout): // far longer than an ordinary call gets
				return rota.WorkflowSubmitted{ID: spec.ID}, nil
			case <-ctx.Done():
				return rota.WorkflowSubmitted{}, ctx.Err()
			}
		}
		if _, err := b.upload(t.Context(), these(headOf("f1"), nodesOf(nodeOf("a")))); err != nil {
			t.Error(err)
		}
	})
}

func TestSubmitWorkflow_survivesAPanic(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.core.flows.submit = func(context.Context, rota.WorkflowSpec) (rota.WorkflowSubmitted, error) { panic("kaboom-3") }
	b.core.flows.outputs = func(context.Context, rota.JobID, func(rota.ParentOutput) error) error { panic("kaboom-4") }
	if _, err := b.upload(bounded(t), these(headOf("f1"), nodesOf(nodeOf("a")))); kindOf(err) != rota.KindInternal {
		t.Errorf("got %v", err)
	}
	stream, err := b.flows.ParentOutputs(bounded(t), &rotav1.ParentOutputsRequest{Job: "f1/a"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); kindOf(err) != rota.KindInternal {
		t.Errorf("got %v", err)
	}
	for _, want := range []string{"kaboom-3", "kaboom-4"} {
		if !strings.Contains(b.log.String(), want) {
			t.Errorf("%s is not in the log", want)
		}
	}
}

// BenchmarkSubmitWorkflow measures the arrival of the largest workflow: 100,000 nodes with 1,000,000 parents.
func BenchmarkSubmitWorkflow(b *testing.B) {
	node := setup(b)
	var messages []*rotav1.SubmitWorkflowRequest
	m, edges := headOf("f1"), 0
	for i := range rota.MaxWorkflowNodes {
		n := nodeOf(fmt.Sprintf("node-%06d", i))
		for k := max(0, i-10); k < i && edges < rota.MaxWorkflowEdges; k, edges = k+1, edges+1 {
			n.Parents = append(n.Parents, fmt.Sprintf("node-%06d", k))
		}
		if m.Nodes = append(m.Nodes, n); len(m.Nodes) == 4_000 {
			messages, m = append(messages, m), &rotav1.SubmitWorkflowRequest{}
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := node.upload(b.Context(), these(messages...)); err != nil {
			b.Fatal(err)
		}
	}
}
