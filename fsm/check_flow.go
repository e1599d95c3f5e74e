package fsm

import (
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
)

// flows checks workflows against their vertices, and what is derived of both against
// the rows. Invariants I4, I5.
func (c *checker) flows() {
	m := c.m
	var all, kept, over flowSize
	ready, passing, leaving := 0, 0, 0
	m.flows.workflows.scan(func(id rota.WorkflowID, r *workflowRow) bool {
		all.add(r, 1)
		if r.seq > m.head.flowSeq || r.touched > m.head.clock || r.submitted.Clock > m.head.clock || r.started.Clock > m.head.clock ||
			r.finished.Clock > m.head.clock {
			c.fault("I6: workflow %s is numbered or stamped beyond the present", id)
		}
		if ended := r.state.Terminal(); ended != (r.due != 0) || ended && r.due < r.finished.Date+rota.GCHorizonLeast {
			c.fault("I6: workflow %s is %s since %d and leaves on %d", id, r.state, r.finished.Date, r.due)
		}
		if r.leaving {
			leaving++
			c.leavingFlow(r)
			return true
		}
		kept.add(r, 1)
		if r.state.Terminal() {
			over.add(r, 1)
		}
		f := m.flows.flowIndex.byID[id]
		if f == nil || f.seq != r.seq || len(f.rows) != int(r.added) {
			c.fault("I4: workflow %s of %d vertices is not filed so", id, r.added)
			return true
		}
		c.flow(f, r)
		due := r.state == rota.WorkflowRunning && f.work.Len() > 0 && !f.held(r)
		if at, ok := m.flows.flowIndex.ready.Get(r.seq); ok != due || ok && at != f {
			c.fault("I4: workflow %s with %d vertices due is filed as ready: %v", id, f.work.Len(), ok)
		} else if ok {
			ready++
		}
		if at, ok := m.flows.flowIndex.passing.Get(r.seq); ok != r.passing() || ok && at != f {
			c.fault("I4: workflow %s has a pass under way: %v, it is filed so: %v", id, r.passing(), ok)
		} else if ok {
			passing++
		}
		return true
	})
	s := &m.flows.flowIndex
	if all != s.all || kept != s.kept || over != s.over {
		c.fault("I4: workflows take %v, kept %v, over %v; counted are %v, %v, %v", all, kept, over, s.all, s.kept, s.over)
	}
	if ready != s.ready.Len() || passing != s.passing.Len() || leaving != s.leaving.Len() ||
		len(s.byID)+leaving != m.flows.workflows.len() {
		c.fault("I4: %d workflows are filed as ready, %d as passing, %d as leaving, %d by id; %d, %d, %d of %d are", s.ready.Len(),
			s.passing.Len(), s.leaving.Len(), len(s.byID), ready, passing, leaving, m.flows.workflows.len())
	}
	attempts := 0
	m.flows.vertices.scan(func(_ string, v *vertexRow) bool {
		attempts += len(v.past.list())
		return true
	})
	if attempts != s.attempts || attempts > limits.MaxNodeAttempts {
		c.fault("I4: nodes keep %d attempts, %d are counted", attempts, s.attempts)
	}
	c.vertices()
	c.nodeJobs()
}

// leavingFlow checks a row of which the vertices before the cursor are dropped.
func (c *checker) leavingFlow(r *workflowRow) {
	m := c.m
	if id, ok := m.flows.flowIndex.leaving.Get(r.seq); !ok || id != r.id || r.state == rota.WorkflowRunning || r.cursor > r.added {
		c.fault("I4: workflow %s is %s and leaving", r.id, r.state)
	}
	left := 0
	m.flows.vertices.tree.Ascend(vertexKey(r.id, 0), func(_ string, v *vertexRow) bool {
		if v.workflow != r.id {
			return false
		}
		if v.number < r.cursor {
			c.fault("I4: vertex %d of workflow %s was dropped and is there", v.number, r.id)
		}
		left++
		return true
	})
	if left != int(r.added)-int(r.cursor) {
		c.fault("I4: workflow %s is leaving with %d vertices, at %d of %d", r.id, left, r.cursor, r.added)
	}
}

// flow checks one workflow that is kept.
func (c *checker) flow(f *flow, r *workflowRow) {
	want := workflowRow{}
	links, children, bytes, urgent := uint64(0), 0, int64(0), int32(rota.MaxPriority)
	queues := make(map[rota.QueueName]flowQueue)
	through, lost, settled := c.growths(f, r)
	for n, v := range f.rows {
		links += uint64(len(v.parents))
		children += len(f.children[n])
		if by, grown := v.grownBy(); grown && slices.Contains(v.parents, by) {
			children++ // that edge was met from the start
		}
		c.vertex(f, r, v, through, lost, settled)
		*want.count(v.state)++
		var e encoder
		encodeShape(&e, v.spec, v.parents, v.run, v.gate.own())
		bytes += int64(len(e.b)) + v.gate.held()
		if v.waits() {
			want.waiting++
		}
		if v.unneeded() {
			want.unneeded++
		}
		if len(v.parents) == 0 {
			urgent = min(urgent, v.spec.Priority)
		}
		q := queues[v.spec.Queue]
		q.name = v.spec.Queue
		q.nodes++
		if v.state == rota.NodeState(rota.JobCompleted) {
			q.completed++
		}
		queues[v.spec.Queue] = q
	}
	if want.blocked != r.blocked || want.live != r.live || want.completed != r.completed || want.dead != r.dead ||
		want.expired != r.expired || want.unneeded != r.unneeded || want.waiting != r.waiting || want.cancelled != r.cancelled || want.skipped != r.skipped || links != r.linked ||
		bytes != r.bytes {
		c.fault("I4: workflow %s counts %d blocked, %d live, %d completed, %d edges, %d bytes; its vertices are %d, %d, %d, %d, %d",
			r.id, r.blocked, r.live, r.completed, r.linked, r.bytes, want.blocked, want.live, want.completed, links, bytes)
	}
	for _, q := range f.queues {
		if queues[q.name] != q {
			c.fault("I4: workflow %s counts %v, its vertices are %v", r.id, q, queues[q.name])
		}
	}
	if uint64(children) != links || len(queues) != len(f.queues) || len(f.byName) != len(f.rows) || urgent != f.urgent {
		c.fault("I4: workflow %s is of %d queues, %d names, %d edges and priority %d; its vertices are of %d, %d, %d and %d", r.id,
			len(f.queues), len(f.byName), children, f.urgent, len(queues), len(f.rows), links, urgent)
	}
	if !r.sound() {
		c.fault("I5: workflow %s is %s, ending %s, in run %d, at %d, of %d nodes with %d live and %d blocked", r.id, r.state,
			r.ending, r.runs, r.cursor, r.nodes, r.live, r.blocked)
	}
	c.redo(f, r)
	c.kinds(f, r)
	c.gates(f, r)
}

// redo checks what a retry under way is yet to take back.
func (c *checker) redo(f *flow, r *workflowRow) {
	if (f.redo != nil) != (r.redo && r.from > 0) {
		c.fault("I4: workflow %s is retried from %d, marked: %v", r.id, r.from, f.redo != nil)
		return
	}
	if f.redo == nil {
		return
	}
	marked, _ := f.after(r.from - 1)
	for n := int(r.cursor); n < len(marked); n++ {
		if marked[n] != f.redo[n] {
			c.fault("I4: vertex %d of workflow %s is to be run again: %v, it is marked %v", n, r.id, marked[n], f.redo[n])
		}
	}
}

// growths returns which vertices are through, which are lost or grew what is lost, and which are settled, and
// checks what vertices grew as they completed.
func (c *checker) growths(f *flow, r *workflowRow) (through, lost, settled []bool) {
	through, lost, settled = make([]bool, len(f.rows)), make([]bool, len(f.rows)), make([]bool, len(f.rows))
	want := make(map[uint32]*sprouts)
	for n := len(f.rows) - 1; n >= 0; n-- {
		v, s := f.rows[n], want[uint32(n)]
		through[n] = v.state == rota.NodeState(rota.JobCompleted) && (s == nil || s.open == 0)
		lost[n] = v.lost() || s != nil && s.lost > 0
		settled[n] = v.over() && (s == nil || s.unsettled == 0)
		if its := f.sprouts[uint32(n)]; (s == nil) != (its == nil) || s != nil && *s != *its {
			c.fault("I4: vertex %d of workflow %s grew %v, counted are %v", n, r.id, s, its)
		}
		if s != nil && (v.state != rota.NodeState(rota.JobCompleted) || v.growth == nil || v.growth.content == rota.Digest{}) {
			c.fault("I5: vertex %d of workflow %s is %s and grew %v", n, r.id, v.state, *s)
		}
		by, grown := v.grownBy()
		if !grown {
			continue
		}
		if by >= v.number || len(v.parents) == 0 {
			c.fault("I5: vertex %d of workflow %s was grown by %d and has parents %v", n, r.id, by, v.parents)
			continue
		}
		s = want[by]
		if s == nil {
			s = &sprouts{}
			want[by] = s
		}
		s.first = v.number
		s.n++
		if v.joins() && !through[n] {
			s.open++
		}
		if v.joins() && lost[n] {
			s.lost++
		}
		if v.joins() && !settled[n] {
			s.unsettled++
		}
	}
	return through, lost, settled
}

// vertex checks one vertex and its counters.
func (c *checker) vertex(f *flow, r *workflowRow, v *vertexRow, through, spoilt, settled []bool) {
	m, number := c.m, v.number
	name := vertexName(v)
	if at, ok := f.byName[name]; !ok || at != number || v.number != number || v != m.flows.vertices.get(vertexKey(r.id, number)) ||
		v.spec.ID != rota.NodeJobID(r.id, name) || v.spec.Tenant != r.tenant {
		c.fault("I4: vertex %d of workflow %s, node %q, is filed otherwise than its row says", number, r.id, name)
	}
	waiting, lost, open := uint32(0), uint32(0), uint32(0)
	for i, p := range v.parents {
		if p >= number || i > 0 && p <= v.parents[i-1] {
			c.fault("I5: vertex %d of workflow %s has parent %d", number, r.id, p)
			return
		}
		if v.awaits(p) && !settled[p] {
			open++
		}
		switch {
		case through[p] || !v.awaits(p):
		case spoilt[p]:
			lost++
			fallthrough
		default:
			waiting++
		}
	}
	if waiting != f.waiting[number] || lost != f.lost[number] || open != f.open[number] {
		c.fault("I4: vertex %d of workflow %s waits for %d parents, of which %d have not ended, and lost %d; counted are %d, %d and %d", number,
			r.id, waiting, open, lost, f.waiting[number], f.open[number], f.lost[number])
	}
	due := r.state == rota.WorkflowRunning && (r.ending == rota.WorkflowNone || v.outlives(r.ending)) && f.due(r, v) ||
		r.state == rota.WorkflowOpen && waiting == 0
	if f.work.Contains(number) != due {
		c.fault("I5: vertex %d of workflow %s waits for %d parents, and is to be processed: %v", number, r.id, waiting, !due)
	}
	last := uint32(0)
	for i, child := range f.children[number] {
		if i > 0 && child <= last || int(child) >= len(f.rows) {
			c.fault("I4: vertex %d of workflow %s has child %d after %d", number, r.id, child, last)
		}
		last = child
	}
	if v.finished.Clock > m.head.clock || v.assigned.Clock > m.head.clock || v.finishedAt > m.head.index || v.over() == v.finished.IsZero() {
		c.fault("I6: vertex %d of workflow %s is %s and ended at %d, in entry %d", number, r.id, v.state, v.finished.Clock, v.finishedAt)
	}
	if v.state != vertexBlocked && v.state != vertexLive && !v.over() || r.state == rota.WorkflowOpen && v.state != vertexBlocked {
		c.fault("I5: vertex %d of workflow %s, which is %s, is %s", number, r.id, r.state, v.state)
	}
	if j := m.jobs.get(v.spec.ID); (v.state == vertexLive) != (j != nil && j.workflow == r.id && j.vertex == number) {
		c.fault("I5: vertex %d of workflow %s is %s, it has a job: %v", number, r.id, v.state, j != nil)
	}
}

// vertices checks that every vertex is of a workflow.
func (c *checker) vertices() {
	m := c.m
	total := 0
	m.flows.workflows.scan(func(_ rota.WorkflowID, r *workflowRow) bool {
		total += int(r.added)
		if r.leaving {
			total -= int(r.cursor)
		}
		return true
	})
	if n := m.flows.vertices.len(); n != total {
		c.fault("I4: there are %d vertices, their workflows have %d", n, total)
	}
}

// nodeJobs checks that the jobs of nodes are of live vertices, and share what those
// say.
func (c *checker) nodeJobs() {
	m := c.m
	m.jobs.scan(func(id rota.JobID, j *jobRow) bool {
		_, _, node := rota.SplitNodeJobID(id)
		if node != (j.workflow != "") {
			c.fault("I5: job %s is of workflow %q", id, j.workflow)
		}
		if j.workflow == "" {
			return true
		}
		if f := m.flows.flowIndex.byID[j.workflow]; f == nil || int(j.vertex) >= len(f.rows) || f.rows[j.vertex].spec != j.spec ||
			f.rows[j.vertex].state != vertexLive || j.state == rota.JobBlocked {
			c.fault("I5: job %s is %s and not that of vertex %d of workflow %s", id, j.state, j.vertex, j.workflow)
		}
		return true
	})
}

// blocked adds the waiting vertices of RUNNING workflows to a recount of queues.
func (c *checker) blocked(counts map[rota.QueueName]*queueRow) {
	m := c.m
	m.flows.vertices.scan(func(_ string, v *vertexRow) bool {
		r := m.flows.workflows.get(v.workflow)
		if r == nil {
			c.fault("I4: vertex %d is of unknown workflow %s", v.number, v.workflow)
		} else if q := counts[v.spec.Queue]; q == nil {
			c.fault("I4: vertex %d of workflow %s is of unknown queue %s", v.number, v.workflow, v.spec.Queue)
		} else if r.state == rota.WorkflowRunning && v.state == vertexBlocked {
			q.blocked++
		}
		return true
	})
}
