package fsm

import (
	"fmt"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// benchDAG returns a graph with this many nodes, each of which waits for up to `edges` of the 3 × edges nodes before
// it.
func benchDAG(nodes, edges int) *dag {
	parents := make([][]uint32, nodes)
	for n := range parents {
		for e := min(edges, n/3); e > 0; e-- {
			parents[n] = append(parents[n], uint32(n-3*e+n%3))
		}
	}
	return newDAG("wf", parents)
}

func workflowSizes(b *testing.B, f func(b *testing.B, d *dag, nodes int)) {
	for _, nodes := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint("nodes=", nodes), func(b *testing.B) { f(b, benchDAG(nodes, 10), nodes) })
	}
}

func (m *filled) upload(d *dag) (longest time.Duration) {
	m.entry(d.open())
	for _, op := range d.add() {
		data := m.seal(op)
		began := time.Now()
		m.run(data)
		longest = max(longest, time.Since(began))
	}
	return longest
}

// BenchmarkWorkflowRun measures a whole run: commit, and every node assigned, acknowledged and completed, 10 edges per
// node. ns/node must not grow with the workflow.
func BenchmarkWorkflowRun(b *testing.B) {
	workflowSizes(b, func(b *testing.B, d *dag, nodes int) {
		var spent, longest time.Duration
		runs := 0
		for b.Loop() {
			m := fill(b, 0)
			for i := range 4 {
				m.entry(registerOp(fmt.Sprint("w", i), 100, "s", false))
			}
			m.upload(d)
			timed := func(ops ...*fsmpb.Op) Applied {
				data := m.seal(ops...)
				began := time.Now()
				a := m.run(data)
				took := time.Since(began)
				spent, longest = spent+took, max(longest, took)
				return a
			}
			timed(d.commit())
			for m.flows.workflows.Get("wf").State == rota.WorkflowRunning {
				var ops []*fsmpb.Op
				for _, r := range m.View.Decide(1000) {
					ops = append(ops, &fsmpb.Op{Op: &fsmpb.Op_Round{Round: r}})
				}
				ops, a := nil, timed(ops...)
				for _, e := range a.Events {
					if e.Kind == rota.EventJobAssigned {
						x, _ := m.View.Assignment(e.Lease)
						ops = append(ops, verb(rota.VerbComplete, x.Lease))
					}
				}
				timed(ops...)
			}
			runs++
		}
		b.ReportMetric(float64(spent.Nanoseconds())/float64(runs*nodes), "ns/node")
		b.ReportMetric(float64(longest.Microseconds())/1000, "ms/longest-entry")
	})
}

// BenchmarkWorkflowUpload measures the announcement, all chunks and the commit.
func BenchmarkWorkflowUpload(b *testing.B) {
	workflowSizes(b, func(b *testing.B, d *dag, nodes int) {
		var chunk, commit time.Duration
		for b.Loop() {
			m := fill(b, 0)
			chunk = max(chunk, m.upload(d))
			data := m.seal(d.commit())
			began := time.Now()
			m.run(data)
			commit = max(commit, time.Since(began))
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*nodes), "ns/node")
		b.ReportMetric(float64(chunk.Microseconds())/1000, "ms/longest-chunk")
		b.ReportMetric(float64(commit.Microseconds())/1000, "ms/commit")
	})
}

// BenchmarkWorkflowEnd measures the cancellation of a whole workflow, its retry, and its retry from the middle: the
// duration of the longest entry of each.
func BenchmarkWorkflowEnd(b *testing.B) {
	workflowSizes(b, func(b *testing.B, d *dag, nodes int) {
		var longest [4]time.Duration
		for b.Loop() {
			m := fill(b, 0)
			m.upload(d)
			m.entry(d.commit())
			settle := func(step int, op *fsmpb.Op) {
				for more := true; more; op = sweepOp() {
					data := m.seal(op)
					began := time.Now()
					a := m.run(data)
					longest[step] = max(longest[step], time.Since(began))
					more = a.Sweep.More
				}
			}
			settle(0, d.cancel())
			settle(1, d.retry("", 1))
			settle(0, d.cancel())
			settle(2, d.retry(fmt.Sprint("n", nodes/2), 2))
			began := time.Now()
			if _, err := reload(m.Machine); err != nil {
				b.Fatal(err)
			}
			longest[3] = max(longest[3], time.Since(began))
		}
		for i, name := range []string{"cancel", "retry", "retry-from", "restore"} {
			b.ReportMetric(float64(longest[i].Microseconds())/1000, "ms/"+name)
		}
	})
}
