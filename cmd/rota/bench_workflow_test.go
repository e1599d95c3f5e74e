package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/cli/lab"
	"github.com/rotasched/rota/internal/loadgen"
)

func TestBenchWorkflowUsage(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{{}, {"nowhere.json"}, {"testdata/README.md"}, {small, "--workers", "0"},
		{small, "--slots", "0"},
		{small, "--slots", "1000000"}, {small, "--format", "x"}, {small, "--time-scale", "-1"},
		{small, "--time-scale", "NaN"},
		{small, "--bound", "0s"}, {small, "--strategy", ""}, {small, "--time-scale", "1e300"}} {
		if code, _, talk := rotaLine(append([]string{"bench", "workflow"}, flags...)...); code != cli.ExitUsage {
			t.Errorf("%v: exit %d, %s", flags, code, talk)
		}
	}
	path := filepath.Join(t.TempDir(), "f.yaml")
	if err := os.WriteFile(path, []byte("nodes: [{id: b, type: t, cpu_milli: 4000}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, talk := rotaLine("bench", "workflow", path, "--slots", "3")
	if code != cli.ExitUsage || strings.Count(talk, path) != 1 || !strings.Contains(talk, `"b"`) {
		t.Errorf("a node of four processors at workers of three: exit %d, %s", code, talk)
	}
}

const small = "../../internal/flowfile/testdata/helloworld-forkjoin-10-chameleon.json"

func TestFlowMarkdown(t *testing.T) {
	t.Parallel()
	r := loadgen.FlowResult{Workflow: "w", Nodes: 3, Edges: 2, MakespanMs: 1500, CriticalPathMs: 1000, AreaMs: 400,
		ListMs: 1200, Ratio: 1.5,
		Assignments: 4, Reasoning: map[string]int{rota.ReasoningByDataLocality.String(): 3,
			rota.ReasoningOnlyWorkerAvailable.String(): 1}}
	const want = "| workflow | nodes | edges | critical path s | area s | list s | `a` s | ÷ bound | by data, only one % | `b` s | ÷ bound | " +
		"by data, only one % |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n" +
		"| w | 3 | 2 | 1.00 | 0.40 | 1.20 | 1.50 | 1.50 | 75, 25 | 1.50 | 1.50 | 75, 25 |\n"
	if got := lab.FlowMarkdown([]string{"a", "b"}, []loadgen.FlowResult{r, r}); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
