package fsm

import (
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
)

// flows checks workflows against their vertices, and the data derived from both against the rows. Invariants I4, I5.
func (c *checker) flows() {
	m := c.m
	var all, kept, over flowSize
	ready, passing, leaving := 0, 0, 0
	m.flows.workflows.Scan(func(id rota.WorkflowID, r *state.WorkflowRow) bool {
		all.add(r, 1)
		if r.Seq > m.Header.FlowSeq || r.Touched > m.Header.Clock || r.Submitted.Clock > m.Header.Clock ||
			r.Started.Clock > m.Header.Clock ||
			r.Finished.Clock > m.Header.Clock {
			c.fault("I6: workflow %s is numbered or stamped beyond the present", id)
		}
		if ended := r.State.Terminal(); ended != (r.Due != 0) || ended && r.Due < r.Finished.Date+rota.GCHorizonLeast {
			c.fault("I6: workflow %s is %s since %d and leaves on %d", id, r.State, r.Finished.Date, r.Due)
		}
		if r.Leaving {
			leaving++
			c.leavingFlow(r)
			return true
		}
		kept.add(r, 1)
		if r.State.Terminal() {
			over.add(r, 1)
		}
		f := m.flows.flowIndex.byID[id]
		if f == nil || f.seq != r.Seq || len(f.rows) != int(r.Added) {
			c.fault("I4: workflow %s of %d vertices is not filed so", id, r.Added)
			return true
		}
		c.flow(f, r)
		due := r.State == rota.WorkflowRunning && f.work.Len() > 0 && !f.held(r)
		if at, ok := m.flows.flowIndex.ready.Get(r.Seq); ok != due || ok && at != f {
			c.fault("I4: workflow %s with %d vertices due is filed as ready: %v", id, f.work.Len(), ok)
		} else if ok {
			ready++
		}
		if at, ok := m.flows.flowIndex.passing.Get(r.Seq); ok != r.Passing() || ok && at != f {
			c.fault("I4: workflow %s has a pass under way: %v, it is filed so: %v", id, r.Passing(), ok)
		} else if ok {
			passing++
		}
		return true
	})
	s := &m.flows.flowIndex
	if all != s.all || kept != s.kept || over != s.over {
		c.fault("I4: workflows take %v, kept %v, over %v; counted are %v, %v, %v", all, kept, over, s.all, s.kept,
			s.over)
	}
	if ready != s.ready.Len() || passing != s.passing.Len() || leaving != s.leaving.Len() ||
		len(s.byID)+leaving != m.flows.workflows.Len() {
		c.fault("I4: %d workflows are filed as ready, %d as passing, %d as leaving, %d by id; %d, %d, %d of %d are",
			s.ready.Len(),
			s.passing.Len(), s.leaving.Len(), len(s.byID), ready, passing, leaving, m.flows.workflows.Len())
	}
	attempts := 0
	m.flows.vertices.Scan(func(_ string, v *state.VertexRow) bool {
		attempts += len(v.Past.List())
		return true
	})
	if attempts != s.attempts || attempts > limits.MaxNodeAttempts {
		c.fault("I4: nodes keep %d attempts, %d are counted", attempts, s.attempts)
	}
	c.vertices()
	c.nodeJobs()
}

// leavingFlow checks a workflow whose vertices before the cursor are dropped.
func (c *checker) leavingFlow(r *state.WorkflowRow) {
	m := c.m
	if id, ok := m.flows.flowIndex.leaving.Get(r.Seq); !ok || id != r.ID || r.State == rota.WorkflowRunning ||
		r.Cursor > r.Added {
		c.fault("I4: workflow %s is %s and leaving", r.ID, r.State)
	}
	left := 0
	m.flows.vertices.Tree.Ascend(state.VertexKey(r.ID, 0), func(_ string, v *state.VertexRow) bool {
		if v.Workflow != r.ID {
			return false
		}
		if v.Number < r.Cursor {
			c.fault("I4: vertex %d of workflow %s was dropped and is there", v.Number, r.ID)
		}
		left++
		return true
	})
	if left != int(r.Added)-int(r.Cursor) {
		c.fault("I4: workflow %s is leaving with %d vertices, at %d of %d", r.ID, left, r.Cursor, r.Added)
	}
}

// flow checks one workflow that is not leaving.
func (c *checker) flow(f *flow, r *state.WorkflowRow) {
	want := state.WorkflowRow{}
	links, children, bytes, urgent := uint64(0), 0, int64(0), int32(rota.MaxPriority)
	queues := make(map[rota.QueueName]flowQueue)
	through, lost, settled := c.growths(f, r)
	for n, v := range f.rows {
		links += uint64(len(v.Parents))
		children += len(f.children[n])
		if by, grown := v.GrownBy(); grown && slices.Contains(v.Parents, by) {
			children++ // that edge was met from the start
		}
		c.vertex(f, r, v, through, lost, settled)
		*want.Count(v.State)++
		var e state.Encoder
		state.EncodeShape(&e, v.Spec, v.Parents, v.Run, v.Gate.Own())
		bytes += int64(len(e.B)) + v.Gate.Held()
		if v.Waits() {
			want.Waiting++
		}
		if v.Unneeded() {
			want.Unneeded++
		}
		if len(v.Parents) == 0 {
			urgent = min(urgent, v.Spec.Priority)
		}
		q := queues[v.Spec.Queue]
		q.name = v.Spec.Queue
		q.nodes++
		if v.State == rota.NodeState(rota.JobCompleted) {
			q.completed++
		}
		queues[v.Spec.Queue] = q
	}
	if want.Blocked != r.Blocked || want.Live != r.Live || want.Completed != r.Completed || want.Dead != r.Dead ||
		want.Expired != r.Expired || want.Unneeded != r.Unneeded || want.Waiting != r.Waiting ||
		want.Cancelled != r.Cancelled || want.Skipped != r.Skipped || links != r.Linked ||
		bytes != r.Bytes {
		c.fault("I4: workflow %s counts %d blocked, %d live, %d completed, %d edges, %d bytes; its vertices are %d, %d, %d, %d, %d",
			r.ID, r.Blocked, r.Live, r.Completed, r.Linked, r.Bytes, want.Blocked, want.Live, want.Completed, links,
			bytes)
	}
	for _, q := range f.queues {
		if queues[q.name] != q {
			c.fault("I4: workflow %s counts %v, its vertices are %v", r.ID, q, queues[q.name])
		}
	}
	if uint64(children) != links || len(queues) != len(f.queues) || len(f.byName) != len(f.rows) || urgent != f.urgent {
		c.fault("I4: workflow %s is of %d queues, %d names, %d edges and priority %d; its vertices are of %d, %d, %d and %d",
			r.ID, len(f.queues), len(f.byName), children, f.urgent, len(queues), len(f.rows), links, urgent)
	}
	if !r.Sound() {
		c.fault("I5: workflow %s is %s, ending %s, in run %d, at %d, of %d nodes with %d live and %d blocked", r.ID,
			r.State, r.Ending, r.Runs, r.Cursor, r.Nodes, r.Live, r.Blocked)
	}
	c.redo(f, r)
	c.kinds(f, r)
	c.gates(f, r)
}

// redo checks what a retry in progress has yet to take back.
func (c *checker) redo(f *flow, r *state.WorkflowRow) {
	if (f.redo != nil) != (r.Redo && r.From > 0) {
		c.fault("I4: workflow %s is retried from %d, marked: %v", r.ID, r.From, f.redo != nil)
		return
	}
	if f.redo == nil {
		return
	}
	marked, _ := f.after(r.From - 1)
	for n := int(r.Cursor); n < len(marked); n++ {
		if marked[n] != f.redo[n] {
			c.fault("I4: vertex %d of workflow %s is to be run again: %v, it is marked %v", n, r.ID, marked[n],
				f.redo[n])
		}
	}
}

// growths checks the vertices that were added on completion. It returns which vertices are through, which are lost or
// grew a lost one, and which are settled.
func (c *checker) growths(f *flow, r *state.WorkflowRow) (through, lost, settled []bool) {
	through, lost, settled = make([]bool, len(f.rows)), make([]bool, len(f.rows)), make([]bool, len(f.rows))
	want := make(map[uint32]*sprouts)
	for n := len(f.rows) - 1; n >= 0; n-- {
		v, s := f.rows[n], want[uint32(n)]
		through[n] = v.State == rota.NodeState(rota.JobCompleted) && (s == nil || s.open == 0)
		lost[n] = v.Lost() || s != nil && s.lost > 0
		settled[n] = v.Over() && (s == nil || s.unsettled == 0)
		if its := f.sprouts[uint32(n)]; (s == nil) != (its == nil) || s != nil && *s != *its {
			c.fault("I4: vertex %d of workflow %s grew %v, counted are %v", n, r.ID, s, its)
		}
		if s != nil && (v.State != rota.NodeState(rota.JobCompleted) || v.Growth == nil ||
			v.Growth.Content == rota.Digest{}) {
			c.fault("I5: vertex %d of workflow %s is %s and grew %v", n, r.ID, v.State, *s)
		}
		by, grown := v.GrownBy()
		if !grown {
			continue
		}
		if by >= v.Number || len(v.Parents) == 0 {
			c.fault("I5: vertex %d of workflow %s was grown by %d and has parents %v", n, r.ID, by, v.Parents)
			continue
		}
		s = want[by]
		if s == nil {
			s = &sprouts{}
			want[by] = s
		}
		s.first = v.Number
		s.n++
		if v.Joins() && !through[n] {
			s.open++
		}
		if v.Joins() && lost[n] {
			s.lost++
		}
		if v.Joins() && !settled[n] {
			s.unsettled++
		}
	}
	return through, lost, settled
}

// vertex checks one vertex and its counters.
func (c *checker) vertex(f *flow, r *state.WorkflowRow, v *state.VertexRow, through, spoilt, settled []bool) {
	m, number := c.m, v.Number
	name := state.VertexName(v)
	if at, ok := f.byName[name]; !ok || at != number || v.Number != number ||
		v != m.flows.vertices.Get(state.VertexKey(r.ID, number)) ||
		v.Spec.ID != rota.NodeJobID(r.ID, name) || v.Spec.Tenant != r.Tenant {
		c.fault("I4: vertex %d of workflow %s, node %q, is filed otherwise than its row says", number, r.ID, name)
	}
	waiting, lost, open := uint32(0), uint32(0), uint32(0)
	for i, p := range v.Parents {
		if p >= number || i > 0 && p <= v.Parents[i-1] {
			c.fault("I5: vertex %d of workflow %s has parent %d", number, r.ID, p)
			return
		}
		if v.Awaits(p) && !settled[p] {
			open++
		}
		switch {
		case through[p] || !v.Awaits(p):
		case spoilt[p]:
			lost++
			fallthrough
		default:
			waiting++
		}
	}
	if waiting != f.waiting[number] || lost != f.lost[number] || open != f.open[number] {
		c.fault("I4: vertex %d of workflow %s waits for %d parents, of which %d have not ended, and lost %d; counted are %d, %d and %d",
			number, r.ID, waiting, open, lost, f.waiting[number], f.open[number], f.lost[number])
	}
	due := r.State == rota.WorkflowRunning && (r.Ending == rota.WorkflowNone || v.Outlives(r.Ending)) && f.due(r, v) ||
		r.State == rota.WorkflowOpen && waiting == 0
	if f.work.Contains(number) != due {
		c.fault("I5: vertex %d of workflow %s waits for %d parents, and is to be processed: %v", number, r.ID, waiting,
			!due)
	}
	last := uint32(0)
	for i, child := range f.children[number] {
		if i > 0 && child <= last || int(child) >= len(f.rows) {
			c.fault("I4: vertex %d of workflow %s has child %d after %d", number, r.ID, child, last)
		}
		last = child
	}
	if v.Finished.Clock > m.Header.Clock || v.Assigned.Clock > m.Header.Clock || v.FinishedAt > m.Header.Index ||
		v.Over() == v.Finished.IsZero() {
		c.fault("I6: vertex %d of workflow %s is %s and ended at %d, in entry %d", number, r.ID, v.State,
			v.Finished.Clock, v.FinishedAt)
	}
	if v.State != state.VertexBlocked && v.State != state.VertexLive && !v.Over() || r.State == rota.WorkflowOpen &&
		v.State != state.VertexBlocked {
		c.fault("I5: vertex %d of workflow %s, which is %s, is %s", number, r.ID, r.State, v.State)
	}
	if j := m.JobTable.Get(v.Spec.ID); (v.State == state.VertexLive) != (j != nil && j.Workflow == r.ID &&
		j.Vertex == number) {
		c.fault("I5: vertex %d of workflow %s is %s, it has a job: %v", number, r.ID, v.State, j != nil)
	}
}

// vertices checks that every vertex belongs to a workflow.
func (c *checker) vertices() {
	m := c.m
	total := 0
	m.flows.workflows.Scan(func(_ rota.WorkflowID, r *state.WorkflowRow) bool {
		total += int(r.Added)
		if r.Leaving {
			total -= int(r.Cursor)
		}
		return true
	})
	if n := m.flows.vertices.Len(); n != total {
		c.fault("I4: there are %d vertices, their workflows have %d", n, total)
	}
}

// nodeJobs checks that the jobs of nodes belong to live vertices and share their data.
func (c *checker) nodeJobs() {
	m := c.m
	m.JobTable.Scan(func(id rota.JobID, j *state.JobRow) bool {
		_, _, node := rota.SplitNodeJobID(id)
		if node != (j.Workflow != "") {
			c.fault("I5: job %s is of workflow %q", id, j.Workflow)
		}
		if j.Workflow == "" {
			return true
		}
		if f := m.flows.flowIndex.byID[j.Workflow]; f == nil || int(j.Vertex) >= len(f.rows) ||
			f.rows[j.Vertex].Spec != j.Spec ||
			f.rows[j.Vertex].State != state.VertexLive || j.State == rota.JobBlocked {
			c.fault("I5: job %s is %s and not that of vertex %d of workflow %s", id, j.State, j.Vertex, j.Workflow)
		}
		return true
	})
}

// blocked adds the waiting vertices of RUNNING workflows to a recount of queues.
func (c *checker) blocked(counts map[rota.QueueName]*state.QueueRow) {
	m := c.m
	m.flows.vertices.Scan(func(_ string, v *state.VertexRow) bool {
		r := m.flows.workflows.Get(v.Workflow)
		if r == nil {
			c.fault("I4: vertex %d is of unknown workflow %s", v.Number, v.Workflow)
		} else if q := counts[v.Spec.Queue]; q == nil {
			c.fault("I4: vertex %d of workflow %s is of unknown queue %s", v.Number, v.Workflow, v.Spec.Queue)
		} else if r.State == rota.WorkflowRunning && v.State == state.VertexBlocked {
			q.Blocked++
		}
		return true
	})
}
