package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/test/jepsen-lite/check"
	"github.com/rotasched/rota/test/jepsen-lite/fault"
)

// signalGates submits workflows with gates, and with nodes that grow others, and signals the gates: early or late,
// twice, and each by two users independently.
func signalGates(ctx, drain context.Context, w *trial, r *rand.Rand) {
	name := fmt.Sprintf("gates-%d", r.IntN(1_000_000))
	for n := 0; ctx.Err() == nil && !w.Rec.Full(); n++ {
		spec, facts := newGated(fmt.Sprintf("c%d-%s-%d", w.Options.Seed, name, n), r)
		w.Rec.With(func(h *check.History) { h.Flows = append(h.Flows, facts) })
		if submitWorkflow(drain, w, r, name, &spec) {
			w.openGates(drain, r, name, &spec)
		}
		if !fault.Rest(ctx, time.Duration(100+r.IntN(700))*time.Millisecond) {
			return
		}
	}
}

// openGates signals each gate of a workflow, or lets its time pass.
func (w *trial) openGates(ctx context.Context, r *rand.Rand, name string, spec *rota.WorkflowSpec) {
	if r.IntN(12) == 0 {
		w.insist(ctx, r, check.Op{Process: name, Func: check.OpFlowCancel, Flow: string(spec.ID)},
			func(ctx context.Context, c *client.Client, _ *check.Op) error {
				_, err := c.CancelWorkflow(ctx, spec.ID)
				return err
			})
	}
	for i := range spec.Nodes {
		n := &spec.Nodes[i]
		if n.Gate == nil || n.Gate.Timeout > 0 && r.IntN(3) == 0 {
			continue
		}
		fault.Rest(ctx, time.Duration(r.IntN(400))*time.Millisecond)
		var both sync.WaitGroup
		for k := range 1 + r.IntN(2) {
			own := rand.New(rand.NewPCG(r.Uint64(), uint64(k)))
			both.Go(func() { w.signal(ctx, own, fmt.Sprintf("%s-%c", name, 'a'+k), spec.ID, n.ID) })
		}
		both.Wait()
	}
}

// signal sends a signal until it has an answer, and then once more: its payload is its id.
func (w *trial) signal(ctx context.Context, r *rand.Rand, name string, flow rota.WorkflowID, node string) {
	s := rota.Signal{Workflow: flow, Node: node, ID: fmt.Sprintf("%s-%d", name, r.IntN(1_000)), Refuse: r.IntN(10) == 0}
	s.Payload = rota.Blob(s.ID)
	op := check.Op{Process: name, Func: check.OpSignal, Flow: string(flow), Did: node, Output: s.ID}
	for range 2 {
		if w.insistOnRoom(ctx, r, op, func(ctx context.Context, c *client.Client, op *check.Op) error {
			answer, err := c.SignalWorkflow(ctx, s)
			op.Existed, op.Index = answer.Existed, uint64(answer.Index)
			return err
		}) == check.Refused && r.IntN(4) > 0 {
			return
		}
	}
}

// newGated draws a workflow of a root, gates, and nodes between and behind them, some of which
// grow others.
func newGated(id string, r *rand.Rand) (rota.WorkflowSpec, check.FlowFacts) {
	spec := rota.WorkflowSpec{ID: rota.WorkflowID(id), Queue: "quick", Tenant: "t-free",
		OnFailure: rota.FailurePolicy(r.IntN(2))}
	facts := check.FlowFacts{ID: id, OnFailure: spec.OnFailure.String()}
	for n := range 3 + r.IntN(4) {
		node, f := newGrowing(fmt.Sprint("n", n), r, 2)
		if n > 0 && r.IntN(3) == 0 {
			node = rota.NodeSpec{ID: node.ID, Gate: &rota.Gate{}}
			f = check.NodeFacts{ID: node.ID, Gate: true}
			if r.IntN(2) == 0 {
				node.Gate.Timeout = time.Duration(100+r.IntN(1_500)) * time.Millisecond
				node.Gate.OnTimeout = rota.GateTimeout(r.IntN(2))
				f.TimeoutMs, f.OnTimeout = node.Gate.Timeout.Milliseconds(), node.Gate.OnTimeout.String()
			}
		}
		for p := range n {
			if r.IntN(2) == 0 || p == n-1 && len(node.Parents) == 0 {
				node.Parents = append(node.Parents, fmt.Sprint("n", p))
			}
		}
		f.Parents = node.Parents
		spec.Nodes, facts.Nodes = append(spec.Nodes, node), append(facts.Nodes, f)
	}
	return spec, facts
}

// newGrowing draws a node that may grow others, which may do so again down to the depth deep.
func newGrowing(id string, r *rand.Rand, deep int) (rota.NodeSpec, check.NodeFacts) {
	plan, f := jobPlan{Ms: r.IntN(100), Fail: 50}, check.NodeFacts{ID: id}
	if r.IntN(25) == 0 {
		plan.NoRetry = 500
	}
	if deep > 0 && r.IntN(3) == 0 {
		plan.Grow = &rota.Growth{Detached: r.IntN(4) == 0}
		f.Detached = plan.Grow.Detached
		for k := range 1 + r.IntN(3) {
			child, cf := newGrowing(fmt.Sprintf("%sc%d", id, k), r, deep-1)
			for p := range k {
				if r.IntN(3) == 0 {
					child.Parents = append(child.Parents, fmt.Sprintf("%sc%d", id, p))
				}
			}
			cf.Parents = child.Parents
			plan.Grow.Children, f.Grows = append(plan.Grow.Children, child), append(f.Grows, cf)
		}
	}
	return rota.NewNodeSpec(id, rota.JobType(fmt.Sprint("gated-", r.IntN(16))), plan.payload()), f
}
