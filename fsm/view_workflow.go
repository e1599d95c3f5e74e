package fsm

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tidwall/btree"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/fsm/tree"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/millis"
	"github.com/rotasched/rota/sched"
)

// liveNodes checks the counts of the nodes' jobs by state. Invariant I4.
func (c *checker) liveNodes() {
	counted := &registry{}
	c.m.JobTable.Scan(func(_ rota.JobID, j *state.JobRow) bool {
		counted.moveNode(j, rota.JobNone, j.State)
		return true
	})
	kept := &c.m.placement.registry.nodes
	counted.nodes.Scan(func(id rota.WorkflowID, want liveNodes) bool {
		if got, _ := kept.Get(id); got != want {
			c.fault("I4: workflow %s has live nodes %v, its jobs say %v", id, got, want)
		}
		return true
	})
	if got, want := kept.Len(), counted.nodes.Len(); got != want {
		c.fault("I4: %d workflows have live nodes, the jobs say %d", got, want)
	}
}

// Workflow returns a workflow without its nodes, critical path and estimates.
func (vw *View) Workflow(id rota.WorkflowID) (rota.Workflow, bool) {
	r := vw.m.flows.workflows.Get(id)
	if r == nil || r.Hidden() {
		return rota.Workflow{}, false
	}
	live, _ := vw.m.placement.registry.nodes.Get(id)
	return workflowWords(r, live, vw.m.flows.vertices.Get(state.VertexKey(id, r.Failed))), true
}

// workflowWords returns a workflow in its public form; failed is the vertex that its row names.
func workflowWords(r *state.WorkflowRow, live liveNodes, failed *state.VertexRow) rota.Workflow {
	w := rota.Workflow{ID: r.ID, State: r.State, Queue: r.Queue, Tenant: r.Tenant, OnFailure: r.Policy,
		Labels:    r.Labels,
		NodeCount: int64(r.Nodes), EdgeCount: int64(r.Edges), Runs: r.Runs, Ending: r.Ending, Reason: r.Reason,
		Submitted: r.Submitted,
		Finished:  r.Finished,
		Progress:  int32(int64(r.Completed) * 100 / max(int64(r.Nodes), 1))}
	w.Counts = rota.NodeCounts{Skipped: int64(r.Skipped), Waiting: int64(r.Waiting),
		JobCounts: rota.JobCounts{Blocked: int64(r.Blocked - r.Waiting),
			Delayed: live.delayed, Queued: live.queued, Assigned: live.assigned, Running: live.running,
			Completed: int64(r.Completed), Dead: int64(r.Dead), Expired: int64(r.Expired),
			Cancelled: int64(r.Cancelled)}}
	if r.Reason != rota.ReasonNone && failed != nil {
		w.FailedNode = state.VertexName(failed)
	}
	return w
}

// WorkflowView is a frozen view of one workflow with its nodes; reading it blocks nothing.
type WorkflowView struct {
	row      *state.WorkflowRow
	live     liveNodes
	clock    rota.Clock
	vertices *tree.Tree[string, *state.VertexRow]
	jobs     *tree.Tree[rota.JobID, *state.JobRow]
	leases   *tree.Tree[string, *state.LeaseRow]
}

// WorkflowView freezes a workflow; ok is false if there is none.
func (vw *View) WorkflowView(id rota.WorkflowID) (v *WorkflowView, ok bool) {
	r := vw.m.flows.workflows.Get(id)
	if r == nil || r.Hidden() {
		return nil, false
	}
	live, _ := vw.m.placement.registry.nodes.Get(id)
	return &WorkflowView{r, live, vw.m.Header.Clock, vw.m.flows.vertices.Freeze(), vw.m.JobTable.Freeze(),
		vw.m.leasing.leases.Freeze()}, true
}

// Words returns the workflow with its nodes, its critical path and its estimates:
// O(nodes + edges).
func (v *WorkflowView) Words() rota.Workflow {
	rows := make([]*state.VertexRow, 0, v.row.Nodes)
	v.vertices.Ascend(state.VertexKey(v.row.ID, 0), func(_ string, r *state.VertexRow) bool {
		if len(rows) == int(v.row.Nodes) {
			return false
		}
		rows = append(rows, r)
		return true
	})
	w := workflowWords(v.row, v.live, rows[v.row.Failed])
	w.Nodes = make([]rota.WorkflowNode, len(rows))
	plan := make([]sched.PlanNode, len(rows))
	parents := make([]string, 0, v.row.Edges)
	for i, r := range rows {
		first := len(parents)
		for _, p := range r.Parents {
			parents = append(parents, w.Nodes[p].ID)
		}
		w.Nodes[i], plan[i] = v.node(r)
		w.Nodes[i].Parents = parents[first:len(parents):len(parents)]
		if by, grown := r.GrownBy(); grown {
			w.Nodes[i].GrownBy = w.Nodes[by].ID
		}
	}
	p := sched.Estimate(plan)
	w.CriticalPath = make([]string, len(p.Critical))
	w.CriticalPathLength, w.Remaining = millis.Duration(p.CriticalMs), millis.Duration(p.RemainingMs)
	for i, number := range p.Critical {
		w.CriticalPath[i] = w.Nodes[number].ID
	}
	for i, ms := range p.DurationMs {
		w.Nodes[i].Duration = millis.Duration(ms)
	}
	return w
}

// node returns a vertex; for a live one with the data of its job and its lease.
func (v *WorkflowView) node(r *state.VertexRow) (n rota.WorkflowNode, p sched.PlanNode) {
	n = rota.WorkflowNode{ID: state.VertexName(r), Job: r.Spec.ID, Type: r.Spec.Type, State: r.State, Worker: r.Worker,
		Attempt: r.Attempt, AssignedIndex: r.AssignedAt, Assigned: r.Assigned, FinishedIndex: r.FinishedAt,
		Finished: r.Finished, Reason: r.Reason, Run: r.Run}
	p = sched.PlanNode{Parents: r.Parents, Type: r.Spec.Type, ExpectedMs: r.Spec.Expected.Milliseconds(),
		SimulateMs: r.Spec.Simulate.Milliseconds()}
	if r.Growth != nil {
		n.Joins, p.GrownBy, p.Joins = r.Growth.Joins, r.Growth.By, r.Growth.Joins
	}
	if !r.Assigned.IsZero() && r.Over() {
		p.TookMs = int64(r.Finished.Clock - r.Assigned.Clock)
	}
	if r.Gate != nil && !r.Gate.Since.IsZero() {
		n.Waiting = r.Gate.Since
		if p.TookMs = int64(v.clock - r.Gate.Since.Clock); r.Over() {
			p.TookMs = int64(r.Finished.Clock - r.Gate.Since.Clock)
		}
	}
	if r.Waits() {
		n.State = rota.NodeWaiting
	}
	if j, _ := v.jobs.Get(r.Spec.ID); r.State == state.VertexLive && j != nil {
		n.State = rota.NodeState(j.State)
		if l, leased := v.leases.Get(string(j.Lease[:])); leased {
			n.Worker, n.Attempt, n.Assigned, n.AssignedIndex = l.Worker, l.Attempt, l.Started, l.Index
			p.TookMs = int64(v.clock - l.Started.Clock)
		} else {
			n.Reason = j.LastReason
		}
	}
	p.State = n.State
	return n, p
}

// WorkflowList is a frozen view of all workflows; reading it blocks nothing.
type WorkflowList struct {
	workflows *tree.Tree[rota.WorkflowID, *state.WorkflowRow]
	vertices  *tree.Tree[string, *state.VertexRow]
	live      *btree.Map[rota.WorkflowID, liveNodes]
	reader    *access.Reader
}

// For returns the list with the rights of a caller.
func (l *WorkflowList) For(rd *access.Reader) *WorkflowList {
	its := *l
	its.reader = rd
	return &its
}

// Workflows freezes the workflows for a list.
func (vw *View) Workflows() *WorkflowList {
	return &WorkflowList{vw.m.flows.workflows.Freeze(), vw.m.flows.vertices.Freeze(),
		vw.m.placement.registry.nodes.Copy(), nil}
}

// Page returns the workflows that the filter selects, by id, without their nodes. A
// cursor is the id of the last one looked at, and means the same on every node.
func (l *WorkflowList) Page(f rota.WorkflowFilter) (rota.WorkflowPage, error) {
	page := rota.WorkflowPage{Workflows: []rota.Workflow{}}
	if f.Cursor != "" && !rota.ValidID(f.Cursor) {
		return page, rota.Refusef(rota.KindInvalid, "cursor",
			"cursor: got %q; use the next_cursor of the previous page", f.Cursor)
	}
	limit, last := f.Limit, f.Cursor
	if limit <= 0 {
		limit = 100
	}
	limit = min(limit, limits.MaxPage)
	l.workflows.Ascend(rota.WorkflowID(f.Cursor), func(id rota.WorkflowID, r *state.WorkflowRow) bool {
		if string(id) == f.Cursor || r.Hidden() || f.State != rota.WorkflowNone && f.State != r.State ||
			f.Queue != "" && f.Queue != r.Queue || f.Tenant != "" && f.Tenant != r.Tenant ||
			!l.reader.Reads(r.Tenant, r.Queue) {
			return true // there are at most MaxWorkflows: looking at all takes milliseconds
		}
		if len(page.Workflows) == limit {
			page.NextCursor = last
			return false
		}
		live, _ := l.live.Get(id)
		failed, _ := l.vertices.Get(state.VertexKey(id, r.Failed))
		page.Workflows, last = append(page.Workflows, workflowWords(r, live, failed)), string(id)
		return true
	})
	return page, nil
}

// NodeParents returns the jobs of a node's parents and of the nodes that joined them, whose outputs it sees, in the
// order of their numbers (SPEC §11.2, §23.2).
func (vw *View) NodeParents(job rota.JobID) ([]rota.JobID, error) {
	f, v := vw.m.flows.vertex(job)
	if v == nil {
		return nil, rota.Refusef(rota.KindNotFound, "job", "job %q is not a node of a known workflow", job)
	}
	sources := f.sources(v)
	parents := make([]rota.JobID, len(sources))
	for i, p := range sources {
		parents[i] = f.rows[p].Spec.ID
	}
	return parents, nil
}

// waitingJob returns the job that a vertex will have, in the form shown until then.
func waitingJob(r *state.WorkflowRow, v *state.VertexRow, now rota.Moment) rota.Job {
	job := rota.Job{JobSpec: v.Spec.Words(), State: rota.JobBlocked, Submitted: r.Submitted, Attempts: v.Past.List()}
	if v.Runs > 0 {
		job.Life, job.Retried = v.Runs, r.Started
	}
	if due := v.GateDue(); due != 0 {
		job.Due = now.On(rota.Date(due))
	}
	return job
}

// isWaiting reports, for a job of an earlier life, whether its node waits for its parents.
func (p *pager) isWaiting(id rota.JobID) bool {
	w, _, ok := rota.SplitNodeJobID(id)
	if !ok {
		return false
	}
	waits, known := p.waits[w]
	if !known {
		waits = map[rota.JobID]bool{}
		if r, _ := p.workflows.Get(w); r != nil && !r.Hidden() && r.Blocked > 0 {
			p.vertices.Ascend(state.VertexKey(w, 0), func(_ string, v *state.VertexRow) bool {
				if v.Workflow == w && v.State == state.VertexBlocked {
					waits[v.Spec.ID] = true
				}
				return v.Workflow == w && len(waits) < int(r.Blocked)
			})
		}
		if p.waits == nil {
			p.waits = map[rota.WorkflowID]map[rota.JobID]bool{}
		}
		p.waits[w] = waits
	}
	return waits[id]
}

// waiting lists the nodes that waited for their parents when the list began, newest workflow first, then by number:
// jobs that are BLOCKED have no rows. A node released since is at its node's place, as its own number is too new for
// the list.
func (p *pager) waiting(h History) {
	c := &p.cursor
	released := p.head.JobSeq > c.Jobs
	var list []*state.WorkflowRow
	p.workflows.Scan(func(_ rota.WorkflowID, r *state.WorkflowRow) bool {
		if (r.Blocked > 0 || released) && r.Seq <= c.At && !r.Hidden() {
			list = append(list, r)
		}
		return true
	})
	slices.SortFunc(list, func(a, b *state.WorkflowRow) int { return cmp.Compare(b.Seq, a.Seq) })
	for _, r := range list {
		first := uint32(0)
		if r.Seq == c.At {
			first = c.Sub
		}
		p.vertices.Ascend(state.VertexKey(r.ID, first), func(_ string, v *state.VertexRow) bool {
			s := v.Spec
			if v.Workflow != r.ID || !p.reader.Reads(s.Tenant, s.Queue) {
				return v.Workflow == r.ID
			}
			if p.full() {
				return false
			}
			c.At, c.Sub = r.Seq, v.Number+1
			switch {
			case v.State == state.VertexBlocked:
				p.offer(0, s.ID, s.Queue, s.Tenant, s.Type, rota.JobBlocked,
					func() (rota.Job, bool) { return waitingJob(r, v, p.now), true })
			case released:
				p.offerReleased(s.ID, h)
			}
			return true
		})
		if p.stopped {
			return
		}
	}
}

// offerReleased offers the job of a node that was released since the list began.
func (p *pager) offerReleased(id rota.JobID, h History) {
	if j, live := p.jobs.Get(id); live {
		if j.Seq > p.cursor.Jobs {
			p.offerLive(j)
		}
		return
	}
	if kept, ok := p.tombs.Get(id); ok {
		if t := kept.Row(); t.Number > p.cursor.Jobs {
			p.offerTomb(&t, h)
		}
	}
}

// Difference returns the first field in which a submission, with its graph arranged, differs from the content of the
// workflow (SPEC §16.5); "" if there is none. Nodes that were added at run time were not submitted: they are not
// compared.
func (v *WorkflowView) Difference(w *rota.WorkflowSpec, g *rota.Graph) (how string) {
	r := v.row
	if how := w.Difference(&rota.WorkflowSpec{ID: r.ID, Queue: r.Queue, Tenant: r.Tenant, OnFailure: r.Policy,
		Labels: r.Labels}); how != "" {
		return how
	}
	k := 0
	v.vertices.Ascend(state.VertexKey(r.ID, 0), func(_ string, x *state.VertexRow) bool {
		if _, grown := x.GrownBy(); x.Workflow != r.ID || grown {
			return false
		}
		if k < len(g.Order) {
			how = x.Difference(w, g, k)
		}
		k++
		return how == ""
	})
	if how == "" && k != len(g.Order) {
		how = fmt.Sprintf("it had %d nodes, not %d", k, len(g.Order))
	}
	return how
}
