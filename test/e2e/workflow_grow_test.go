package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/test/rig"
)

// Commands add nodes to their workflows by $ROTA_CHILDREN.
func TestWorkflowChildrenOfCommands(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	for _, one := range []struct {
		name string
		run  func(*testing.T, *nodes)
	}{
		{"the_guides_example", childrenGuide},
		{"a_fault_fails_the_attempt_and_adds_nothing", childrenFaulty},
		{"nested_fan_outs_join", childrenNested},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			one.run(t, c)
		})
	}
	t.Cleanup(func() { c.verified(t, 1) }) // after the parallel ones
}

// guideBlocks returns the blocks of one section of a guide, each with its language before it.
func guideBlocks(t *testing.T, guide, section string) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/guides/" + guide)
	check(t, err)
	_, rest, ok := strings.Cut(string(text), "\n## "+section)
	if !ok {
		t.Fatalf("%s has no section %q", guide, section)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	var blocks []string
	for i, part := range strings.Split(rest, "```") {
		if i%2 == 1 {
			blocks = append(blocks, part)
		}
	}
	return blocks
}

// childrenGuide runs the commands of docs/guides/workflows.md, word for word.
func childrenGuide(t *testing.T, c *nodes) {
	flowQueue(t, c, "etl")
	blocks := guideBlocks(t, "workflows.md", "Children")
	if len(blocks) < 2 || !strings.HasPrefix(blocks[0], "yaml\n") || !strings.HasPrefix(blocks[1], "sh\n") {
		t.Fatalf("the guide's example begins differently: %q", blocks)
	}
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "census.yaml"), strings.TrimPrefix(blocks[0], "yaml\n"))
	script, worker, found := strings.Cut(strings.TrimPrefix(blocks[1], "sh\n"), "rota worker run ")
	if !found {
		t.Fatalf("the guide starts no worker: %s", blocks[1])
	}
	_, submit, _ := strings.Cut(worker, "\n")
	run := func(text string) string {
		cmd := exec.Command("sh", "-euc", text)
		cmd.Dir, cmd.Env = dir, append(rig.Bare(c.env()), "PATH="+filepath.Dir(rotaBinary)+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", text, err, out)
		}
		return string(out)
	}
	run(script)
	if !strings.Contains(worker, "--exec 'sh ./census.sh'") {
		t.Fatalf("the guide's worker differs: %s", worker)
	}
	c.worker(t, "--queues", "etl", "--slots", "2", "--exec", "cd "+dir+" && sh ./census.sh")
	contains(t, "the guide's last command", run(submit), "14")
	_, nodes := c.showFlow(t, "census-7")
	states(t, nodes, "list:COMPLETED page-alpha:COMPLETED page-beta:COMPLETED page-gamma:COMPLETED sum:COMPLETED")
}

// childrenFaulty has commands leave files with faults.
func childrenFaulty(t *testing.T, c *nodes) {
	flowQueue(t, c, "faulty")
	c.worker(t, "--queues", "faulty", "--slots", "4", "--exec", `cat >"$ROTA_CHILDREN"`)
	for id, one := range map[string]struct{ payload, want string }{
		"no-type": {"{\"id\": \"ok\", \"type\": \"x\"}\n{\"id\": \"bad\"}",
			`$ROTA_CHILDREN: line 2: child "bad": type is missing`},
		"no-json": {"page-1\n", "$ROTA_CHILDREN: line 1: not JSON"},
		"no-parent": {`{"id": "ok", "type": "x", "parents": ["after"]}`,
			`parent "after" is neither "n", the node that completes, nor a child before`},
		"taken":      {`{"id": "after", "type": "x"}`, "duplicate id in workflow taken"},
		"no-queue":   {`{"id": "ok", "type": "x", "queue": "nowhere"}`, `queue "nowhere" does not exist`},
		"twice":      {strings.Repeat("{\"id\": \"a\", \"type\": \"x\"}\n", 3), "line 2: child \"a\": duplicate"},
		"its-own-id": {`{"id": "n", "type": "x"}`, "the id of the node that completes"},
		"much-in-all": {`{"id": "a", "type": "x", "payload": "` + strings.Repeat("x", 140<<10) + `"}`,
			"the handler's result is refused: children too long"},
	} {
		payload, err := json.Marshal(one.payload)
		check(t, err)
		c.submitFlow(t, "faulty", id, `{"nodes": [{"id": "n", "type": "list", "payload": `+string(payload)+
			`}, {"id": "after", "type": "list", "parents": ["n"]}]}`).want(t, 0)
		w, nodes := c.awaitFlow(t, id, 6)
		if w.NodeCount != 2 || w.FailedNode != "n" {
			t.Errorf("%s: %d nodes, %q failed", id, w.NodeCount, w.FailedNode)
		}
		states(t, nodes, "after:CANCELLED n:DEAD")
		if job := c.job(t, id+"/n"); job.Reason != rota.ReasonProviderFail || !strings.Contains(job.Error, one.want) {
			t.Errorf("%s: %s, %q lacks %q", id, job.Reason, clip(job.Error), one.want)
		}
	}
}

// childrenNested fans out twice: a node that waits for the first node waits for all leaves and sees them.
func childrenNested(t *testing.T, c *nodes) {
	flowQueue(t, c, "nested")
	c.worker(t, "--queues", "nested", "--slots", "4", "--exec", `case $ROTA_JOB_TYPE in
		grow) for k in 1 2 3; do
			t=leaf; [ "$ROTA_NODE_ID" != n ] || t=grow
			echo "{\"id\": \"$ROTA_NODE_ID.$k\", \"type\": \"$t\"}"
		done >"$ROTA_CHILDREN";;
		leaf) echo "$ROTA_NODE_ID";;
		sum) cat "$ROTA_PARENTS"/*;;
		esac`)
	c.submitFlow(t, "nested", "nested", `
nodes:
  - {id: n, type: grow}
  - {id: sum, type: sum, parents: [n]}`).want(t, 0)
	w, _ := c.awaitFlow(t, "nested", 0)
	if w.NodeCount != 14 || w.Counts.Completed != 14 {
		t.Errorf("%+v", w.Counts)
	}
	if got := string(c.job(t,
		"nested/sum").Output); got != "n.1.1\nn.1.2\nn.1.3\nn.2.1\nn.2.2\nn.2.3\nn.3.1\nn.3.2\nn.3.3\n" {
		t.Errorf("sum saw %q", got)
	}
}

// TestWorkflowChildrenLeaderKilled kills leaders while commands add children: each joins once, and a node that waits
// for the first node waits for all.
func TestWorkflowChildrenLeaderKilled(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	flowQueue(t, c, "grow", "--set", "attempt_max=5")
	c.worker(t, "--queues", "grow", "--slots", "8", "--exec", `case $ROTA_JOB_TYPE in
		grow) sleep 0.5; for k in 1 2 3 4 5; do
			t=leaf; [ "${#ROTA_NODE_ID}" -gt 3 ] || t=grow
			echo "{\"id\": \"$ROTA_NODE_ID.$k\", \"type\": \"$t\"}"
		done >"$ROTA_CHILDREN";;
		leaf) sleep 0.8; echo "$ROTA_NODE_ID";;
		sum) cat "$ROTA_PARENTS"/* | sort | uniq | wc -l;;
		esac`)
	c.submitFlow(t, "grow", "grow", `
nodes:
  - {id: n, type: grow}
  - {id: sum, type: sum, parents: [n]}`).want(t, 0)
	for _, most := range []int64{3, 40} { // while the first nodes grow, and while the last do
		c.halfDone(t, "grow", most)
		dead := c.killLeader(t)
		dead.start(t)
		c.awaitReady()
	}
	w, nodes := c.awaitFlow(t, "grow", 0)
	if want := int64(1 + 5 + 25 + 125 + 1); w.NodeCount != want || w.Counts.Completed != want {
		t.Errorf("want %d nodes: %+v", want, w.Counts)
	}
	if sum := c.job(t, "grow/sum"); strings.TrimSpace(string(sum.Output)) != "125" {
		t.Errorf("sum saw %q", sum.Output)
	}
	last := rota.Index(0)
	for id, n := range nodes {
		if id != "sum" {
			last = max(last, n.FinishedIndex)
		}
	}
	if sum := nodes["sum"]; sum.AssignedIndex <= last {
		t.Errorf("sum was assigned at %d, the last leaf completed at %d", sum.AssignedIndex, last)
	}
	c.verified(t, 3)
}
