package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rotasched/rota"
)

// flowOf makes a workflow of "id:ms:parent,parent".
func flowOf(nodes ...string) *rota.WorkflowSpec {
	spec := &rota.WorkflowSpec{}
	for _, text := range nodes {
		parts := strings.Split(text+"::", ":")
		n := rota.NodeSpec{ID: parts[0], JobSpec: rota.NewJobSpec("t", nil)}
		_, _ = fmt.Sscan(parts[1], &n.SimulateMs)
		if parts[2] != "" {
			n.Parents = strings.Split(parts[2], ",")
		}
		spec.Nodes = append(spec.Nodes, n)
	}
	return spec
}

func TestFlowBounds(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		name                 string
		nodes                []string
		workers, slots       int
		critical, area, list int64
	}{
		{"one", []string{"a:100"}, 1, 1, 100, 100, 100},
		{"chain", []string{"a:10", "b:20:a", "c:30:b"}, 2, 2, 60, 15, 60},
		{"fan", []string{"a:10", "b:20", "c:30", "d:40"}, 1, 2, 40, 50, 60},
		{"diamond", []string{"a:10", "b:20:a", "c:50:a", "d:5:b,c"}, 1, 2, 65, 43, 65},
		{"no_slot_left", []string{"a:10", "b:20:a", "c:50:a", "d:5:b,c"}, 1, 1, 65, 85, 85},
		// c has the slot when d and e become ready, in this order.
		{"order_of_readiness", []string{"a:10", "b:5", "c:40:b", "d:40:a", "e:40:a"}, 1, 2, 50, 68, 85},
		{"nothing_to_do", []string{"a:0", "b:0:a"}, 1, 1, 0, 0, 0},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			f := &flowBenchFlags{workers: one.workers, slots: one.slots, timeScale: 1}
			b, err := f.flow("f.json", flowOf(one.nodes...))
			if err != nil {
				t.Fatal(err)
			}
			if b.criticalMs != one.critical || b.areaMs != one.area || b.listMs != one.list {
				t.Errorf("critical path %d, area %d, list %d; %d, %d, %d are wanted", b.criticalMs, b.areaMs, b.listMs, one.critical,
					one.area, one.list)
			}
		})
	}
}

// Processors bound the area where there are fewer of them than of slots' time, and a
// node that no worker could hold is refused before anything runs.
func TestFlowBounds_processors(t *testing.T) {
	t.Parallel()
	spec := flowOf("a:100", "b:100")
	spec.Nodes[0].CPUMilli, spec.Nodes[1].CPUMilli = 2_000, 4_000
	f := &flowBenchFlags{workers: 1, slots: 4, timeScale: 1}
	b, err := f.flow("f.json", spec)
	if err != nil || b.areaMs != 150 {
		t.Errorf("area %+v, %v: 150 is wanted", b, err)
	}
	f.slots = 3
	if _, err := f.flow("f.json", spec); exitCode(err) != exitUsage || !strings.Contains(err.Error(), `"b"`) {
		t.Errorf("a node of four processors at workers of three: %v", err)
	}
}

// Without --time-scale the greater bound becomes --bound.
func TestFlowScale(t *testing.T) {
	t.Parallel()
	f := &flowBenchFlags{workers: 1, slots: 2, bound: 10_000_000_000}
	b, err := f.flow("f.json", flowOf("a:1000", "b:2000:a", "c:500:a"))
	if err != nil || b.criticalMs != 10_000 || b.scale < 3.33 || b.scale > 3.34 {
		t.Errorf("%+v, %v", b, err)
	}
}

func TestBenchWorkflowUsage(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{{}, {"nowhere.json"}, {"testdata/README.md"}, {small, "--workers", "0"}, {small, "--slots", "0"},
		{small, "--slots", "1000000"}, {small, "--format", "x"}, {small, "--time-scale", "-1"}, {small, "--time-scale", "NaN"},
		{small, "--bound", "0s"}, {small, "--strategy", ""}, {small, "--time-scale", "1e300"}} {
		if code, _, talk := rotaLine(append([]string{"bench", "workflow"}, flags...)...); code != exitUsage {
			t.Errorf("%v: exit %d, %s", flags, code, talk)
		}
	}
}

const small = "../../internal/flowfile/testdata/helloworld-forkjoin-10-chameleon.json"

func TestFlowMarkdown(t *testing.T) {
	t.Parallel()
	r := flowResult{Workflow: "w", Nodes: 3, Edges: 2, MakespanMs: 1500, CriticalPathMs: 1000, AreaMs: 400, ListMs: 1200, Ratio: 1.5,
		Assignments: 4, Reasoning: map[string]int{rota.ByDataLocality.String(): 3, rota.OnlyWorkerAvailable.String(): 1}}
	const want = "| workflow | nodes | edges | critical path s | area s | list s | `a` s | ÷ bound | by data, only one % | `b` s | ÷ bound | " +
		"by data, only one % |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n" +
		"| w | 3 | 2 | 1.00 | 0.40 | 1.20 | 1.50 | 1.50 | 75, 25 | 1.50 | 1.50 | 75, 25 |\n"
	if got := flowMarkdown([]string{"a", "b"}, []flowResult{r, r}); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
