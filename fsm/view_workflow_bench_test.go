package fsm

import (
	"fmt"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/millis"
)

// widestFlow is a workflow as big as may be, as rows and as what is derived of them:
// each node but the first ones has ten parents.
func widestFlow() (*WorkflowView, *flow) {
	m := New()
	r := &workflowRow{id: "wf", state: rota.WorkflowRunning, nodes: rota.MaxWorkflowNodes, edges: rota.MaxWorkflowEdges}
	m.flows.workflows.load(r.id, r)
	f := newFlow(r)
	for n := range uint32(rota.MaxWorkflowNodes) {
		spec := rota.NewJobSpec("work", nil)
		spec.ID, spec.Simulate = rota.NodeJobID("wf", fmt.Sprint("node-", n)), millis.Duration(int64(n%100))
		v := &vertexRow{key: vertexKey("wf", n), workflow: "wf", number: n, spec: new(specs).keep(&spec), state: vertexBlocked}
		if n < rota.MaxWorkflowNodes/2 {
			v.state, v.worker = rota.NodeState(rota.JobCompleted), rota.WorkerID(fmt.Sprint("worker-", n%1000))
			v.assigned, v.finished = rota.Moment{Clock: 1}, rota.Moment{Clock: rota.Clock(1 + n%1000)}
		}
		for p := max(10, n) - 10; p < n; p++ {
			v.parents = append(v.parents, p)
		}
		m.flows.vertices.load(v.key, v)
		f.append(v)
	}
	return &WorkflowView{row: r, vertices: m.flows.vertices.freeze(), jobs: m.jobs.freeze(), leases: m.leasing.leases.freeze()}, f
}

// BenchmarkWorkflowView tells of the biggest workflow with all its nodes.
func BenchmarkWorkflowView(b *testing.B) {
	v, _ := widestFlow()
	b.ReportAllocs()
	for b.Loop() {
		if w := v.Words(); len(w.Nodes) != rota.MaxWorkflowNodes || w.CriticalPathLength == 0 {
			b.Fatal(w.CriticalPathLength)
		}
	}
}

// BenchmarkOutputs finds where the outputs of a thousand parents lie, that as many
// workers completed.
func BenchmarkOutputs(b *testing.B) {
	_, f := widestFlow()
	v := &vertexRow{number: 0}
	for n := range uint32(1000) {
		v.parents = append(v.parents, n)
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
