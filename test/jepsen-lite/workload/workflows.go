package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/test/jepsen-lite/check"
	"github.com/rotasched/rota/test/jepsen-lite/fault"
)

// maxNodes bounds the nodes of a workflow of the run.
const maxNodes = 12

// submitWorkflows submits small random graphs through random nodes, and repeats every unknown outcome on another node
// under the same id. Some have nodes that fail for good, and are run again; some others are cancelled while they run.
func submitWorkflows(ctx, drain context.Context, w *trial, r *rand.Rand) {
	name := fmt.Sprintf("workflows-%d", r.IntN(1_000_000))
	var failing []rota.WorkflowSpec
	for n := 0; ctx.Err() == nil && !w.Rec.Full(); n++ {
		spec, fails := newWorkflow(fmt.Sprintf("c%d-%s-%d", w.Options.Seed, name, n), r)
		w.Rec.With(func(h *check.History) { h.Flows = append(h.Flows, flowFacts(&spec)) })
		known := submitWorkflow(drain, w, r, name, &spec)
		switch {
		case known && fails:
			failing = append(failing, spec)
		case known && r.IntN(6) == 0:
			fault.Rest(ctx, time.Duration(r.IntN(400))*time.Millisecond)
			w.askFlow(ctx, r, check.Op{Process: name, Func: check.OpFlowCancel, Flow: string(spec.ID)},
				func(ctx context.Context, s *fault.Server) error {
					_, err := s.As(w.badge).CancelWorkflow(ctx, spec.ID)
					return err
				})
		}
		if len(failing) > 3 { // the oldest has had its time to fail
			again := failing[0]
			failing = failing[1:]
			from := ""
			if r.IntN(2) == 0 {
				from = again.Nodes[r.IntN(len(again.Nodes))].ID
			}
			w.askFlow(ctx, r, check.Op{Process: name, Func: check.OpFlowRetry, Flow: string(again.ID), Did: from},
				func(ctx context.Context, s *fault.Server) error {
					_, err := s.As(w.badge).RetryWorkflow(ctx, again.ID, from)
					return err
				})
		}
		if !fault.Rest(ctx, time.Duration(50+r.IntN(400))*time.Millisecond) {
			return
		}
	}
}

// newWorkflow draws a graph; fails means that a node of it fails for good at first.
func newWorkflow(id string, r *rand.Rand) (spec rota.WorkflowSpec, fails bool) {
	spec = rota.WorkflowSpec{ID: rota.WorkflowID(id), Queue: "quick", Tenant: tenants[r.IntN(3)].name,
		OnFailure: rota.FailurePolicy(r.IntN(2))}
	density := 2 + r.IntN(4)
	for n := range 1 + r.IntN(maxNodes) {
		plan := jobPlan{Ms: r.IntN(120)}
		if r.IntN(20) == 0 {
			plan.NoRetry, fails = 600, true
		}
		payload := plan.payload()
		node := rota.NewNodeSpec(fmt.Sprint("n", n), rota.JobType(fmt.Sprint("flow-", r.IntN(16))), payload)
		node.Priority = int32(r.IntN(11))
		for p := range n {
			if r.IntN(density) == 0 {
				node.Parents = append(node.Parents, fmt.Sprint("n", p))
			}
		}
		spec.Nodes = append(spec.Nodes, node)
	}
	return spec, fails
}

func flowFacts(spec *rota.WorkflowSpec) check.FlowFacts {
	f := check.FlowFacts{ID: string(spec.ID), OnFailure: spec.OnFailure.String()}
	for i := range spec.Nodes {
		f.Nodes = append(f.Nodes, check.NodeFacts{ID: spec.Nodes[i].ID, Parents: spec.Nodes[i].Parents})
	}
	return f
}

// submitWorkflow goes from node to node until there is an outcome, and reports whether the workflow is known.
func submitWorkflow(ctx context.Context, w *trial, r *rand.Rand, name string, spec *rota.WorkflowSpec) bool {
	for ctx.Err() == nil {
		s := w.Someone(r)
		op := check.Op{Process: name, Func: check.OpFlowSubmit, Flow: string(spec.ID), Node: s.ID, Shown: w.badge.ID(),
			Invoke: w.Rec.Now()}
		try, cancel := context.WithTimeout(ctx, 3*time.Second)
		answer, err := s.As(w.badge).SubmitWorkflow(try, *spec)
		cancel()
		op.State, op.Existed, op.Index = answer.State.String(), answer.Existed, uint64(answer.Index)
		op = w.done(op, err)
		w.Rec.Add(op)
		if op.Outcome != check.Unknown || !fault.Rest(ctx, 100*time.Millisecond) {
			return op.Outcome == check.OK
		}
	}
	return false
}

// askFlow asks a few nodes, one after the other, until one has an answer.
func (w *trial) askFlow(ctx context.Context, r *rand.Rand, op check.Op,
	ask func(context.Context, *fault.Server) error) {
	for range 3 {
		if ctx.Err() != nil {
			return
		}
		s := w.Someone(r)
		now := op
		now.Node, now.Shown, now.Invoke = s.ID, w.badge.ID(), w.Rec.Now()
		try, cancel := context.WithTimeout(ctx, 3*time.Second)
		err := ask(try, s)
		cancel()
		now = w.done(now, err)
		w.Rec.Add(now)
		if now.Outcome != check.Unknown {
			return
		}
	}
}
