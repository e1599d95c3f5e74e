package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/cli/worker"
)

// A node's command finds its parents' outputs in files, in the workflow's order, and the files are removed afterwards.
func TestExecution_of_a_node(t *testing.T) {
	t.Parallel()
	parents := []rota.ParentOutput{
		{Node: "b", Job: "w/b", Output: []byte("two\n"), OutputDigest: rota.Hex{0xab}},
		{Node: "a", Job: "w/a", Output: []byte("one\n")},
		{Node: "../../etc/x", Job: "w/../../etc/x", Output: []byte("out\n")},
		{Node: "index.json", Job: "w/index.json"},
	}
	t.Run("files_and_index", func(t *testing.T) {
		t.Parallel()
		e, _ := executing(`echo "$ROTA_WORKFLOW_ID $ROTA_NODE_ID"; echo "$ROTA_PARENTS"; ls -ld "$ROTA_PARENTS" | cut -c1-10
			ls -l "$ROTA_PARENTS_INDEX" | cut -c1-10; ls "$ROTA_PARENTS"; cat "$ROTA_PARENTS"/*; echo ===; cat "$ROTA_PARENTS_INDEX"`, "")
		e.Job, e.Parents = "w/n(1)", parents
		output, err := e.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		said, index, _ := strings.Cut(string(output), "===\n")
		lines := strings.Split(said, "\n")
		dir := lines[1]
		want := "w n(1)\n" + dir + "\ndrwx------\n-rw-------\n%2E.%2F..%2Fetc%2Fx\na\nb\nindex.json\nout\none\ntwo\n"
		if said != want {
			t.Errorf("it saw\n%s, want\n%s", said, want)
		}
		var listed struct {
			Parents []struct {
				Node, Job, File string
				OutputDigest    string `json:"output_digest"`
			}
		}
		if err := json.Unmarshal([]byte(index), &listed); err != nil || len(listed.Parents) != 4 {
			t.Fatalf("%v: %s", err, index)
		}
		if first := listed.Parents[0]; first.Node != "b" || first.Job != "w/b" || first.OutputDigest != "ab" ||
			first.File != filepath.Join(dir, "b") {
			t.Errorf("the index begins with %+v", first)
		}
		if _, err := os.Stat(filepath.Dir(dir)); !os.IsNotExist(err) {
			t.Errorf("something is left: %v", err)
		}
	})
	t.Run("a_root_has_none", func(t *testing.T) {
		t.Parallel()
		e, _ := executing(`echo "$ROTA_NODE_ID ${ROTA_PARENTS-none} ${ROTA_PARENTS_INDEX-none}"`, "")
		e.Job = "w/root"
		if output, err := e.Run(t.Context()); err != nil || string(output) != "root none none\n" {
			t.Errorf("%q, %v", output, err)
		}
	})
	t.Run("another_job_has_neither", func(t *testing.T) {
		t.Parallel()
		e, _ := executing(`echo "${ROTA_WORKFLOW_ID-none} ${ROTA_NODE_ID-none} ${ROTA_PARENTS-none}"`, "")
		if output, err := e.Run(t.Context()); err != nil || string(output) != "none none none\n" {
			t.Errorf("%q, %v", output, err)
		}
	})
}

func TestParentFileName(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	long := strings.Repeat("é", rota.MaxNodeIDBytes/2)
	for _, node := range []string{"a", ".", "..", "...", ".a", "%2E", "a/b", "a%2Fb", "/", "a b", long,
		long[:len(long)-2] + "è", "-rf", "a\x00"} {
		name := worker.ParentFileName(node)
		if other, twice := seen[name]; twice {
			t.Errorf("%q and %q are both %q", node, other, name)
		}
		seen[name] = node
		if len(name) > worker.MaxFileName || strings.ContainsAny(name, "/\x00") || strings.HasPrefix(name, ".") ||
			name == "" {
			t.Errorf("%q becomes %q", node, name)
		}
	}
}

// The handler of --exec passes the outputs of its node's parents to the command.
func TestHandler_of_a_node(t *testing.T) {
	t.Parallel()
	handle := worker.Commands{App: &cli.App{Stderr: &cli.LockedWriter{W: io.Discard}}}.Handler(`cat "$ROTA_PARENTS"/*`,
		nil)
	job := client.NewJob(rota.Assignment{Spec: rota.JobSpec{ID: "w/n"}}, nil,
		client.WithParents(rota.ParentOutput{Node: "p", Output: []byte("from p")}))
	if result, err := handle(t.Context(), job); err != nil || string(result.Output) != "from p" {
		t.Errorf("%q, %v", result.Output, err)
	}
}
