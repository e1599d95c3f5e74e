package fsm

import (
	"fmt"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/millis"
)

// widestFlow returns a workflow of the maximum size, as rows and as derived data: each node except the first ones has
// ten parents.
func widestFlow() (*WorkflowView, *flow) {
	m := New()
	r := &state.WorkflowRow{ID: "wf", State: rota.WorkflowRunning, Nodes: rota.MaxWorkflowNodes,
		Edges: rota.MaxWorkflowEdges}
	m.flows.workflows.Load(r.ID, r)
	f := newFlow(r)
	for n := range uint32(rota.MaxWorkflowNodes) {
		spec := rota.NewJobSpec("work", nil)
		spec.ID, spec.Simulate = rota.NodeJobID("wf", fmt.Sprint("node-", n)), millis.Duration(int64(n%100))
		v := &state.VertexRow{Key: state.VertexKey("wf", n), Workflow: "wf", Number: n,
			Spec: new(state.Specs).Keep(&spec), State: state.VertexBlocked}
		if n < rota.MaxWorkflowNodes/2 {
			v.State, v.Worker = rota.NodeState(rota.JobCompleted), rota.WorkerID(fmt.Sprint("worker-", n%1000))
			v.Assigned, v.Finished = rota.Moment{Clock: 1}, rota.Moment{Clock: rota.Clock(1 + n%1000)}
		}
		for p := max(10, n) - 10; p < n; p++ {
			v.Parents = append(v.Parents, p)
		}
		m.flows.vertices.Load(v.Key, v)
		f.append(v)
	}
	return &WorkflowView{row: r, vertices: m.flows.vertices.Freeze(), jobs: m.JobTable.Freeze(),
		leases: m.leasing.leases.Freeze()}, f
}

// BenchmarkWorkflowView measures a view of the biggest workflow with all its nodes.
func BenchmarkWorkflowView(b *testing.B) {
	v, _ := widestFlow()
	b.ReportAllocs()
	for b.Loop() {
		if w := v.Words(); len(w.Nodes) != rota.MaxWorkflowNodes || w.CriticalPathLength == 0 {
			b.Fatal(w.CriticalPathLength)
		}
	}
}

// BenchmarkOutputs finds the workers that hold the outputs of a thousand parents, which as many workers completed.
func BenchmarkOutputs(b *testing.B) {
	_, f := widestFlow()
	v := &state.VertexRow{Number: 0}
	for n := range uint32(1000) {
		v.Parents = append(v.Parents, n)
	}
	for _, c := range []struct {
		name   string
		forget bool
	}{{"of the first child", true}, {"of the next one", false}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if c.forget {
					f.outputs = nil
				}
				if d := f.data(v); len(*d) != 1000 {
					b.Fatal(len(*d))
				}
			}
		})
	}
}
