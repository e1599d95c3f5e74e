package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// The output and exit codes of workflow commands, as scripts see them, on a real cluster of three processes.
func TestWorkflowCommands(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	for _, one := range []struct {
		name string
		run  func(*testing.T, *nodes)
	}{
		{"faulty_graph_is_refused_node_by_node", flowRefused},
		{"known_id_changes_nothing", flowTwice},
		{"fail_fast_cancels_what_is_not_running", flowFailFast},
		{"continue_skips_descendants_and_retry_mends", flowContinue},
		{"retry_from_a_node_leaves_the_others", flowRetryFrom},
		{"cancel_ends_what_runs", flowCancel},
		{"cancelled_node_fails_its_workflow", flowNodeCancelled},
		{"children_see_parents_outputs", flowOutputs},
		{"priority_orders_ready_nodes", flowPriority},
		{"capacity_is_kept", flowCapacity},
		{"waiting_node_says_why", flowWhy},
		{"list_graph_and_dot", flowPictures},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			one.run(t, c)
		})
	}
	t.Cleanup(func() { c.verified(t, 3) }) // after the parallel ones
}

// flowQueue makes a queue whose jobs have one attempt.
func flowQueue(t *testing.T, c *nodes, name string, more ...string) {
	t.Helper()
	c.rota(t, append([]string{"queue", "set", name, "--preset", "dag", "--set", "attempt_max=1"}, more...)...).want(t,
		0)
}

// submitFlow submits a workflow in YAML.
func (c *nodes) submitFlow(t *testing.T, queue, id, text string, more ...string) *result {
	t.Helper()
	args := append([]string{"workflow", "submit", "-", "--queue", queue, "--id", id, "-o", "json"}, more...)
	return command(t, []string{c.env()}, text, args...)
}

// awaitFlow waits for a workflow's end and returns it with its nodes by id.
func (c *nodes) awaitFlow(t *testing.T, id string, code int) (rota.Workflow, map[string]rota.WorkflowNode) {
	t.Helper()
	c.rota(t, "workflow", "wait", id, "--timeout", "60s").want(t, code)
	return c.showFlow(t, id)
}

func (c *nodes) showFlow(t *testing.T, id string) (rota.Workflow, map[string]rota.WorkflowNode) {
	t.Helper()
	w := decode[rota.Workflow](t, c.rota(t, "workflow", "show", id, "-o", "json"))
	byID := map[string]rota.WorkflowNode{}
	for _, n := range w.Nodes {
		byID[n.ID] = n
	}
	return w, byID
}

// states requires nodes in states: "a:COMPLETED b:SKIPPED".
func states(t *testing.T, nodes map[string]rota.WorkflowNode, want string) {
	t.Helper()
	for pair := range strings.FieldsSeq(want) {
		id, state, _ := strings.Cut(pair, ":")
		if n := nodes[id]; n.State.String() != state {
			t.Errorf("node %s is %s (%s), want %s", id, n.State, n.Reason, state)
		}
	}
}

func flowRefused(t *testing.T, c *nodes) {
	flowQueue(t, c, "refused")
	for _, one := range []struct{ name, text, says string }{
		{"cycle", "nodes: [{id: a, type: t, parents: [c]}, {id: b, type: t, parents: [a]}, {id: c, type: t, parents: [b]}, " +
			"{id: d, type: t, parents: [c]}]", "a → b → c → a"},
		{"unknown-parent", "nodes: [{id: a, type: t, parents: [zz]}]", `"zz"`},
		{"unknown-end", "nodes: [{id: a, type: t}]\nedges: [{from: a, to: nope}]", `"nope"`},
		{"self", "nodes: [{id: a, type: t, parents: [a]}]", "its own parent"},
		{"twice", "nodes: [{id: a, type: t}, {id: a, type: t}]", `duplicate node "a"`},
		{"empty", "nodes: []", "node"},
		{"untyped", "nodes: [{id: a}]", "type"},
		{"strange-field", "nodes: [{id: a, type: t, colour: red}]", "colour"},
	} {
		r := c.submitFlow(t, "refused", one.name, one.text).want(t, 2)
		contains(t, one.name, r.stderr, one.says)
		if lines := strings.Count(strings.TrimSpace(r.stderr), "\n"); lines > 2 {
			t.Errorf("refusing %s prints %d lines: %s", one.name, lines+1, r.stderr)
		}
		c.rota(t, "workflow", "show", one.name).want(t, 3)
	}
	contains(t, "an unknown queue", c.submitFlow(t, "no-such-queue", "q", "nodes: [{id: a, type: t}]").want(t,
		3).stderr,
		"no-such-queue")
	for _, verb := range []string{"show", "wait", "cancel", "retry", "graph"} {
		c.rota(t, "workflow", verb, "never-was").want(t, 3)
	}
}

// A known id returns the existing workflow, whichever node is asked; another one under it is refused.
func flowTwice(t *testing.T, c *nodes) {
	flowQueue(t, c, "twice")
	const text = "nodes: [{id: a, type: t, simulate_ms: 200}, {id: b, type: t, parents: [a]}]"
	first := decode[rota.WorkflowSubmitted](t, c.submitFlow(t, "twice", "same", text))
	if first.Existed || first.Nodes != 2 || first.Edges != 1 || first.State != rota.WorkflowRunning {
		t.Errorf("the first submission returns %+v", first)
	}
	for _, n := range c.all {
		other := c.submitFlow(t, "twice", "same", "nodes: [{id: other, type: t}]", "--addr", n.API).want(t, 4)
		contains(t, "another workflow of a known id", other.stderr, "same")
		r := c.submitFlow(t, "twice", "same", text, "--addr", n.API)
		if again := decode[rota.WorkflowSubmitted](t, r); !again.Existed || again.Nodes != 2 || again.Edges != 1 {
			t.Errorf("%s returns %+v for a known id, the first submission was %+v", n.ID, again, first)
		}
	}
	c.worker(t, "--queues", "twice")
	c.awaitFlow(t, "same", 0)
	over := decode[rota.WorkflowSubmitted](t, c.submitFlow(t, "twice", "same", text))
	if !over.Existed || over.State != rota.WorkflowCompleted {
		t.Errorf("submitting a completed workflow again returns %+v", over)
	}
}

// The same id after the leader's death is still the same workflow, and it continues.
func TestWorkflowKnownAfterKill(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	flowQueue(t, c, "kill")
	const text = "nodes: [{id: a, type: t, simulate_ms: 100}, {id: b, type: t, parents: [a], simulate_ms: 100}]"
	first := decode[rota.WorkflowSubmitted](t, c.submitFlow(t, "kill", "same", text))
	leader := c.leader(t)
	leader.Kill()
	again := decode[rota.WorkflowSubmitted](t, c.submitFlow(t, "kill", "same", text))
	if !again.Existed || again.Nodes != 2 || again.Edges != 1 {
		t.Errorf("after the leader's death the submission returns %+v, before it %+v", again, first)
	}
	c.worker(t, "--queues", "kill")
	leader.start(t)
	leader.awaitReady(t)
	_, byID := c.awaitFlow(t, "same", 0)
	states(t, byID, "a:COMPLETED b:COMPLETED")
	c.flow(t, "same")
	c.verified(t, 3)
}

// switched returns a command that fails for nodes called bad… until a file exists, and runs as long as a node called
// slow… requires.
func switched(file string) string {
	return `case "$ROTA_NODE_ID" in bad*) [ -e ` + file +
		` ] || { echo no luck >&2; exit 3; };; slow*) sleep 1.5;; esac; echo "$ROTA_NODE_ID"`
}

func flowFailFast(t *testing.T, c *nodes) {
	flowQueue(t, c, "fast")
	c.worker(t, "--queues", "fast", "--slots", "4", "--exec", switched("/nonexistent"))
	c.submitFlow(t, "fast", "fast", `
nodes:
  - {id: slow, type: t}
  - {id: bad, type: t}
  - {id: late, type: t, requires: [what-nobody-has]}
  - {id: child, type: t, parents: [bad]}
  - {id: after, type: t, parents: [slow]}`).want(t, 0)
	w, byID := c.awaitFlow(t, "fast", 6)
	if w.State != rota.WorkflowFailed || w.FailedNode != "bad" || w.Reason != rota.ReasonProviderFail {
		t.Errorf("the workflow is %s for %q, %s", w.State, w.FailedNode, w.Reason)
	}
	// Running nodes continue to their end, waiting ones do not begin.
	states(t, byID, "slow:COMPLETED bad:DEAD late:CANCELLED child:CANCELLED after:CANCELLED")
	r := c.rota(t, "workflow", "wait", "fast").want(t, 6)
	contains(t, "the output of wait", r.stderr, `"bad"`, "fast/bad")
	child := c.job(t, "fast/child")
	if child.State != rota.JobCancelled || child.Reason.String() != "WORKFLOW_FAILED" {
		t.Errorf("the job of a cancelled node is %s, %s", child.State, child.Reason)
	}
}

func flowContinue(t *testing.T, c *nodes) {
	flowQueue(t, c, "on")
	file := filepath.Join(t.TempDir(), "fixed")
	c.worker(t, "--queues", "on", "--slots", "4", "--exec", switched(file))
	c.submitFlow(t, "on", "on", `
on_failure: continue
nodes:
  - {id: root, type: t}
  - {id: bad, type: t, parents: [root]}
  - {id: x, type: t, parents: [bad]}
  - {id: y, type: t, parents: [x]}
  - {id: good, type: t, parents: [root]}
  - {id: z, type: t, parents: [good]}
  - {id: both, type: t, parents: [z, y]}`).want(t, 0)
	w, before := c.awaitFlow(t, "on", 6)
	if w.State != rota.WorkflowFailed || w.FailedNode != "bad" || w.Counts.Skipped != 3 || w.Counts.Completed != 3 {
		t.Errorf("the workflow is %s for %q: %+v", w.State, w.FailedNode, w.Counts)
	}
	states(t, before, "root:COMPLETED bad:DEAD x:SKIPPED y:SKIPPED both:SKIPPED good:COMPLETED z:COMPLETED")
	if job := c.job(t, "on/x"); job.State != rota.JobCancelled || job.Reason.String() != "PARENT_FAILED" {
		t.Errorf("the job of a skipped node is %s, %s", job.State, job.Reason)
	}
	refused := c.rota(t, "job", "retry", "on/bad").want(t, 1)
	contains(t, "job retry of a node", refused.stderr, "rota workflow retry on --from bad")
	writeFile(t, file, "")
	c.rota(t, "workflow", "retry", "on").want(t, 0)
	w, after := c.awaitFlow(t, "on", 0)
	states(t, after, "root:COMPLETED bad:COMPLETED x:COMPLETED y:COMPLETED both:COMPLETED good:COMPLETED z:COMPLETED")
	if w.Runs != 2 || w.FailedNode != "" {
		t.Errorf("after a retry it is run %d, failed node %q", w.Runs, w.FailedNode)
	}
	for _, id := range []string{"root", "good", "z"} {
		if before[id].AssignedIndex != after[id].AssignedIndex || before[id].FinishedIndex != after[id].FinishedIndex {
			t.Errorf("node %s had completed and ran again: %+v, before %+v", id, after[id], before[id])
		}
	}
	contains(t, "a retry of what completed", c.rota(t, "workflow", "retry", "on").want(t, 1).stderr, "COMPLETED")
}

func flowRetryFrom(t *testing.T, c *nodes) {
	flowQueue(t, c, "from")
	file := filepath.Join(t.TempDir(), "fixed")
	c.worker(t, "--queues", "from", "--slots", "4", "--exec", switched(file))
	c.submitFlow(t, "from", "from", `
on_failure: continue
nodes:
  - {id: bad1, type: t}
  - {id: x1, type: t, parents: [bad1]}
  - {id: bad2, type: t}
  - {id: x2, type: t, parents: [bad2]}`).want(t, 0)
	c.awaitFlow(t, "from", 6)
	writeFile(t, file, "")
	c.rota(t, "workflow", "retry", "from", "--from", "nobody").want(t, 3)
	c.rota(t, "workflow", "retry", "from", "--from", "bad1").want(t, 0)
	w, byID := c.awaitFlow(t, "from", 6)
	states(t, byID, "bad1:COMPLETED x1:COMPLETED bad2:DEAD x2:SKIPPED")
	if w.State != rota.WorkflowFailed {
		t.Errorf("with one branch still failed it is %s", w.State)
	}
	// An ancestor of the skipped one has to run too.
	c.rota(t, "workflow", "retry", "from", "--from", "x2").want(t, 0)
	_, byID = c.awaitFlow(t, "from", 0)
	states(t, byID, "bad1:COMPLETED x1:COMPLETED bad2:COMPLETED x2:COMPLETED")
}

func flowCancel(t *testing.T, c *nodes) {
	flowQueue(t, c, "cancel", "--set", "lease_ms=5000") // the retry waits that long: its worker might not know yet
	dir := t.TempDir()
	c.worker(t, "--queues", "cancel", "--slots", "2", "--exec",
		`case "$ROTA_NODE_ID" in long) [ -e `+dir+`/short ] || { echo $$ >`+dir+
			`/long; for i in $(seq 120); do sleep 0.5; done; };; esac`)
	c.submitFlow(t, "cancel", "cancel", "nodes: [{id: first, type: t}, {id: long, type: t, parents: [first]}, "+
		"{id: last, type: t, parents: [long]}]").want(t, 0)
	eventually(t, 20*time.Second, "the long node runs", func() error {
		_, err := os.Stat(filepath.Join(dir, "long"))
		return err
	})
	c.rota(t, "workflow", "wait", "cancel", "--timeout", "300ms").want(t, 5)
	began := time.Now()
	c.rota(t, "workflow", "cancel", "cancel").want(t, 0)
	w, byID := c.awaitFlow(t, "cancel", 6)
	if w.State != rota.WorkflowCancelled {
		t.Errorf("after cancel it is %s", w.State)
	}
	states(t, byID, "first:COMPLETED long:CANCELLED last:CANCELLED")
	if n := byID["long"]; n.Reason.String() != "WORKFLOW_CANCELLED" {
		t.Errorf("the running node was cancelled for %s", n.Reason)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %s to cancel a running node", took)
	}
	c.rota(t, "workflow", "cancel", "cancel").want(t, 0) // a second cancel is not an error
	writeFile(t, filepath.Join(dir, "short"), "")
	c.rota(t, "workflow", "retry", "cancel").want(t, 0)
	_, byID = c.awaitFlow(t, "cancel", 0)
	states(t, byID, "first:COMPLETED long:COMPLETED last:COMPLETED")
}

func flowNodeCancelled(t *testing.T, c *nodes) {
	flowQueue(t, c, "one")
	for _, policy := range []string{"fail_fast", "continue"} {
		id := "one-" + policy
		c.submitFlow(t, "one", id, "nodes: [{id: a, type: t}, {id: b, type: t, parents: [a]}, {id: c, type: t}]",
			"--on-failure", policy).want(t, 0)
		c.rota(t, "job", "cancel", id+"/a").want(t, 0)
	}
	w, byID := c.awaitFlow(t, "one-fail_fast", 6)
	states(t, byID, "a:CANCELLED b:CANCELLED c:CANCELLED")
	if w.State != rota.WorkflowFailed || w.FailedNode != "a" {
		t.Errorf("it is %s for %q", w.State, w.FailedNode)
	}
	c.worker(t, "--queues", "one")
	_, byID = c.awaitFlow(t, "one-continue", 6)
	states(t, byID, "a:CANCELLED b:SKIPPED c:COMPLETED")
}

// Each node's output is its parents' and its own line: the output of a chain of them shows that all were there,
// complete, under their names.
func flowOutputs(t *testing.T, c *nodes) {
	flowQueue(t, c, "outputs")
	c.worker(t, "--queues", "outputs", "--slots", "4", "--exec",
		`[ -z "$ROTA_PARENTS" ] || cat "$ROTA_PARENTS"/*; printf '%s<%s>\n' "$ROTA_NODE_ID" "$(cat)"`)
	c.submitFlow(t, "outputs", "outputs", `
defaults: {type: cat}
nodes:
  - {id: a, payload: one}
  - {id: b, parents: [a], payload: two}
  - {id: c, parents: [a]}
  - {id: d, parents: [c, b], payload: "ä"}
  - {id: e, parents: [d]}`).want(t, 0)
	c.awaitFlow(t, "outputs", 0)
	const want = "a<one>\nb<two>\na<one>\nc<>\nd<ä>\ne<>\n"
	if job := c.job(t, "outputs/e"); string(job.Output) != want {
		t.Errorf("the last node's output is %q, want %q", job.Output, want)
	}
}

// Of nodes that are ready at the same time the more urgent go first.
func flowPriority(t *testing.T, c *nodes) {
	c.rota(t, "queue", "set", "urgent", "--preset", "standard", "--set", "oldest_every=0").want(t, 0)
	text, want := "nodes:\n  - {id: root, type: t}\n", []string{}
	for _, p := range []int{7, 2, 9, 0, 5, 4} {
		text += fmt.Sprintf("  - {id: p%d, type: t, parents: [root], priority: %d, simulate_ms: 20}\n", p, p)
		want = append(want, fmt.Sprintf("p%d", p))
	}
	slices.Sort(want)
	c.worker(t, "--queues", "urgent", "--slots", "1")
	c.submitFlow(t, "urgent", "urgent", text).want(t, 0)
	w, _ := c.awaitFlow(t, "urgent", 0)
	children := slices.Clone(w.Nodes[1:])
	slices.SortFunc(children, func(a, b rota.WorkflowNode) int { return int(a.AssignedIndex) - int(b.AssignedIndex) })
	var got []string
	for _, n := range children {
		got = append(got, n.ID)
	}
	if !slices.Equal(got, want) {
		t.Errorf("nodes started in the order %v, want %v", got, want)
	}
}

// Nodes of several sizes under three small workers, checked against the events.
func flowCapacity(t *testing.T, c *nodes) {
	flowQueue(t, c, "capacity")
	workers := map[string]offered{"cap-1": {4, 0, 2_500, 1_000}, "cap-2": {3, 2, 4_000, 700},
		"cap-3": {10, 0, 3_000, 900}}
	for id, w := range workers {
		c.worker(t, w.flags(id, "capacity")...)
	}
	nodes := map[string]asked{"root": {}}
	text := "nodes:\n  - {id: root, type: t}\n"
	for i := range 60 {
		n := asked{parents: []string{"root"}, cpu: int64(i%5) * 500, memory: int64(i%7) * 100}
		if i >= 30 {
			n.parents = []string{fmt.Sprintf("n%d", i-30), fmt.Sprintf("n%d", i-29)}
		}
		id := fmt.Sprintf("n%d", i)
		nodes[id] = n
		text += fmt.Sprintf("  - {id: %s, type: t, parents: [%s], cpu_milli: %d, memory_bytes: %d, simulate_ms: %d}\n",
			id, strings.Join(n.parents, ", "), n.cpu, n.memory, 20+i%3*30)
	}
	c.submitFlow(t, "capacity", "capacity", text).want(t, 0)
	c.awaitFlow(t, "capacity", 0)
	a := newAccount("capacity", nodes, workers)
	a.read(c.rota(t, "events", "tail", "-o", "jsonl").want(t, 0).stdout)
	a.complete(c.flow(t, "capacity"))
	a.judge(t)
}

func flowWhy(t *testing.T, c *nodes) {
	flowQueue(t, c, "why")
	c.submitFlow(t, "why", "why",
		"nodes: [{id: a, type: t}, {id: b, type: t, parents: [a]}, {id: c, type: t, parents: [a, b]}]").want(t, 0)
	waiting := c.why(t, "why/c")
	if waiting.State != rota.JobBlocked || len(waiting.Reasons) != 1 ||
		waiting.Reasons[0].Reason != "WAITING_FOR_PARENTS" {
		t.Errorf("a waiting node is explained as %+v", waiting)
	} else {
		contains(t, "the reason", waiting.Reasons[0].Detail, "a (QUEUED)", "b (BLOCKED)")
	}
	if ready := c.why(t, "why/a"); ready.State != rota.JobQueued || len(ready.Reasons) != 1 ||
		ready.Reasons[0].Reason != "NO_WORKER_REGISTERED" {
		t.Errorf("a ready node is explained as %+v", ready)
	}
	c.rota(t, "job", "why", "why/zz").want(t, 3)
	job := c.job(t, "why/c")
	if job.State != rota.JobBlocked || job.ID != "why/c" {
		t.Errorf("the job of a waiting node is %s %s", job.ID, job.State)
	}
	c.rota(t, "workflow", "cancel", "why").want(t, 0)
}

func flowPictures(t *testing.T, c *nodes) {
	flowQueue(t, c, "pictures")
	c.submitFlow(t, "pictures", "pictures",
		"nodes: [{id: a, type: t}, {id: 'b', type: t, parents: [a]}, {id: c, type: t, parents: [a]}, "+
			"{id: d, type: t, parents: [b, c]}]", "--tenant", "acme").want(t, 0)
	for _, filter := range [][]string{{"--state", "RUNNING"}, {"--queue", "pictures"}, {"--tenant", "acme"}} {
		r := c.rota(t, append([]string{"workflow", "list", "-o", "json", "--limit", "1000"}, filter...)...)
		page := decode[rota.WorkflowPage](t, r)
		if !slices.ContainsFunc(page.Workflows, func(w rota.Workflow) bool {
			return w.ID == "pictures" && w.Counts.Blocked == 3
		}) {
			t.Errorf("list %v lacks it: %s", filter, r.stdout)
		}
	}
	if r := c.rota(t, "workflow", "list", "--queue", "pictures", "--state", "completed", "-o", "name").want(t,
		0); r.stdout != "" {
		t.Errorf("the list of completed workflows has %q", r.stdout)
	}
	contains(t, "the graph", c.rota(t, "workflow", "graph", "pictures").want(t, 0).stdout, "◆", "○", "← b c")
	dot := c.rota(t, "workflow", "graph", "pictures", "--dot").want(t, 0).stdout
	contains(t, "the graph in dot", dot, `digraph "pictures"`, `"a" -> "b"`, `"a" -> "c"`, `"b" -> "d"`, `"c" -> "d"`)
	if n := strings.Count(dot, "->"); n != 4 {
		t.Errorf("%d edges in %s", n, dot)
	}
	contains(t, "show", c.rota(t, "workflow", "show", "pictures").want(t, 0).stdout, "pictures", "RUNNING",
		"1 QUEUED, 3 BLOCKED", "NODE")
	c.rota(t, "workflow", "cancel", "pictures").want(t, 0)
}
