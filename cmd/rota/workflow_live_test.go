package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/cli"
)

// running runs a command until the test's end, and returns the first line that it prints to stdout.
func running(t *testing.T, args ...string) *bufio.Scanner {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	in, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		a := &cli.App{Stdin: strings.NewReader(""), Stdout: out, Stderr: &cli.LockedWriter{W: io.Discard}}
		root := rootCommand(a)
		root.SetArgs(args)
		err := root.ExecuteContext(ctx)
		out.CloseWithError(io.EOF)
		done <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("%v ended with %v", args, err)
		}
	})
	return bufio.NewScanner(in)
}

// A workflow's whole life from the command line: submitted, run by a worker whose commands see their parents, failed,
// retried, cancelled, each with its exit code.
func TestWorkflow_live(t *testing.T) {
	t.Parallel()
	cluster := running(t, "dev", "--nodes", "1", "--data", t.TempDir())
	if !cluster.Scan() || !strings.HasPrefix(cluster.Text(), "ready addr=") {
		t.Fatalf("the cluster's first line is %q", cluster.Text())
	}
	addr := strings.TrimPrefix(cluster.Text(), "ready addr=")
	rotaTo := func(want int, args ...string) (stdout, stderr string) {
		t.Helper()
		var out, talk bytes.Buffer
		code := run(append(args, "--addr", addr), nil, strings.NewReader(""), &out, &talk)
		if code != want {
			t.Fatalf("%v: exit %d, want %d: %s", args, code, want, talk.String())
		}
		return out.String(), talk.String()
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "w.yaml")
	if err := os.WriteFile(file, []byte(`queue: q
nodes:
  - {id: a, type: say, payload: one}
  - {id: b, type: say, payload: two}
  - {id: "c/d", type: join, parents: [a, b]}
  - {id: e, type: gate, parents: ["c/d"]}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	rotaTo(cli.ExitNotFound, "workflow", "submit", file, "--id", "w")
	rotaTo(cli.ExitDone, "queue", "set", "q", "--set", "attempt_max=1")
	rotaTo(cli.ExitNotFound, "workflow", "show", "w")
	rotaTo(cli.ExitDone, "workflow", "submit", file, "--id", "w")
	rotaTo(cli.ExitTimeout, "workflow", "wait", "w", "--timeout", "1ms")
	if _, talk := rotaTo(cli.ExitDone, "workflow", "submit", file, "--id", "w"); !strings.Contains(talk,
		"was there before") {
		t.Errorf("submitted again it prints %q", talk)
	}
	rotaTo(cli.ExitDone, "mode", "set", "READ_ONLY", "--reason", "test")
	rotaTo(cli.ExitRefused, "workflow", "submit", file, "--id", "w2")
	rotaTo(cli.ExitDone, "mode", "set", "NORMAL", "--reason", "test")

	gate := filepath.Join(dir, "gate")
	running(t, "worker", "run", "--addr", addr, "--queues", "q", "--slots", "2", "--guard=false", "--exec",
		`case $ROTA_JOB_TYPE in say) cat;; join) cat "$ROTA_PARENTS"/*;; gate) test -e `+gate+`;; esac`)
	_, talk := rotaTo(cli.ExitOtherwise, "workflow", "wait", "w")
	if !strings.Contains(talk, `node "e"`) || !strings.Contains(talk, "rota job show w/e") {
		t.Errorf("its failure is printed as %q", talk)
	}
	if out, _ := rotaTo(cli.ExitDone, "job", "show", "w/c/d", "-o", "json"); !strings.Contains(out,
		`"output": "onetwo"`) {
		t.Errorf("the join's output is %s", out)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	rotaTo(cli.ExitNotFound, "workflow", "retry", "w", "--from", "zzz")
	rotaTo(cli.ExitDone, "workflow", "retry", "w", "--from", "e")
	rotaTo(cli.ExitDone, "workflow", "wait", "w")
	var w rota.Workflow
	out, _ := rotaTo(cli.ExitDone, "workflow", "show", "w", "-o", "json")
	if err := json.Unmarshal([]byte(out), &w); err != nil || w.State != rota.WorkflowCompleted || w.Runs != 2 ||
		len(w.Nodes) != 4 || w.Nodes[3].Worker == "" || w.Nodes[3].FinishedIndex <= w.Nodes[3].AssignedIndex {
		t.Errorf("%v: %s", err, out)
	}
	if out, _ := rotaTo(cli.ExitDone, "events", "tail", "--job", "w/c/d", "-o", "jsonl"); !strings.Contains(out,
		`"run_id":"w","node_id":"c/d"`) {
		t.Errorf("the join's events are %s", out)
	}
	rotaTo(cli.ExitDone, "workflow", "submit", small, "--queue", "q", "--time-scale", "0", "--wait")
	rotaTo(cli.ExitDone, "queue", "pause", "q")
	rotaTo(cli.ExitDone, "workflow", "submit", file, "--id", "w3")
	rotaTo(cli.ExitDone, "workflow", "cancel", "w3")
	rotaTo(cli.ExitOtherwise, "workflow", "wait", "w3")
	if out, _ := rotaTo(cli.ExitDone, "workflow", "list", "--state", "cancelled", "-o", "name"); out != "w3\n" {
		t.Errorf("cancelled are %q", out)
	}
}
