package fsm

import (
	"strconv"
	"strings"

	"github.com/tidwall/btree"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/tree"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/millis"
	"github.com/rotasched/rota/sched"
)

// liveNodes checks that the nodes' jobs are counted as they stand. Invariant I4.
func (c *checker) liveNodes() {
	counted := &registry{}
	c.m.jobs.scan(func(_ rota.JobID, j *jobRow) bool {
		counted.moveNode(j, rota.JobNone, j.state)
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

// hidden reports whether nobody is told of a workflow: its nodes are still arriving, or it
// is being dropped.
func (r *workflowRow) hidden() bool { return r.state == rota.WorkflowOpen || r.leaving }

// Workflow returns a workflow without its nodes, critical path and estimates.
func (vw *View) Workflow(id rota.WorkflowID) (rota.Workflow, bool) {
	r := vw.m.flows.workflows.get(id)
	if r == nil || r.hidden() {
		return rota.Workflow{}, false
	}
	live, _ := vw.m.placement.registry.nodes.Get(id)
	return workflowWords(r, live, vw.m.flows.vertices.get(vertexKey(id, r.failed))), true
}

// workflowWords returns a workflow; failed is the vertex that its row names.
func workflowWords(r *workflowRow, live liveNodes, failed *vertexRow) rota.Workflow {
	w := rota.Workflow{ID: r.id, State: r.state, Queue: r.queue, Tenant: r.tenant, OnFailure: r.policy, Labels: r.labels,
		NodeCount: int64(r.nodes), EdgeCount: int64(r.edges), Runs: r.runs, Ending: r.ending, Reason: r.reason,
		Submitted: r.submitted,
		Finished:  r.finished,
		Progress:  int32(int64(r.completed) * 100 / max(int64(r.nodes), 1))}
	w.Counts = rota.NodeCounts{Skipped: int64(r.skipped), JobCounts: rota.JobCounts{Blocked: int64(r.blocked),
		Delayed: live.delayed, Queued: live.queued, Assigned: live.assigned, Running: live.running,
		Completed: int64(r.completed), Dead: int64(r.dead), Expired: int64(r.expired), Cancelled: int64(r.cancelled)}}
	if r.reason != rota.ReasonNone && failed != nil {
		w.FailedNode = vertexName(failed)
	}
	return w
}

// WorkflowView is a frozen view of one workflow with its nodes; reading it holds
// nothing up.
type WorkflowView struct {
	row      *workflowRow
	live     liveNodes
	clock    rota.Clock
	vertices *tree.Tree[string, *vertexRow]
	jobs     *tree.Tree[rota.JobID, *jobRow]
	leases   *tree.Tree[string, *leaseRow]
}

// WorkflowView freezes a workflow; ok is false where there is none.
func (vw *View) WorkflowView(id rota.WorkflowID) (v *WorkflowView, ok bool) {
	r := vw.m.flows.workflows.get(id)
	if r == nil || r.hidden() {
		return nil, false
	}
	live, _ := vw.m.placement.registry.nodes.Get(id)
	return &WorkflowView{r, live, vw.m.head.clock, vw.m.flows.vertices.freeze(), vw.m.jobs.freeze(), vw.m.leasing.leases.freeze()}, true
}

// Words returns the workflow with its nodes, its critical path and its estimates:
// O(nodes + edges).
func (v *WorkflowView) Words() rota.Workflow {
	rows := make([]*vertexRow, 0, v.row.nodes)
	v.vertices.Ascend(vertexKey(v.row.id, 0), func(_ string, r *vertexRow) bool {
		if len(rows) == int(v.row.nodes) {
			return false
		}
		rows = append(rows, r)
		return true
	})
	w := workflowWords(v.row, v.live, rows[v.row.failed])
	w.Nodes = make([]rota.WorkflowNode, len(rows))
	plan := make([]sched.PlanNode, len(rows))
	parents := make([]string, 0, v.row.edges)
	for i, r := range rows {
		first := len(parents)
		for _, p := range r.parents {
			parents = append(parents, w.Nodes[p].ID)
		}
		w.Nodes[i], plan[i] = v.node(r)
		w.Nodes[i].Parents = parents[first:len(parents):len(parents)]
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

// node returns a vertex: of one that is live what its job and its lease say.
func (v *WorkflowView) node(r *vertexRow) (n rota.WorkflowNode, p sched.PlanNode) {
	n = rota.WorkflowNode{ID: vertexName(r), Job: r.spec.ID, Type: r.spec.Type, State: r.state, Worker: r.worker,
		Attempt: r.attempt, AssignedIndex: r.assignedAt, Assigned: r.assigned, FinishedIndex: r.finishedAt,
		Finished: r.finished, Reason: r.reason}
	p = sched.PlanNode{Parents: r.parents, Type: r.spec.Type, ExpectedMs: r.spec.Expected.Milliseconds(), SimulateMs: r.spec.Simulate.Milliseconds()}
	if !r.assigned.IsZero() && r.over() {
		p.TookMs = int64(r.finished.Clock - r.assigned.Clock)
	}
	if j, _ := v.jobs.Get(r.spec.ID); r.state == vertexLive && j != nil {
		n.State = rota.NodeState(j.state)
		if l, leased := v.leases.Get(string(j.lease[:])); leased {
			n.Worker, n.Attempt, n.Assigned, n.AssignedIndex = l.Worker, l.Attempt, l.Started, l.index
			p.TookMs = int64(v.clock - l.Started.Clock)
		} else {
			n.Reason = j.lastReason
		}
	}
	p.State = n.State
	return n, p
}

// WorkflowList is a frozen view of all workflows; reading it holds nothing up.
type WorkflowList struct {
	workflows *tree.Tree[rota.WorkflowID, *workflowRow]
	vertices  *tree.Tree[string, *vertexRow]
	live      *btree.Map[rota.WorkflowID, liveNodes]
	reader    *access.Reader
}

// For returns the list as somebody may read it.
func (l *WorkflowList) For(rd *access.Reader) *WorkflowList {
	its := *l
	its.reader = rd
	return &its
}

// Workflows freezes the workflows for a list.
func (vw *View) Workflows() *WorkflowList {
	return &WorkflowList{vw.m.flows.workflows.freeze(), vw.m.flows.vertices.freeze(), vw.m.placement.registry.nodes.Copy(), nil}
}

// Page returns the workflows that the filter selects, by id, without their nodes. A
// cursor is the id of the last one looked at, and means the same on every node.
func (l *WorkflowList) Page(f rota.WorkflowFilter) (rota.WorkflowPage, error) {
	page := rota.WorkflowPage{Workflows: []rota.Workflow{}}
	if f.Cursor != "" && !rota.ValidID(f.Cursor) {
		return page, rota.Refusef(rota.KindInvalid, "cursor", "cursor %q is not one that a page gave", f.Cursor)
	}
	limit, last := f.Limit, f.Cursor
	if limit <= 0 {
		limit = 100
	}
	limit = min(limit, limits.MaxPage)
	l.workflows.Ascend(rota.WorkflowID(f.Cursor), func(id rota.WorkflowID, r *workflowRow) bool {
		if string(id) == f.Cursor || r.hidden() || f.State != rota.WorkflowNone && f.State != r.state ||
			f.Queue != "" && f.Queue != r.queue || f.Tenant != "" && f.Tenant != r.tenant || !l.reader.Reads(r.tenant, r.queue) {
			return true // there are at most MaxWorkflows: looking at all is a matter of milliseconds
		}
		if len(page.Workflows) == limit {
			page.NextCursor = last
			return false
		}
		live, _ := l.live.Get(id)
		failed, _ := l.vertices.Get(vertexKey(id, r.failed))
		page.Workflows, last = append(page.Workflows, workflowWords(r, live, failed)), string(id)
		return true
	})
	return page, nil
}

// NodeParents returns the jobs of the parents of a node, whose outputs it sees, in the
// order of their numbers (SPEC §11.2).
func (vw *View) NodeParents(job rota.JobID) ([]rota.JobID, error) {
	f, v := vw.m.flows.vertex(job)
	if v == nil {
		return nil, rota.Refusef(rota.KindNotFound, "job", "job %q is not that of a known workflow's node", job)
	}
	parents := make([]rota.JobID, len(v.parents))
	for i, p := range v.parents {
		parents[i] = f.rows[p].spec.ID
	}
	return parents, nil
}

// waitingNode returns the vertex of a node that has no job yet, as it waits for its
// parents; nil where the id is of no such node.
func (vw *View) waitingNode(job rota.JobID) (*flow, *vertexRow) {
	f, v := vw.m.flows.vertex(job)
	if v == nil || v.state != vertexBlocked {
		return nil, nil
	}
	return f, v
}

// waitingJob is the job that a vertex will have, as it is told until then.
func waitingJob(r *workflowRow, v *vertexRow) rota.Job {
	job := rota.Job{JobSpec: v.spec.words(), State: rota.JobBlocked, Submitted: r.submitted, Attempts: v.past.list()}
	if v.runs > 0 {
		job.Life, job.Retried = v.runs, r.started
	}
	return job
}

// waitingFrom reads the place in the list of waiting nodes that a cursor tells: a
// workflow, a slash, the number of the last vertex looked at.
func waitingFrom(cursor string) (w rota.WorkflowID, number uint32, ok bool) {
	id, text, _ := strings.Cut(cursor, "/")
	n, err := strconv.ParseUint(text, 10, 32)
	return rota.WorkflowID(id), uint32(n), err == nil && rota.ValidID(id) && n < rota.MaxWorkflowNodes
}

// isWaiting says of a job of an earlier life that its node waits for its parents.
func (p *pager) isWaiting(id rota.JobID) bool {
	w, _, ok := rota.SplitNodeJobID(id)
	if !ok {
		return false
	}
	if w != p.waitsOf {
		p.waits, p.waitsOf = map[rota.JobID]bool{}, w
		if r, _ := p.workflows.Get(w); r != nil && !r.hidden() && r.blocked > 0 {
			p.vertices.Ascend(vertexKey(w, 0), func(_ string, v *vertexRow) bool {
				if v.workflow == w && v.state == vertexBlocked {
					p.waits[v.spec.ID] = true
				}
				return v.workflow == w && len(p.waits) < int(r.blocked)
			})
		}
	}
	return p.waits[id]
}

// waiting lists the nodes that wait for their parents, by workflow and number: jobs
// that are BLOCKED have no rows.
func (p *pager) waiting() {
	if p.filter.State != rota.JobNone && p.filter.State != rota.JobBlocked {
		return
	}
	from, next := rota.WorkflowID(""), uint32(0)
	if p.last != "" {
		from, next, _ = waitingFrom(string(p.last))
		next++
	}
	p.workflows.Ascend(from, func(id rota.WorkflowID, r *workflowRow) bool {
		first := uint32(0)
		if id == from {
			first = next
		}
		if r.hidden() || r.blocked == 0 || p.filter.Tenant != "" && p.filter.Tenant != r.tenant {
			return true
		}
		p.vertices.Ascend(vertexKey(id, first), func(_ string, v *vertexRow) bool {
			if v.workflow != id {
				return false
			}
			if !p.reader.Reads(v.spec.Tenant, v.spec.Queue) {
				return true
			}
			if p.full(partWaiting) {
				return false
			}
			p.last = rota.JobID(string(id) + "/" + strconv.FormatUint(uint64(v.number), 10))
			s := v.spec
			if v.state == vertexBlocked && selects(p.filter, s.Queue, s.Tenant, s.Type, rota.JobBlocked) {
				p.page.Jobs = append(p.page.Jobs, waitingJob(r, v))
			}
			return true
		})
		return p.page.NextCursor == ""
	})
}
