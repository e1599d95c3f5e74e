package foresight

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// Flow is a simulated workflow: its nodes are submitted together, and each waits for its parents.
type Flow struct {
	spec   rota.WorkflowSpec
	graph  *rota.Graph
	places map[rota.JobID]int
	// Critical is the longest chain of run times, in ms.
	Critical int64
}

// flowID is the id of the workflow of a life.
const flowID = "flow"

// FromWorkflow returns the jobs of a workflow, which run for their simulate_ms, in the order of its nodes' numbers. A
// node that asks for no processors gets one.
func FromWorkflow(spec *rota.WorkflowSpec) (*Flow, []Job, error) {
	f := &Flow{spec: *spec, places: make(map[rota.JobID]int, len(spec.Nodes))}
	f.spec.ID, f.spec.Queue = flowID, simQueue
	for i := range f.spec.Nodes {
		n := &f.spec.Nodes[i]
		switch {
		case n.Gate != nil:
			return nil, nil, rota.Refusef(rota.KindInvalid, "gate", "node %s is a gate: gates are not simulated", n.ID)
		case n.CPUMilli == 0:
			n.CPUMilli = 1000
		}
		if n.Expected == 0 {
			n.Expected = n.Simulate
		}
		n.Queue = simQueue
	}
	var err error
	if f.graph, err = f.spec.Arrange(); err != nil {
		return nil, nil, err
	}
	jobs, chain := make([]Job, len(f.graph.Order)), make([]int64, len(f.graph.Order))
	for k, at := range f.graph.Order {
		n := &f.spec.Nodes[at]
		run := max(n.Simulate.Milliseconds(), 1)
		jobs[k] = Job{Run: run, Estimate: max(n.Expected.Milliseconds(), 1), CPUMilli: n.CPUMilli, Tenant: n.Tenant,
			Spec: &n.JobSpec}
		f.places[rota.NodeJobID(flowID, n.ID)] = k
		for _, parent := range f.graph.Parents[k] { // its number is smaller
			chain[k] = max(chain[k], chain[parent])
		}
		chain[k] += run
		f.Critical = max(f.Critical, chain[k])
	}
	return f, jobs, nil
}

// submitFlow submits the workflow, and decides.
func (d *driver) submitFlow(at int64) error {
	f, content := d.Flow, [16]byte{}
	ops := []*fsmpb.Op{entry.OpenWorkflowOp(&f.spec, f.graph, content)}
	ops = append(ops, entry.AddNodesOps(&f.spec, f.graph, content, 0)...)
	for _, op := range append(ops, entry.CommitWorkflowOp(flowID, content)) {
		if err := d.apply(at, []*fsmpb.Op{op}); err != nil {
			return err
		}
	}
	d.next = len(d.Jobs)
	return d.match(at)
}

// place returns the index of a job.
func (d *driver) place(id rota.JobID) int {
	if d.Flow != nil {
		return d.Flow.places[id]
	}
	return placeOf(id)
}
