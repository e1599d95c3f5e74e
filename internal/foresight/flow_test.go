package foresight

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// flowOf returns a workflow of nodes with their run times in seconds and their parents.
func flowOf(t *testing.T, nodes ...rota.NodeSpec) (*Flow, []Job) {
	t.Helper()
	flow, jobs, err := FromWorkflow(&rota.WorkflowSpec{Nodes: nodes})
	if err != nil {
		t.Fatal(err)
	}
	return flow, jobs
}

func node(id string, run time.Duration, parents ...string) rota.NodeSpec {
	n := rota.NewNodeSpec(id, "step", nil, parents...)
	n.Simulate = run * time.Second
	return n
}

// diamond returns a node, two that wait for it, and one that waits for both; its longest chain takes 45 s.
func diamond(t *testing.T) (*Flow, []Job) {
	return flowOf(t, node("a", 10), node("b", 20, "a"), node("c", 30, "a"), node("d", 5, "b", "c"))
}

// TestRun_workflow compares a workflow on one processor and on two with results computed by hand. On one, c and b are
// ready at 10, and one of them waits for the other; no other job ever waits.
func TestRun_workflow(t *testing.T) {
	flow, jobs := diamond(t)
	for _, test := range []struct {
		procs                    int64
		policy                   string
		makespan, waits, longest float64
	}{{1, "p:ranking=shortest", 65, 20, 20}, {2, "p:ranking=shortest", 45, 0, 0}, {1, "p:ranking=fifo,backfill=easy",
		65, 20, 20}, {2, "p:preset=standard", 45, 0, 0}} {
		got, err := Run(context.Background(), &Plan{Jobs: jobs, Flow: flow, Workers: Machine(test.procs),
			Policies: []Policy{policy(t, test.policy)}})
		if err != nil {
			t.Fatal(err)
		}
		r := &got[0]
		if r.MakespanS != test.makespan || r.WaitMeanS != test.waits/4 || r.WaitMaxS != test.longest ||
			r.CriticalPathS != 45 || r.Jobs != 4 || r.Expired != 0 {
			t.Errorf("%s on %d: %+v", test.policy, test.procs, r)
		}
	}
}

// TestRun_wide has more nodes ready at once than one entry releases, and one processor: all are pending from that
// moment on.
func TestRun_wide(t *testing.T) {
	nodes := []rota.NodeSpec{node("root", 10)}
	for i := range 3000 {
		nodes = append(nodes, node(fmt.Sprint("leaf", i), 10, "root"))
	}
	flow, jobs := flowOf(t, nodes...)
	got, err := Run(context.Background(), &Plan{Jobs: jobs, Flow: flow, Workers: Machine(1),
		Policies: []Policy{policy(t, "p:ranking=fifo")}})
	if err != nil {
		t.Fatal(err)
	}
	if mean := 10 * (2999.0 * 3000 / 2) / 3001; math.Abs(got[0].WaitMeanS-mean) > 1e-6 || got[0].WaitMaxS != 29_990 {
		t.Errorf("%+v", got[0])
	}
}

// TestSimulate_workflowTicks compares a workflow with one whose life has every tick and encodes and decodes every
// entry.
func TestSimulate_workflowTicks(t *testing.T) {
	first := node("b", 20, "a")
	first.Priority = 1 // otherwise the first of the two is drawn
	flow, jobs := flowOf(t, node("a", 10), first, node("c", 30, "a"), node("d", 5, "b", "c"))
	for _, text := range []string{"p:ranking=fifo", "p:preset=standard", "p:ranking=fifo,hold_after=5s",
		"p:ranking=shortest,ttl_abs=15s"} {
		l := Life{Jobs: jobs, Flow: flow, Workers: Machine(1), Settings: policy(t, text).Settings}
		got, err := Simulate(context.Background(), &l)
		if err != nil {
			t.Fatal(err)
		}
		l.thorough = true
		want, err := Simulate(context.Background(), &l)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %+v, with every tick %+v, %v", text, got, want, err)
		}
	}
}

// TestFromWorkflow checks that workflows that cannot be simulated are refused.
func TestFromWorkflow(t *testing.T) {
	gate := rota.NewNodeSpec("g", "", nil)
	gate.Gate = &rota.Gate{}
	if _, _, err := FromWorkflow(&rota.WorkflowSpec{Nodes: []rota.NodeSpec{gate}}); rota.KindOf(
		err) != rota.KindInvalid {
		t.Errorf("a gate: %v", err)
	}
	if _, _, err := FromWorkflow(&rota.WorkflowSpec{Nodes: []rota.NodeSpec{node("a", 1, "b"),
		node("b", 1, "a")}}); err == nil {
		t.Error("a cycle is accepted")
	}
}
