package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/cli/job"
	"github.com/rotasched/rota/internal/cli/operator"
	"github.com/rotasched/rota/internal/cli/workflow"
)

var update = flag.Bool("update", false, "update the golden files")

// ran is a moment of the sample's clock.
func ran(c rota.Clock) rota.Moment {
	return rota.Moment{Clock: 1000, Date: 1_790_000_000_000}.At(c)
}

// sampleWorkflow is a small one in the middle of its run: one node failed, and a node's id has the worst allowed
// characters.
func sampleWorkflow() rota.Workflow {
	state := func(s rota.JobState) rota.NodeState { return rota.NodeState(s) }
	w := rota.Workflow{
		ID: "nightly-7", State: rota.WorkflowRunning, Queue: "etl", Tenant: "acme", OnFailure: rota.FailureContinue,
		Labels: map[string]string{"team": "data", "env": "prod"}, NodeCount: 9, EdgeCount: 11, Progress: 33, Runs: 2,
		Ending: rota.WorkflowFailed, FailedNode: "split-b", Reason: rota.ReasonAttemptsUsedUp,
		Submitted:          rota.Moment{Clock: 1000, Date: 1_790_000_000_000},
		CriticalPath:       []string{"fetch", "split-a", "join", `say "hi"\n<b>`},
		CriticalPathLength: 95_400 * time.Millisecond, Remaining: 62 * time.Second,
		Nodes: []rota.WorkflowNode{
			{ID: "fetch", Type: "fetch", State: state(rota.JobCompleted), Worker: "w1", AssignedIndex: 20,
				FinishedIndex: 31, Assigned: ran(1100), Finished: ran(13_400), Duration: 12_300 * time.Millisecond,
				Reason: rota.ReasonDone},
			{ID: "config", Type: "read", State: state(rota.JobCompleted), Worker: "w2", AssignedIndex: 21,
				FinishedIndex: 25, Assigned: ran(1100), Finished: ran(1105), Duration: 5 * time.Millisecond,
				Reason: rota.ReasonDone},
			{ID: "split-a", Type: "split", State: state(rota.JobRunning), Parents: []string{"fetch", "config"},
				Worker: "w1", Attempt: 1, AssignedIndex: 44, Assigned: ran(20_000),
				Duration: 60_000 * time.Millisecond},
			{ID: "split-b", Type: "split", State: state(rota.JobDead), Parents: []string{"fetch"}, Worker: "w2",
				Attempt: 5, AssignedIndex: 33, FinishedIndex: 40, Reason: rota.ReasonAttemptsUsedUp},
			{ID: "split-c", Type: "split", State: state(rota.JobQueued), Parents: []string{"fetch"},
				Duration: 60_000 * time.Millisecond},
			{ID: "split-d", Type: "split", State: state(rota.JobCompleted), Parents: []string{"config"}, Worker: "w1",
				Assigned: ran(2000), Finished: ran(3000), Duration: 1000 * time.Millisecond},
			{ID: "join", Type: "join", State: state(rota.JobBlocked),
				Parents: []string{"split-a", "split-c", "split-d", "config"}, Duration: 3100 * time.Millisecond},
			{ID: "report-b", Type: "mail", State: rota.NodeSkipped, Parents: []string{"split-b"},
				Reason: rota.ReasonParentFailed},
			{ID: `say "hi"\n<b>`, Type: "say", State: state(rota.JobBlocked), Parents: []string{"join"},
				Duration: 20_000 * time.Millisecond},
		},
	}
	for i := range w.Nodes {
		n := &w.Nodes[i]
		n.Job = rota.NodeJobID(w.ID, n.ID)
		if n.Parents == nil {
			n.Parents = []string{}
		}
		workflow.Count(&w.Counts, n.State)
	}
	return w
}

// wideWorkflow has enough nodes to be summarized.
func wideWorkflow() rota.Workflow {
	w := rota.Workflow{ID: "wide", State: rota.WorkflowFailed, Queue: "default", Tenant: "default", NodeCount: 82,
		EdgeCount: 160,
		Runs:      1, Submitted: rota.Moment{Clock: 10, Date: 1_790_000_000_000},
		Finished:   rota.Moment{Clock: 4_000_010, Date: 1_790_004_000_000},
		FailedNode: "map-7", Reason: rota.ReasonTTLAbsolute, Progress: 95,
		CriticalPath:       []string{"a", "b", "c", "d", "e", "f", "g", "h"},
		CriticalPathLength: 3_600_000 * time.Millisecond}
	root := rota.WorkflowNode{ID: "root", Type: "split", State: rota.NodeState(rota.JobCompleted),
		Duration: 100 * time.Millisecond}
	join := rota.WorkflowNode{ID: "join", Type: "join", State: rota.NodeState(rota.JobCancelled),
		Reason: rota.ReasonWorkflowFailed}
	w.Nodes = append(w.Nodes, root)
	for i := range 80 {
		n := rota.WorkflowNode{ID: fmt.Sprintf("map-%d", i), Type: "map", Parents: []string{"root"},
			State:    rota.NodeState(rota.JobCompleted),
			Duration: 1500 * time.Millisecond, FinishedIndex: rota.Index(100 + i)}
		if i == 7 || i == 3 {
			n.State, n.Reason, n.FinishedIndex = rota.NodeState(rota.JobExpired), rota.ReasonTTLAbsolute, rota.Index(
				500-i)
		}
		w.Nodes = append(w.Nodes, n)
		join.Parents = append(join.Parents, n.ID)
	}
	w.Nodes = append(w.Nodes, join)
	for i := range w.Nodes {
		workflow.Count(&w.Counts, w.Nodes[i].State)
	}
	return w
}

func TestWorkflowGolden(t *testing.T) {
	t.Parallel()
	sample, wide := sampleWorkflow(), wideWorkflow()
	dot := func(w rota.Workflow) string {
		var out bytes.Buffer
		if err := workflow.WriteDot(&out, &w); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	for name, text := range map[string]string{
		"show": workflow.Table(&sample, 61_000, false), "show_wide": workflow.Table(&sample, 0, true),
		"show_many": workflow.Table(&wide, 0, false), "graph": workflow.GraphText(&sample, false),
		"graph_colours": workflow.GraphText(&sample, true),
		"graph_many":    workflow.GraphText(&wide, false), "dot": dot(sample),
		"list": cli.RenderList(workflow.Columns(), []rota.Workflow{sample, wide}, false),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join("testdata", "workflow_"+name+".golden")
			if *update {
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if text != string(want) {
				t.Errorf("got\n%s\nwant\n%s\n-update rewrites the file", text, want)
			}
		})
	}
}

// A workflow's JSON is the API's whole message, whichever command prints it.
func TestWorkflowJSON(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	a := &cli.App{Stdout: &out, Output: "json"}
	w := sampleWorkflow()
	w.State = rota.WorkflowFailed // a running one asks the cluster for its clock
	if err := (workflow.Commands{App: a}).Print(t.Context(), nil, w); err != nil {
		t.Fatal(err)
	}
	var back rota.Workflow
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || !reflect.DeepEqual(back, w) {
		t.Errorf("%v; came back as\n%+v, was\n%+v", err, back, w)
	}
	for _, want := range []string{`"state": "FAILED"`, `"parents": []`, `"assigned_index": 20`, `"finished_index": 31`,
		`"progress": 33`,
		`"skipped": 1`, `"worker": "w1"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is missing in\n%s", want, out.String())
		}
	}
}

func TestWorkflowEndedWell(t *testing.T) {
	t.Parallel()
	if err := cli.WorkflowEndedWell(&rota.Workflow{State: rota.WorkflowCompleted}); err != nil {
		t.Error(err)
	}
	for _, s := range []rota.WorkflowState{rota.WorkflowFailed, rota.WorkflowCancelled} {
		err := cli.WorkflowEndedWell(&rota.Workflow{ID: "w", State: s, FailedNode: "it's",
			Reason: rota.ReasonProviderFail})
		if cli.ExitCode(err) != cli.ExitOtherwise {
			t.Errorf("%s: exit %d", s, cli.ExitCode(err))
		}
		for _, want := range []string{s.String(), `"it's"`, "PROVIDER_FAIL", `'w/it'\''s'`} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q is missing in: %v", want, err)
			}
		}
	}
}

// A malformed id is refused before any call, with exit 2.
func TestWorkflowUsage(t *testing.T) {
	t.Parallel()
	for _, line := range [][]string{{"show", "a b"}, {"show"}, {"wait", "a/b"}, {"cancel", "ä"},
		{"retry", "w", "--from", "a b"},
		{"graph", ""}, {"list", "--state", "open"}, {"list", "--state", "nope"}, {"list", "--limit", "0"},
		{"frobnicate"}, {}} {
		if code, _, talk := rotaLine(append([]string{"workflow"}, line...)...); code != cli.ExitUsage {
			t.Errorf("%v: exit %d, %s", line, code, talk)
		}
	}
}

// Ids of nodes' jobs are accepted wherever jobs' ids are; other texts are not.
func TestJobRefs(t *testing.T) {
	t.Parallel()
	if ids, err := job.IDs([]string{"w/a(b)", "j", "w/a(b)"}); err != nil || len(ids) != 2 {
		t.Errorf("%v, %v", ids, err)
	}
	for _, bad := range []string{"w/", "/a", "w/a b", "a b"} {
		if _, err := job.IDs([]string{bad}); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	if _, err := (&operator.TailFlags{Job: "w/a/b"}).Filter(); err != nil {
		t.Error(err)
	}
	if _, err := (&operator.TailFlags{Job: "w/"}).Filter(); err == nil {
		t.Error(`"w/" is accepted by events tail`)
	}
	for _, line := range [][]string{{"job", "why", "w/n"}, {"job", "reject", "w/n", "--reason", "x"},
		{"job", "show", "w/n"}} {
		if code, _, talk := rotaLine(line...); code == cli.ExitUsage {
			t.Errorf("%v: %s", line, talk)
		}
	}
}

// For any id, each line of the picture is one statement of Graphviz.
func TestWriteDot_quotes(t *testing.T) {
	t.Parallel()
	quoted := `"(?:[^"\\]|\\.)*"`
	statement := regexp.MustCompile(`^\s*(?:digraph ` + quoted + ` \{|subgraph ` + quoted +
		` \{|\}|label=.*;|(?:node|edge) \[.*\];|` +
		quoted + `(?: -> ` + quoted + `)?(?: \[(?:[a-z]+=(?:` + quoted + `|\d+)(?:, )?)+\])?;)$`)
	w := sampleWorkflow()
	for _, id := range []string{`\`, `"`, `a\"`, `-> b`, `"]; evil [`, "é→✔", "a;b", "{x}", "<b>", `\\`, `\N`} {
		w.Nodes = append(w.Nodes, rota.WorkflowNode{ID: id, Type: "t", Parents: []string{"fetch", id}})
	}
	var out bytes.Buffer
	if err := workflow.WriteDot(&out, &w); err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n") {
		if !statement.MatchString(line) {
			t.Errorf("no statement: %s", line)
		}
	}
	if n := strings.Count(out.String(), "{"); n < 2 {
		t.Errorf("%d braces", n)
	}
}
