package fsm

import (
	"cmp"
	"fmt"
	"slices"

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
	w.Counts = rota.NodeCounts{Skipped: int64(r.skipped), Waiting: int64(r.waiting), JobCounts: rota.JobCounts{Blocked: int64(r.blocked - r.waiting),
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
		if by, grown := r.grownBy(); grown {
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

// node returns a vertex: of one that is live what its job and its lease say.
func (v *WorkflowView) node(r *vertexRow) (n rota.WorkflowNode, p sched.PlanNode) {
	n = rota.WorkflowNode{ID: vertexName(r), Job: r.spec.ID, Type: r.spec.Type, State: r.state, Worker: r.worker,
		Attempt: r.attempt, AssignedIndex: r.assignedAt, Assigned: r.assigned, FinishedIndex: r.finishedAt,
		Finished: r.finished, Reason: r.reason, Run: r.run}
	p = sched.PlanNode{Parents: r.parents, Type: r.spec.Type, ExpectedMs: r.spec.Expected.Milliseconds(), SimulateMs: r.spec.Simulate.Milliseconds()}
	if r.growth != nil {
		n.Joins, p.GrownBy, p.Joins = r.growth.joins, r.growth.by, r.growth.joins
	}
	if !r.assigned.IsZero() && r.over() {
		p.TookMs = int64(r.finished.Clock - r.assigned.Clock)
	}
	if r.gate != nil && !r.gate.since.IsZero() {
		n.Waiting = r.gate.since
		if p.TookMs = int64(v.clock - r.gate.since.Clock); r.over() {
			p.TookMs = int64(r.finished.Clock - r.gate.since.Clock)
		}
	}
	if r.waits() {
		n.State = rota.NodeWaiting
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

// NodeParents returns the jobs of the parents of a node, with those that joined them, whose
// outputs it sees, in the order of their numbers (SPEC §11.2, §23.2).
func (vw *View) NodeParents(job rota.JobID) ([]rota.JobID, error) {
	f, v := vw.m.flows.vertex(job)
	if v == nil {
		return nil, rota.Refusef(rota.KindNotFound, "job", "job %q is not that of a known workflow's node", job)
	}
	sources := f.sources(v)
	parents := make([]rota.JobID, len(sources))
	for i, p := range sources {
		parents[i] = f.rows[p].spec.ID
	}
	return parents, nil
}

// waitingJob is the job that a vertex will have, as it is told until then.
func waitingJob(r *workflowRow, v *vertexRow, now rota.Moment) rota.Job {
	job := rota.Job{JobSpec: v.spec.words(), State: rota.JobBlocked, Submitted: r.submitted, Attempts: v.past.list()}
	if v.runs > 0 {
		job.Life, job.Retried = v.runs, r.started
	}
	if due := v.gateDue(); due != 0 {
		job.Due = now.On(rota.Date(due))
	}
	return job
}

// isWaiting says of a job of an earlier life that its node waits for its parents.
func (p *pager) isWaiting(id rota.JobID) bool {
	w, _, ok := rota.SplitNodeJobID(id)
	if !ok {
		return false
	}
	waits, known := p.waits[w]
	if !known {
		waits = map[rota.JobID]bool{}
		if r, _ := p.workflows.Get(w); r != nil && !r.hidden() && r.blocked > 0 {
			p.vertices.Ascend(vertexKey(w, 0), func(_ string, v *vertexRow) bool {
				if v.workflow == w && v.state == vertexBlocked {
					waits[v.spec.ID] = true
				}
				return v.workflow == w && len(waits) < int(r.blocked)
			})
		}
		if p.waits == nil {
			p.waits = map[rota.WorkflowID]map[rota.JobID]bool{}
		}
		p.waits[w] = waits
	}
	return waits[id]
}

// waiting lists the nodes that waited for their parents as the list began, the newest workflow
// first, then by number: jobs that are BLOCKED have no rows. One that was released since is
// at its node's place, as its own number is too new for the list.
func (p *pager) waiting(h History) {
	c := &p.cursor
	released := p.head.jobSeq > c.Jobs
	var list []*workflowRow
	p.workflows.Scan(func(_ rota.WorkflowID, r *workflowRow) bool {
		if (r.blocked > 0 || released) && r.seq <= c.At && !r.hidden() {
			list = append(list, r)
		}
		return true
	})
	slices.SortFunc(list, func(a, b *workflowRow) int { return cmp.Compare(b.seq, a.seq) })
	for _, r := range list {
		first := uint32(0)
		if r.seq == c.At {
			first = c.Sub
		}
		p.vertices.Ascend(vertexKey(r.id, first), func(_ string, v *vertexRow) bool {
			s := v.spec
			if v.workflow != r.id || !p.reader.Reads(s.Tenant, s.Queue) {
				return v.workflow == r.id
			}
			if p.full() {
				return false
			}
			c.At, c.Sub = r.seq, v.number+1
			switch {
			case v.state == vertexBlocked:
				p.offer(0, s.ID, s.Queue, s.Tenant, s.Type, rota.JobBlocked, func() (rota.Job, bool) { return waitingJob(r, v, p.now), true })
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

// offerReleased takes the job of a node that was released since the list began.
func (p *pager) offerReleased(id rota.JobID, h History) {
	if j, live := p.jobs.Get(id); live {
		if j.seq > p.cursor.Jobs {
			p.offerLive(j)
		}
		return
	}
	if kept, ok := p.tombs.Get(id); ok {
		if t := kept.row(); t.number > p.cursor.Jobs {
			p.offerTomb(&t, h)
		}
	}
}

// Difference names the first field in which a submission, its graph arranged, is not the content of the
// workflow (SPEC §16.5); "" where there is none. What nodes added as they ran was never submitted.
func (v *WorkflowView) Difference(w *rota.WorkflowSpec, g *rota.Graph) (how string) {
	r := v.row
	if how := w.Difference(&rota.WorkflowSpec{ID: r.id, Queue: r.queue, Tenant: r.tenant, OnFailure: r.policy, Labels: r.labels}); how != "" {
		return how
	}
	k := 0
	v.vertices.Ascend(vertexKey(r.id, 0), func(_ string, x *vertexRow) bool {
		if _, grown := x.grownBy(); x.workflow != r.id || grown {
			return false
		}
		if k < len(g.Order) {
			how = x.difference(w, g, k)
		}
		k++
		return how == ""
	})
	if how == "" && k != len(g.Order) {
		how = fmt.Sprintf("it had %d nodes, not %d", k, len(g.Order))
	}
	return how
}
