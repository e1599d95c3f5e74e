package fsm

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/millis"
)

// words returns a workflow's public form, compared with the one without nodes.
func (b *bench) words(id rota.WorkflowID) rota.Workflow {
	b.t.Helper()
	v, ok := b.View.WorkflowView(id)
	plain, known := b.View.Workflow(id)
	if !ok || !known {
		b.t.Fatalf("workflow %s is unknown", id)
	}
	w := v.Words()
	bare := w
	bare.Nodes, bare.CriticalPath, bare.CriticalPathLength, bare.Remaining = nil, nil, 0, 0
	if fmt.Sprintf("%+v", bare) != fmt.Sprintf("%+v", plain) {
		b.t.Fatalf("with nodes\n%+v\nwithout\n%+v", bare, plain)
	}
	twin, _ := b.twin.View.WorkflowView(id)
	if mine, its := fmt.Sprintf("%+v", w), fmt.Sprintf("%+v", twin.Words()); mine != its {
		b.t.Fatalf("got\n%s\nfrom the twin\n%s", mine, its)
	}
	counts := map[rota.NodeState]int64{}
	for _, n := range w.Nodes {
		counts[n.State]++
	}
	c := w.Counts
	for state, n := range map[rota.JobState]int64{rota.JobBlocked: c.Blocked, rota.JobDelayed: c.Delayed,
		rota.JobQueued:   c.Queued,
		rota.JobAssigned: c.Assigned, rota.JobRunning: c.Running, rota.JobCompleted: c.Completed, rota.JobDead: c.Dead,
		rota.JobExpired: c.Expired, rota.JobCancelled: c.Cancelled} {
		if counts[rota.NodeState(state)] != n {
			b.t.Fatalf("%d nodes are %s, counted are %d", counts[rota.NodeState(state)], state, n)
		}
	}
	return w
}

// pages lists all jobs that a filter selects, page by page, as "id:STATE".
func (b *bench) pages(f rota.JobFilter, h History) string {
	b.t.Helper()
	var list []string
	for {
		page, err := b.View.Jobs().Page(f, h)
		its, itsErr := b.twin.View.Jobs().Page(f, h)
		if err != nil || itsErr != nil || page.NextCursor != its.NextCursor || len(page.Jobs) > f.Limit {
			b.t.Fatalf("%v, %v: next %q, the twin's %q", err, itsErr, page.NextCursor, its.NextCursor)
		}
		for _, j := range page.Jobs {
			list = append(list, fmt.Sprintf("%s:%s", strings.TrimPrefix(string(j.ID), "wf/"), j.State))
			if state := b.View.JobState(j.ID); state != j.State {
				b.t.Fatalf("job %s is listed as %s, and %s", j.ID, j.State, state)
			}
		}
		if f.Cursor = page.NextCursor; f.Cursor == "" {
			return strings.Join(list, " ")
		}
	}
}

func TestWorkflowView(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	d := diamond("wf", func(d *dag) {
		d.Labels = map[string]string{"a": "1"}
		for i, ms := range []int64{100, 200, 300, 400} {
			d.Nodes[i].Simulate = millis.Duration(ms)
		}
		d.Nodes[2].Type = "other"
	})
	b.upload(d)
	if _, ok := b.View.Workflow("wf"); ok {
		t.Fatal("an open workflow is visible")
	}
	if _, ok := b.View.WorkflowView("wf"); ok {
		t.Fatal("an open workflow is viewed")
	}
	if _, ok := b.View.Job("wf/n3"); ok || b.View.JobState("wf/n0") != rota.JobNone ||
		b.pages(rota.JobFilter{Limit: 9}, nil) != "" {
		t.Fatal("a node of an open workflow is visible")
	}
	b.ok(d.commit())
	w := b.words("wf")
	if w.State != rota.WorkflowRunning || w.NodeCount != 4 || w.EdgeCount != 4 || w.Runs != 1 || w.Labels["a"] != "1" ||
		w.Submitted.Clock != b.Header.Clock || w.Counts.Blocked != 3 || w.Counts.Queued != 1 {
		t.Fatalf("%+v", w)
	}
	if fmt.Sprint(w.CriticalPath, w.CriticalPathLength, w.Remaining) != "[n0 n2 n3] 800ms 1s" {
		t.Fatalf("critical path %v of %s, %s left", w.CriticalPath, w.CriticalPathLength, w.Remaining)
	}
	if n := w.Nodes[3]; n.ID != "n3" || n.Job != "wf/n3" || n.State != rota.NodeState(rota.JobBlocked) ||
		!slices.Equal(n.Parents, []string{"n1", "n2"}) || n.Duration != 400*time.Millisecond ||
		w.Nodes[0].Parents == nil {
		t.Fatalf("%+v", n)
	}

	b.worker("w", 10)
	b.match()
	b.now += 50
	b.ok(verb(rota.VerbAck, b.lease("wf/n0")))
	n := b.words("wf").Nodes[0]
	if n.State != rota.NodeState(rota.JobRunning) || n.Worker != "w" || n.AssignedIndex == 0 ||
		n.Assigned.Clock != b.now-50 || n.Duration != 100*time.Millisecond {
		t.Fatalf("%+v", n)
	}
	b.now += 70
	b.ends(rota.VerbComplete, d, "n0")
	b.match()
	w = b.words("wf")
	if n := w.Nodes[0]; n.State != rota.NodeState(rota.JobCompleted) || n.Duration != 120*time.Millisecond ||
		n.Finished.Clock != b.now || n.FinishedIndex == 0 ||
		n.Worker != "w" || n.Reason != rota.ReasonDone {
		t.Fatalf("%+v", n)
	}
	// n1 has the type of n0, which took 120 ms, and so has n3. Two run at a time.
	if w.Progress != 25 || fmt.Sprint(w.CriticalPath, w.CriticalPathLength, w.Remaining) != "[n0 n2 n3] 540ms 420ms" {
		t.Fatalf("progress %d, critical path %v of %s, %s left", w.Progress, w.CriticalPath, w.CriticalPathLength,
			w.Remaining)
	}
	b.ends(rota.VerbFail, d, "n1")
	b.ends(rota.VerbComplete, d, "n2")
	w = b.words("wf")
	if w.State != rota.WorkflowFailed || w.FailedNode != "n1" || w.Reason != rota.ReasonProviderFail ||
		w.Remaining != 0 ||
		w.Counts.Dead != 1 || w.Counts.Cancelled != 1 || w.Finished.Clock != b.Header.Clock || w.Progress != 50 {
		t.Fatalf("%+v", w)
	}
}

// TestWaitingNodes checks that nodes without a job are shown as BLOCKED jobs.
func TestWaitingNodes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.submit("job")
	d := diamond("wf", func(d *dag) { d.Nodes[2].Type = "other" })
	other := diamond("wf-2", func(d *dag) { d.Queue, d.Tenant = "default", "acme" })
	b.run(d)
	b.run(other)
	j, ok := b.View.Job("wf/n3")
	if !ok || j.State != rota.JobBlocked || j.Type != "work" || string(j.Payload) != "x" ||
		j.Tenant != rota.DefaultTenant ||
		j.Submitted.Clock != b.Header.Clock || j.ID != "wf/n3" {
		t.Fatalf("%+v", j)
	}
	for _, limit := range []int{1, 2, 3, 100} {
		for name, c := range map[string]struct {
			f    rota.JobFilter
			want string
		}{
			"all": {rota.JobFilter{},
				"wf-2/n0:QUEUED n0:QUEUED job:QUEUED wf-2/n1:BLOCKED wf-2/n2:BLOCKED wf-2/n3:BLOCKED " +
					"n1:BLOCKED n2:BLOCKED n3:BLOCKED"},
			"blocked": {rota.JobFilter{State: rota.JobBlocked, Tenant: "acme"},
				"wf-2/n1:BLOCKED wf-2/n2:BLOCKED wf-2/n3:BLOCKED"},
			"queued": {rota.JobFilter{State: rota.JobQueued, Type: "work"}, "wf-2/n0:QUEUED n0:QUEUED job:QUEUED"},
			"a type": {rota.JobFilter{Type: "other"}, "n2:BLOCKED"},
			"over":   {rota.JobFilter{State: rota.JobCancelled}, ""},
		} {
			c.f.Limit = limit
			if got := b.pages(c.f, nil); got != c.want {
				t.Fatalf("%s, by %d: got %s\nwant %s", name, limit, got, c.want)
			}
		}
	}
	for _, cursor := range []string{"x", "blocked/wf", "blocked/wf/x", "blocked/a b/1", "blocked/wf/100000", "job"} {
		if _, err := b.View.Jobs().Page(rota.JobFilter{Cursor: cursor}, nil); rota.KindOf(err) != rota.KindInvalid {
			t.Errorf("cursor %q: %v", cursor, err)
		}
	}
	parents, err := b.View.NodeParents("wf/n3")
	if err != nil || !slices.Equal(parents, []rota.JobID{"wf/n1", "wf/n2"}) {
		t.Fatal(parents, err)
	}
	for _, id := range []rota.JobID{"job", "wf/n4", "wx/n0"} {
		if _, err := b.View.NodeParents(id); rota.KindOf(err) != rota.KindNotFound {
			t.Errorf("parents of %s: %v", id, err)
		}
	}
	// Each node is listed once, whatever the archive contains of its earlier life.
	b.worker("w", 10)
	b.match()
	b.ends(rota.VerbFail, d, "n0")
	if got := b.pages(rota.JobFilter{Limit: 2, Tenant: rota.DefaultTenant},
		nil); got != "job:ASSIGNED n3:CANCELLED n2:CANCELLED n1:CANCELLED n0:DEAD" {
		t.Fatal(got)
	}
	var h history
	for _, s := range b.View.Staged(100, 1<<30) {
		h = append(h, s.Ended())
	}
	slices.SortFunc(h, func(a, b Ended) int { return strings.Compare(string(a.Job.ID), string(b.Job.ID)) })
	b.ok(d.retry("", 1))
	if got := b.pages(rota.JobFilter{Limit: 2, Tenant: rota.DefaultTenant},
		h); got != "n0:QUEUED job:ASSIGNED n1:BLOCKED n2:BLOCKED n3:BLOCKED" {
		t.Fatal(got)
	}
}

func TestWorkflowPages(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(queueOp("q2"))
	b.worker("w", 100)
	for i := range 9 {
		d := newDAG(fmt.Sprint("wf", i), [][]uint32{nil, {0}}, func(d *dag) {
			d.Queue, d.Tenant = rota.QueueName([]string{"default", "q2"}[i%2]), rota.TenantID(fmt.Sprint("t", i%3))
		})
		if i == 8 {
			b.upload(d) // not committed
			continue
		}
		b.run(d)
		if i < 3 {
			b.ok(d.cancel())
		}
	}
	for name, c := range map[string]struct {
		f    rota.WorkflowFilter
		want string
	}{
		"all":       {rota.WorkflowFilter{}, "wf0 wf1 wf2 wf3 wf4 wf5 wf6 wf7"},
		"cancelled": {rota.WorkflowFilter{State: rota.WorkflowCancelled}, "wf0 wf1 wf2"},
		"q2":        {rota.WorkflowFilter{Queue: "q2"}, "wf1 wf3 wf5 wf7"},
		"t1":        {rota.WorkflowFilter{Tenant: "t1", State: rota.WorkflowRunning}, "wf4 wf7"},
	} {
		for limit := range 10 {
			f, got := c.f, []string{}
			for f.Limit = limit; ; {
				page, err := b.View.Workflows().Page(f)
				if err != nil || limit > 0 && len(page.Workflows) > limit {
					t.Fatal(page, err)
				}
				for _, w := range page.Workflows {
					if plain, _ := b.View.Workflow(w.ID); fmt.Sprintf("%+v", plain) != fmt.Sprintf("%+v", w) {
						t.Fatalf("%+v is listed as %+v", plain, w)
					}
					got = append(got, string(w.ID))
				}
				if f.Cursor = page.NextCursor; f.Cursor == "" {
					break
				}
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("%s, by %d: %v", name, limit, got)
			}
		}
	}
	if _, err := b.View.Workflows().Page(rota.WorkflowFilter{Cursor: "a b"}); rota.KindOf(err) != rota.KindInvalid {
		t.Error(err)
	}
}

// TestWhyBlocked checks the named parents that a node waits for.
func TestWhyBlocked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	shape := make([][]uint32, 14)
	for n := range uint32(13) {
		shape[13] = append(shape[13], n)
	}
	d := newDAG("wf", shape, func(d *dag) {
		for n := 1; n < 13; n++ {
			d.Nodes[n].Worker = "absent"
		}
	})
	b.run(d)
	b.worker("w", 2)
	b.match()
	b.ends(rota.VerbComplete, d, "n0")
	x, got := b.whyOf("wf/n13")
	if got != "WAITING_FOR_PARENTS:0" || x.State != rota.JobBlocked || x.Job != "wf/n13" || len(x.WouldRun) != 1 ||
		!strings.HasPrefix(x.WouldRun[0], "its parents complete") {
		t.Fatalf("%+v", x)
	}
	detail := x.Reasons[0].Detail
	if !strings.HasPrefix(detail, "12 of its 13 parents have not completed: n1 (QUEUED), n2 (QUEUED), n3 (QUEUED)") ||
		!strings.HasSuffix(detail, "n10 (QUEUED) and 2 more") {
		t.Fatal(detail)
	}
	if _, ok := b.View.Why("wf/n14", 10); ok {
		t.Fatal("a missing node is explained")
	}
	b.run(newDAG("two", [][]uint32{nil, {0}}))
	if x, _ := b.whyOf("two/n1"); x.Reasons[0].Detail != "its parent has not completed: n0 (QUEUED)" {
		t.Fatal(x.Reasons[0].Detail)
	}
	b.sound()
}

// TestParentsOutputs checks that a node goes where its parents' outputs are.
func TestParentsOutputs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(queueOp("default", "strategy", "affinity", "oldest_every", "0"))
	for _, w := range []string{"a", "b", "c"} {
		b.worker(w, 9)
	}
	pin := map[int]rota.WorkerID{0: "a", 1: "c", 2: "c", 3: "b"}
	d := newDAG("wf", [][]uint32{nil, nil, nil, nil, {0, 1, 2, 3}, {4}}, func(d *dag) {
		for n, w := range pin {
			d.Nodes[n].Worker = w
		}
		d.Nodes[4].Type, d.Nodes[5].Type = "join", "last"
	})
	b.run(d)
	b.match()
	b.ends(rota.VerbComplete, d, "n0", "n1", "n2", "n3")
	b.twin = b.restored()
	b.lands("wf/n4", "c", rota.Reasoning{Rule: rota.ReasoningByDataLocality, N: 2})
	b.ends(rota.VerbComplete, d, "n4")
	b.lands("wf/n5", "c", rota.Reasoning{Rule: rota.ReasoningByDataLocality, N: 1})
}
