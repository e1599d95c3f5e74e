package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rotasched/rota"
)

// asked is the demand of a workflow's node, which the test itself reads from the file.
type asked struct {
	parents     []string
	cpu, memory int64
}

// offered is the capacity of a worker.
type offered struct {
	slots, prefetch int
	cpu, memory     int64
}

// flags are the worker's flags on the command line.
func (o offered) flags(id, queue string) []string {
	return []string{"--queues", queue, "--id", id, "--slots", fmt.Sprint(o.slots), "--prefetch", fmt.Sprint(o.prefetch),
		"--cpu", fmt.Sprint(o.cpu), "--memory", fmt.Sprint(o.memory)}
}

// account follows one run of a workflow through the events of a node, and records violations.
type account struct {
	run     string
	nodes   map[string]asked
	workers map[string]offered

	last              rota.EventID
	started, finished *rota.ServedEvent
	// assigned is the last assignment of each node, completed its end.
	assigned, completed map[string]*rota.ServedEvent
	// open are the leases of each worker, by job.
	open map[string]map[string]asked
	// again counts assignments beyond each node's first, terms the leaderships that began while the workflow ran.
	again, terms int
	most         map[string]int
	faults       []string
}

func newAccount(run string, nodes map[string]asked, workers map[string]offered) *account {
	return &account{run: run, nodes: nodes, workers: workers, assigned: map[string]*rota.ServedEvent{},
		completed: map[string]*rota.ServedEvent{}, open: map[string]map[string]asked{}, most: map[string]int{}}
}

func (a *account) fault(format string, args ...any) {
	a.faults = append(a.faults, fmt.Sprintf(format, args...))
}

// judge fails the test with the recorded violations.
func (a *account) judge(t *testing.T) {
	t.Helper()
	for _, f := range a.faults[:min(20, len(a.faults))] {
		t.Error(clip(f))
	}
	if n := len(a.faults); n > 20 {
		t.Errorf("and %d more faults", n-20)
	}
}

// read processes all events in their order. Jobs unknown to this account would use the capacity of shared workers: the
// run has its workers for itself.
func (a *account) read(text string) {
	for line := range strings.Lines(text) {
		e := &rota.ServedEvent{}
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(e); err != nil {
			a.fault("event %s: %v", line, err)
			return
		}
		if e.ID.Compare(a.last) <= 0 {
			a.fault("event %s comes after %s", e.ID, a.last)
		}
		a.last = e.ID
		if e.Kind == rota.EventLeadershipBegan && a.started != nil && a.finished == nil {
			a.terms++
		}
		if e.Run == a.run {
			a.one(e)
		}
	}
}

func (a *account) one(e *rota.ServedEvent) {
	switch {
	case e.Kind == rota.EventWorkflowStarted:
		if a.started != nil {
			a.fault("workflowStarted twice: %s and %s", a.started.ID, e.ID)
		}
		a.started = e
		return
	case e.Kind == rota.EventWorkflowFinished:
		if a.finished != nil {
			a.fault("workflowFinished twice: %s and %s", a.finished.ID, e.ID)
		}
		a.finished = e
		return
	case a.started == nil || a.finished != nil:
		a.fault("%s of %s, event %s, is outside the workflow's run", e.Kind, e.Node, e.ID)
	}
	if _, known := a.nodes[e.Node]; !known || string(e.Job) != a.run+"/"+e.Node {
		a.fault("%s of node %q, job %q, which the workflow does not have", e.Kind, e.Node, e.Job)
		return
	}
	switch e.Kind {
	case rota.EventJobAssigned:
		a.assign(e)
	case rota.EventJobCompleted:
		a.release(e)
		if before := a.completed[e.Node]; before != nil {
			a.fault("node %s completed twice: %s and %s", e.Node, before.ID, e.ID)
		}
		a.completed[e.Node] = e
	case rota.EventJobRetryScheduled, rota.EventLeaseExpired, rota.EventLeaseCancelled, rota.EventLeaseDeclined:
		a.release(e)
	case rota.EventJobDead, rota.EventJobExpired, rota.EventJobCancelled:
		a.release(e)
		a.fault("node %s: %s %s", e.Node, e.Kind, e.Reason)
	}
}

// assign checks an assignment against the graph and the worker's capacity.
func (a *account) assign(e *rota.ServedEvent) {
	for _, p := range a.nodes[e.Node].parents {
		if a.completed[p] == nil {
			a.fault("node %s is assigned at %s before its parent %s completed", e.Node, e.ID, p)
		}
	}
	if a.completed[e.Node] != nil {
		a.fault("node %s is assigned at %s and was completed before", e.Node, e.ID)
	}
	if a.assigned[e.Node] != nil {
		a.again++
	}
	a.assigned[e.Node] = e
	worker, known := a.workers[string(e.Worker)]
	if !known {
		a.fault("node %s is assigned to %q, which was not started", e.Node, e.Worker)
	}
	for other, jobs := range a.open {
		if _, held := jobs[e.Node]; held {
			a.fault("node %s is assigned to %s at %s while %s holds it", e.Node, e.Worker, e.ID, other)
		}
	}
	if a.open[string(e.Worker)] == nil {
		a.open[string(e.Worker)] = map[string]asked{}
	}
	jobs := a.open[string(e.Worker)]
	jobs[e.Node] = a.nodes[e.Node]
	a.most[string(e.Worker)] = max(a.most[string(e.Worker)], len(jobs))
	cpu, memory := int64(0), int64(0)
	for _, n := range jobs {
		cpu, memory = cpu+n.cpu, memory+n.memory
	}
	if len(jobs) > worker.slots+worker.prefetch || cpu > worker.cpu || memory > worker.memory {
		a.fault("at %s worker %s has %d jobs, %d millicores, %d bytes of memory: more than its %+v", e.ID, e.Worker,
			len(jobs), cpu, memory, worker)
	}
}

func (a *account) release(e *rota.ServedEvent) {
	for _, jobs := range a.open {
		delete(jobs, e.Node)
	}
}

// complete checks the output of `workflow show` against the events: all nodes ran, once, and the two agree on where and
// when.
func (a *account) complete(w *rota.Workflow) {
	if a.started == nil || a.finished == nil {
		a.fault("the events lack workflowStarted (%v) or workflowFinished (%v)", a.started, a.finished)
		return
	}
	if w.State != rota.WorkflowCompleted || w.Progress != 100 || w.Counts.Completed != int64(len(a.nodes)) ||
		w.NodeCount != int64(len(a.nodes)) || w.Runs != 1 || w.Submitted.Clock != a.started.Clock ||
		w.Finished.Clock != a.finished.Clock {
		a.fault("show has %s, %d %%, %+v of %d nodes, run %d, from %d to %d; the events have %d to %d", w.State,
			w.Progress, w.Counts, w.NodeCount, w.Runs, w.Submitted, w.Finished, a.started.Clock, a.finished.Clock)
	}
	if len(w.Nodes) != len(a.nodes) {
		a.fault("show has %d nodes, want %d", len(w.Nodes), len(a.nodes))
	}
	shown := map[string]bool{}
	for i := range w.Nodes {
		n := &w.Nodes[i]
		a.node(n, shown)
		shown[n.ID] = true
	}
}

// node checks one node of show against the file and the events.
func (a *account) node(n *rota.WorkflowNode, shown map[string]bool) {
	want, known := a.nodes[n.ID]
	if !known || shown[n.ID] {
		a.fault("show has node %q, unknown or twice", n.ID)
		return
	}
	for _, p := range n.Parents {
		if !shown[p] {
			a.fault("show has node %s before its parent %s", n.ID, p)
		}
	}
	parents, wanted := slices.Sorted(slices.Values(n.Parents)), slices.Sorted(slices.Values(want.parents))
	if !slices.Equal(parents, wanted) {
		a.fault("show has node %s with parents %v, want %v", n.ID, parents, wanted)
	}
	assigned, completed := a.assigned[n.ID], a.completed[n.ID]
	if assigned == nil || completed == nil {
		a.fault("node %s: the events lack jobAssigned (%v) or jobCompleted (%v)", n.ID, assigned, completed)
		return
	}
	if n.State != rota.NodeState(rota.JobCompleted) || n.AssignedIndex != assigned.ID.Index ||
		n.FinishedIndex != completed.ID.Index ||
		n.Assigned.Clock != assigned.Clock || n.Finished.Clock != completed.Clock || n.Worker != assigned.Worker ||
		n.Worker != completed.Worker ||
		n.Attempt != completed.Attempt {
		a.fault("show has %+v; the events have assigned %s at %d to %s, completed %s at %d by %s", *n, assigned.ID,
			assigned.Clock, assigned.Worker, completed.ID, completed.Clock, completed.Worker)
	}
}

// now returns the id of the newest event: later events belong to the next steps.
func (c *nodes) now(t testing.TB) string {
	t.Helper()
	text := c.rota(t, "events", "tail", "-o", "jsonl", "--kind", "workflowFinished").want(t, 0).stdout
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if lines[len(lines)-1] == "" {
		return ""
	}
	var e rota.Event
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &e); err != nil {
		t.Fatal(err)
	}
	return e.ID.String()
}

// flow reads a workflow with its nodes, from every node, and requires identical answers.
func (c *nodes) flow(t testing.TB, id string) *rota.Workflow {
	t.Helper()
	var first []byte
	for _, n := range c.all {
		text := []byte(n.at(t, "workflow", "show", id, "-o", "json").want(t, 0).stdout)
		if first == nil {
			first = text
		}
		if !bytes.Equal(first, text) {
			t.Errorf("%s shows another %s than %s: %s", n.ID, id, c.all[0].ID,
				firstDifference(string(text), string(first)))
		}
	}
	w := &rota.Workflow{}
	check(t, json.Unmarshal(first, w))
	return w
}

// TestAccountBites: the account above detects the violations it exists for.
func TestAccountBites(t *testing.T) {
	t.Parallel()
	nodes := map[string]asked{"a": {cpu: 600}, "b": {parents: []string{"a"}, cpu: 600, memory: 60},
		"c": {cpu: 600, memory: 60}}
	workers := map[string]offered{"w": {slots: 1, prefetch: 1, cpu: 1_300, memory: 100},
		"tight": {slots: 3, cpu: 1_000, memory: 500}}
	const start, end = `workflowStarted`, `workflowFinished`
	for _, one := range []struct {
		name, script, fault string
	}{
		{"sound", start + " jobAssigned:a:w jobAssigned:c:w jobCompleted:a:w jobCompleted:c:w jobAssigned:b:w jobCompleted:b:w " + end,
			""},
		{"retried", start + " jobAssigned:a:w jobRetryScheduled:a:w jobAssigned:a:w jobCompleted:a:w " + end, ""},
		{"child_first", start + " jobAssigned:a:w jobAssigned:b:w", "before its parent a"},
		{"completed_twice", start + " jobAssigned:a:w jobCompleted:a:w jobCompleted:a:w", "completed twice"},
		{"run_again", start + " jobAssigned:a:w jobCompleted:a:w jobAssigned:a:w", "was completed before"},
		{"two_holders", start + " jobAssigned:a:w jobAssigned:a:tight", "while w holds it"},
		{"cpu", start + " jobAssigned:a:tight jobAssigned:c:tight", "more than"},
		{"memory", start + " jobAssigned:a:w jobCompleted:a:w jobAssigned:b:w jobAssigned:c:w", "more than"},
		{"dead", start + " jobAssigned:a:w jobDead:a:w", "jobDead"},
		{"started_twice", start + " " + start, "workflowStarted twice"},
		{"finished_twice", start + " " + end + " " + end, "workflowFinished twice"},
		{"after_the_end", start + " " + end + " jobAssigned:a:w", "outside the workflow's run"},
		{"stranger", start + " jobAssigned:x:w", "does not have"},
		{"unknown worker", start + " jobAssigned:a:v", "was not started"},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			var text strings.Builder
			for i, step := range strings.Fields(one.script) {
				parts := append(strings.Split(step, ":"), "", "")
				e := rota.ServedEvent{Event: rota.Event{ID: rota.EventID{Incarnation: 1, Index: rota.Index(i + 1)},
					Run: "r", Node: parts[1],
					Worker: rota.WorkerID(parts[2])}}
				check(t, e.Kind.UnmarshalText([]byte(parts[0])))
				if e.Node != "" {
					e.Job = rota.NodeJobID("r", e.Node)
				}
				line, err := json.Marshal(e)
				check(t, err)
				text.Write(append(line, '\n'))
			}
			a := newAccount("r", nodes, workers)
			a.read(text.String())
			switch {
			case one.fault == "" && len(a.faults) > 0:
				t.Errorf("a correct run is reported as faulty: %v", a.faults)
			case one.fault != "" && !strings.Contains(strings.Join(a.faults, ";"), one.fault):
				t.Errorf("%q is not reported: %v", one.fault, a.faults)
			}
		})
	}
}
