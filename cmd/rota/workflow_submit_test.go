package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/cli/workflow"
)

const nightlyYAML = `id: nightly-7
queue: etl
tenant: acme
on_failure: continue
nodes:
  - {id: fetch, type: fetch}
  - {id: clean, type: clean, parents: [fetch]}
`

// Flags override the file's settings, and a cycle is reported by its nodes, with exit 2 and before any call.
func TestWorkflowSubmit_offline(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := file("good.yaml", nightlyYAML)
	for _, c := range []struct {
		name string
		line []string
		code int
		want []string
	}{
		{"cycle", []string{file("c.yaml",
			"nodes:\n- {id: a, type: t, parents: [c]}\n- {id: b, type: t, parents: [a]}\n- {id: c, type: t, parents: [b]}\n")},
			cli.ExitUsage, []string{"c.yaml", "a → b → c"}},
		{"itself", []string{file("s.yaml", "nodes: [{id: a, type: t, parents: [a]}]")}, cli.ExitUsage,
			[]string{`"a"`, "own parent"}},
		{"several", []string{file("m.yaml", "nodes: [{id: a}, {id: b}]")}, cli.ExitUsage,
			[]string{`"a"`, `"b"`, "these 2 faults", "nothing was submitted"}},
		{"no_file", []string{filepath.Join(dir, "none.yaml")}, cli.ExitUsage, []string{"none.yaml", "no such file"}},
		{"no_argument", nil, cli.ExitUsage, []string{"arg"}},
		{"format", []string{good, "--format", "cwl"}, cli.ExitUsage, []string{`"cwl"`, "rota, wfcommons"}},
		{"policy", []string{good, "--on-failure", "stop"}, cli.ExitUsage, []string{`"stop"`}},
		{"scale", []string{good, "--time-scale", "-1"}, cli.ExitUsage, []string{"-1", "0 to 1000000"}},
		{"scale_nan", []string{good, "--time-scale", "NaN"}, cli.ExitUsage, []string{"NaN"}},
		{"scale_of_ours", []string{good, "--time-scale", "2"}, cli.ExitUsage, []string{"--time-scale", "wfcommons"}},
		{"id", []string{good, "--id", "a b"}, cli.ExitUsage, []string{`"a b"`}},
		{"ours_as_wfcommons", []string{good, "--format", "wfcommons"}, cli.ExitUsage,
			[]string{"good.yaml", "not JSON"}},
		{"nobody_there", []string{good}, cli.ExitTimeout, []string{"--id nightly-7"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			code, _, talk := rotaLine(append([]string{"workflow", "submit"}, c.line...)...)
			if code != c.code && (c.code != cli.ExitTimeout || code != cli.ExitUnavailable) {
				t.Errorf("exit %d, want %d", code, c.code)
			}
			for _, want := range c.want {
				if !strings.Contains(talk, want) {
					t.Errorf("%q is missing in\n%s", want, talk)
				}
			}
		})
	}
	t.Run("flags_beat_the_file", func(t *testing.T) {
		t.Parallel()
		a := &cli.App{}
		spec, err := workflow.Commands{App: a}.Spec(&workflow.Flags{ID: "x", Queue: "q", Tenant: "n",
			OnFailure: "fail_fast", TimeScale: 1}, rota.FailureFailFast, good, "")
		if err != nil || spec.ID != "x" || spec.Queue != "q" || spec.Tenant != "n" ||
			spec.OnFailure != rota.FailureFailFast ||
			spec.Nodes[0].Queue != "q" {
			t.Errorf("%v, %+v", err, spec)
		}
		spec, err = workflow.Commands{App: a}.Spec(&workflow.Flags{TimeScale: 1}, rota.FailureFailFast, good, "")
		if err != nil || spec.ID != "nightly-7" || spec.Queue != "etl" || spec.OnFailure != rota.FailureContinue {
			t.Errorf("%v, %+v", err, spec)
		}
	})
}
