package fsm

import (
	"encoding/binary"
	"maps"
	"slices"

	"fmt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/internal/limits"
	"github.com/zeebo/xxh3"
)

// workflowRow is one workflow (SPEC §11). Its nodes are vertices here, as a node is
// a server.
type workflowRow struct {
	rowMeta
	id rota.WorkflowID
	// seq numbers workflows in the order in which they were opened.
	seq    uint64
	queue  rota.QueueName
	tenant rota.TenantID
	policy rota.FailurePolicy
	labels map[string]string
	// content stands for all that the submitter says: an upload that broke off goes on
	// only with the same.
	content rota.Digest
	state   rota.WorkflowState
	// nodes and edges as announced; added counts the nodes that have arrived, linked
	// the edges, bytes what their specs hold.
	nodes, added  uint32
	edges, linked uint64
	bytes         int64
	// touched is when nodes last arrived, while OPEN.
	touched rota.Clock
	// runs counts the submission and every retry.
	runs int32
	// ending is what it will be once nothing of it runs, WorkflowNone as long as it
	// may complete and once it is over; failed is the first node that did not complete
	// in this run, and reason why: ReasonNone where none failed.
	ending rota.WorkflowState
	failed uint32
	reason rota.Reason
	// cursor is the next vertex that a pass over all of them comes to: the end of a run
	// (ending), a retry (redo), or the end of the whole row (leaving). Such work goes on
	// over many entries. A pass at nodes is over.
	cursor  uint32
	leaving bool
	// redo says that a retry still takes vertices back to Blocked; from is one more than
	// the number of the vertex that the retry named, 0 for all; was is the state before.
	redo bool
	from uint32
	was  rota.WorkflowState
	// Nodes by how they stand: live ones have a job; the others are over. Invariant I4:
	// what the vertex rows say.
	blocked, live, completed, dead, expired, cancelled, skipped uint32
	// waiting are those blocked ones that are gates and wait for their signal.
	waiting uint32
	// unneeded are those skipped ones that were to run on a failure which did not come; never by rules version 1.
	unneeded uint32

	submitted, finished rota.Moment
	// due is the date on which it is forgotten, by its queue's gc_horizon as it ended; 0
	// where it has not.
	due rota.Date
	// started is when this run began: the commit, or the last retry. Times to live
	// count from it.
	started   rota.Moment
	lastEvent rota.EventID
	// by is who submitted it.
	by rota.Principal
}

// lives reports whether it has not ended, and counts for who submitted it.
func (r *workflowRow) lives() bool { return !r.state.Terminal() && !r.leaving }

func (r *workflowRow) canonical(e *encoder) {
	e.str(string(r.id))
	e.uint(r.seq)
	e.str(string(r.queue))
	e.str(string(r.tenant))
	e.uint(uint64(r.policy))
	e.uint(uint64(len(r.labels)))
	if len(r.labels) > 0 {
		for _, k := range slices.Sorted(maps.Keys(r.labels)) {
			e.str(k)
			e.str(r.labels[k])
		}
	}
	e.digest(r.content)
	e.uint(uint64(r.state))
	for _, n := range []uint32{r.nodes, r.added, r.failed, r.cursor, r.blocked, r.live, r.completed, r.dead, r.expired,
		r.cancelled, r.skipped, r.waiting} {
		e.uint(uint64(n))
	}
	e.uint(r.edges)
	e.uint(r.linked)
	e.int(r.bytes)
	e.int(int64(r.touched))
	e.int(int64(r.runs))
	e.uint(uint64(r.ending))
	e.uint(uint64(r.reason))
	e.bool(r.leaving)
	e.moment(r.submitted)
	e.moment(r.finished)
	e.eventID(r.lastEvent)
	e.bool(r.redo)
	e.uint(uint64(r.from))
	e.uint(uint64(r.was))
	e.moment(r.started)
	e.int(int64(r.due))
	e.str(string(r.by))
	if r.unneeded != 0 {
		e.uint(uint64(r.unneeded))
	}
}

func decodeWorkflow(d *decoder) *workflowRow {
	r := &workflowRow{id: rota.WorkflowID(d.str()), seq: d.uint(), queue: rota.QueueName(d.str()), tenant: rota.TenantID(d.str()),
		policy: rota.FailurePolicy(d.enum(uint64(rota.FailureContinue)))}
	if n := d.count(rota.MaxLabels); n > 0 {
		r.labels = make(map[string]string, n)
		for range n {
			k := d.str()
			r.labels[k] = d.str()
		}
	}
	r.content = d.digest()
	r.state = rota.WorkflowState(d.enum(uint64(rota.WorkflowCancelled)))
	for _, p := range []*uint32{&r.nodes, &r.added, &r.failed, &r.cursor, &r.blocked, &r.live, &r.completed, &r.dead, &r.expired,
		&r.cancelled, &r.skipped, &r.waiting} {
		*p = uint32(d.enum(rota.MaxWorkflowNodes))
	}
	r.edges, r.linked = d.enum(rota.MaxWorkflowEdges), d.enum(rota.MaxWorkflowEdges)
	r.bytes = d.int()
	r.touched = rota.Clock(d.int())
	r.runs = int32(d.int())
	r.ending = rota.WorkflowState(d.enum(uint64(rota.WorkflowCancelled)))
	r.reason = rota.Reason(d.enum(uint64(rota.ReasonLast)))
	r.leaving = d.bool()
	r.submitted, r.finished = d.moment(), d.moment()
	r.lastEvent = d.eventID()
	r.redo = d.bool()
	r.from = uint32(d.enum(rota.MaxWorkflowNodes))
	r.was = rota.WorkflowState(d.enum(uint64(rota.WorkflowCancelled)))
	r.started = d.moment()
	r.due = rota.Date(d.int())
	r.by = rota.Principal(d.str())
	if len(d.b) > 0 {
		if r.unneeded = uint32(d.enum(rota.MaxWorkflowNodes)); r.unneeded == 0 {
			d.fail()
		}
	}
	return r
}

// vertexRow is one node of a workflow. Vertices are numbered in topological order,
// so that every parent has a smaller number: no cycle can be told (Invariant I5).
type vertexRow struct {
	rowMeta
	// key is the vertexKey, by which the row is found.
	key      string
	workflow rota.WorkflowID
	// spec, parents, run and the gate's own terms never change; shape stands for them in the row's canonical
	// bytes. Parents ascend.
	spec    *keptSpec
	parents []uint32
	shape   rota.Digest
	// number and three more stand together, as they fill two words so.
	number uint32
	// state is Blocked until its parents have completed, vertexLive while it has a job,
	// then how it ended.
	state rota.NodeState
	run   rota.NodeRun
	// Of the last attempt: its worker and number, when and at which index it was
	// assigned. Then when it ended and why; runs counts the jobs that were made of it.
	reason     rota.Reason
	attempt    int32
	runs       int32
	worker     rota.WorkerID
	assigned   rota.Moment
	assignedAt rota.Index
	finished   rota.Moment
	finishedAt rota.Index
	// past are the attempts of a node that did not COMPLETE, for a retry of the workflow to
	// bring along (SPEC §16.6); nil for most. It is replaced, never changed.
	past *nodePast
	// gate is what makes it a gate; nil for most. It is replaced, never changed.
	gate *gate
	// growth is nil for most: see there.
	growth *growth
	// freeAt is as in a tombstone.
	freeAt rota.Clock
	// shapeBytes counts the bytes that shape stands for.
	shapeBytes uint32
}

// nodePast are the newest attempts of all lives of a node's jobs.
type nodePast struct{ attempts []rota.Attempt }

func (p *nodePast) list() []rota.Attempt {
	if p == nil {
		return nil
	}
	return p.attempts
}

// vertexBlocked says that the vertex waits for parents, or for its release in the
// next entries; vertexLive that it has a job, which knows the state.
const (
	vertexBlocked = rota.NodeState(rota.JobBlocked)
	vertexLive    = rota.NodeState(rota.JobQueued)
)

// over reports whether the vertex has ended; lost that it did so otherwise than well.
func (r *vertexRow) over() bool { return r.state >= rota.NodeState(rota.JobCompleted) }
func (r *vertexRow) lost() bool { return r.state > rota.NodeState(rota.JobCompleted) }

// count returns the counter of the vertices that stand as a state says.
func (r *workflowRow) count(s rota.NodeState) *uint32 {
	switch s {
	case vertexBlocked:
		return &r.blocked
	case rota.NodeState(rota.JobCompleted):
		return &r.completed
	case rota.NodeState(rota.JobDead):
		return &r.dead
	case rota.NodeState(rota.JobExpired):
		return &r.expired
	case rota.NodeState(rota.JobCancelled):
		return &r.cancelled
	case rota.NodeSkipped:
		return &r.skipped
	default:
		return &r.live
	}
}

// passing reports whether a pass over the vertices is under way.
func (r *workflowRow) passing() bool {
	return r.state == rota.WorkflowRunning && (r.redo || r.ending != rota.WorkflowNone) && r.cursor < r.nodes
}

func (r *vertexRow) canonical(e *encoder) {
	e.str(string(r.workflow))
	e.uint(uint64(r.number))
	e.digest(r.shape)
	e.uint(uint64(r.state))
	e.str(string(r.worker))
	e.int(int64(r.attempt))
	e.moment(r.assigned)
	e.uint(uint64(r.assignedAt))
	e.moment(r.finished)
	e.uint(uint64(r.finishedAt))
	e.uint(uint64(r.reason))
	e.int(int64(r.runs))
	e.int(int64(r.freeAt))
	encodeAttempts(e, r.past.list())
	r.gate.canonical(e)
	r.growth.canonical(e)
}

// encodeShape is what never changes of a vertex: it precedes the row in snapshots.
func encodeShape(e *encoder, s *keptSpec, parents []uint32, run rota.NodeRun, terms *rota.Gate) {
	encodeSpec(e, s)
	encodeTerms(e, run, terms)
	e.uint(uint64(len(parents)))
	last := uint32(0)
	for _, p := range parents {
		e.uint(uint64(p - last))
		last = p
	}
}

func hashShape(e *encoder, s *keptSpec, parents []uint32, run rota.NodeRun, terms *rota.Gate) rota.Digest {
	e.b = e.b[:0]
	encodeShape(e, s, parents, run, terms)
	return hashBytes(e.b)
}

func decodeVertex(d *decoder) *vertexRow {
	r := &vertexRow{spec: decodeSpec(d)}
	r.run, r.gate = decodeTerms(d)
	n := d.count(rota.MaxWorkflowNodes)
	r.parents = make([]uint32, 0, min(int(n), len(d.b)))
	last := uint64(0)
	for i := range n {
		step := d.enum(rota.MaxWorkflowNodes)
		if last += step; i > 0 && step == 0 || last >= rota.MaxWorkflowNodes || d.err != nil {
			d.fail()
			return r
		}
		r.parents = append(r.parents, uint32(last))
	}
	enc := d.specs.encoder()
	r.shape = hashShape(enc, r.spec, r.parents, r.run, r.gate.own())
	r.shapeBytes = uint32(len(enc.b))
	r.workflow = rota.WorkflowID(d.str())
	r.number = uint32(d.enum(rota.MaxWorkflowNodes - 1))
	r.key = vertexKey(r.workflow, r.number)
	if d.digest() != r.shape || n > 0 && last >= uint64(r.number) {
		d.fail()
	}
	r.state = rota.NodeState(d.enum(uint64(rota.NodeSkipped)))
	r.worker = rota.WorkerID(d.str())
	r.attempt = int32(d.int())
	r.assigned, r.assignedAt = d.moment(), rota.Index(d.uint())
	r.finished, r.finishedAt = d.moment(), rota.Index(d.uint())
	r.reason = rota.Reason(d.enum(uint64(rota.ReasonLast)))
	r.runs = int32(d.int())
	r.freeAt = rota.Clock(d.int())
	if list := decodeAttempts(d); len(list) > 0 {
		r.past = &nodePast{list}
	}
	r.gate.decode(d)
	r.growth = decodeGrowth(d)
	return r
}

// vertexKey orders vertices by workflow, then number. No id holds a zero byte.
func vertexKey(w rota.WorkflowID, number uint32) string {
	b := make([]byte, 0, len(w)+5)
	b = append(append(b, w...), 0)
	return string(binary.BigEndian.AppendUint32(b, number))
}

// WorkflowContent stands for all that a submitter says of a workflow, nodes and
// edges too, but for headers: two submissions with the same go on with one upload.
func WorkflowContent(w *rota.WorkflowSpec, g *rota.Graph) [16]byte {
	h := xxh3.New()
	e := &encoder{}
	e.str(string(w.ID))
	e.str(string(entry.WorkflowQueue(w)))
	e.str(string(entry.WorkflowTenant(w)))
	e.uint(uint64(w.OnFailure))
	e.uint(uint64(len(w.Labels)))
	for _, k := range slices.Sorted(maps.Keys(w.Labels)) {
		e.str(k)
		e.str(w.Labels[k])
	}
	e.uint(uint64(len(g.Order)))
	_, _ = h.Write(e.b) // a hash never fails
	var kept specs
	for k, at := range g.Order {
		s := entry.Template(w, &w.Nodes[at])
		s.Headers = nil // no content
		e.b = e.b[:0]
		encodeShape(e, kept.keep(&s), g.Parents[k], w.Nodes[at].Run, w.Nodes[at].Gate)
		_, _ = h.Write(e.b)
	}
	return h.Sum128().Bytes()
}

// blamedBefore orders nodes that did not complete; of those of one entry the one of the lower number comes first.
func (v *vertexRow) blamedBefore(o *vertexRow) bool {
	if own := v.failedItself(); own != o.failedItself() {
		return own
	}
	return v.finishedAt < o.finishedAt
}

// difference says how the vertex differs from the node with its number.
func (r *vertexRow) difference(w *rota.WorkflowSpec, g *rota.Graph, k int) string {
	node := &w.Nodes[g.Order[k]]
	name := vertexName(r)
	if name != node.ID {
		return fmt.Sprintf("its node %d was %q, not %q", k, name, node.ID)
	}
	now, before := entry.Template(w, node), r.spec.words()
	now.ID, now.Tenant = before.ID, before.Tenant
	in := fmt.Sprintf("node %s differs: ", name)
	if how := now.Difference(&before); how != "" {
		return in + how
	}
	if !slices.Equal(r.parents, g.Parents[k]) {
		return in + "its parents were others"
	}
	if was, is := r.gate.own(), node.Gate; (was == nil) != (is == nil) || was != nil && *was != *is {
		return in + "its gate was another"
	}
	return ""
}

// failedItself reports whether a node that did not complete ended for a reason of its own.
func (v *vertexRow) failedItself() bool {
	switch v.reason {
	case rota.ReasonParentFailed, rota.ReasonWorkflowFailed, rota.ReasonWorkflowCancelled, rota.ReasonNotNeeded:
		return false
	}
	return true
}

// outlives reports whether a vertex runs in a workflow that ends so: what it waits for comes to its end all the same.
func (r *vertexRow) outlives(ending rota.WorkflowState) bool {
	return r.run == rota.RunAlways || r.run == rota.RunOnFailure && ending == rota.WorkflowFailed
}

// unneeded reports whether a vertex was skipped as it was to run on a failure that did not come.
func (r *vertexRow) unneeded() bool {
	return r.state == rota.NodeSkipped && r.reason == rota.ReasonNotNeeded
}

// endures reports whether a workflow is over, and kept until its date.
func (r *workflowRow) endures() bool { return r.state.Terminal() && !r.leaving }

// hidden reports whether nobody is told of a workflow: its nodes are still arriving, or it
// is being dropped.
func (r *workflowRow) hidden() bool { return r.state == rota.WorkflowOpen || r.leaving }

// lapses is when an upload is given up, 0 for never.
func (r *workflowRow) lapses() int64 {
	if r.state != rota.WorkflowOpen || r.leaving {
		return 0
	}
	return int64(r.touched + limits.UploadLapses)
}

// sound reports whether what a row that is kept tells of its state goes together.
func (r *workflowRow) sound() bool {
	whole := r.added == r.nodes && r.linked == r.edges
	if r.added > r.nodes || r.linked > r.edges || r.failed >= r.nodes || r.cursor > r.nodes || !r.redo && r.from != 0 {
		return false
	}
	if r.state != rota.WorkflowRunning && (r.ending != rota.WorkflowNone || r.redo || r.live > 0 || r.cursor != 0) {
		return false
	}
	switch r.state {
	case rota.WorkflowOpen:
		return r.runs == 0
	case rota.WorkflowRunning:
		ends := r.ending == rota.WorkflowFailed || r.ending == rota.WorkflowCancelled
		switch {
		case r.redo:
			return whole && r.runs > 1 && r.ending == rota.WorkflowNone && r.cursor < r.nodes
		case ends:
			return whole && r.runs > 0 && r.live+r.blocked > 0
		default:
			return whole && r.runs > 0 && r.live+r.blocked > 0 && r.ending == rota.WorkflowNone && r.cursor == 0
		}
	case rota.WorkflowCompleted:
		return whole && r.runs > 0 && r.completed+r.unneeded == r.nodes
	case rota.WorkflowFailed, rota.WorkflowCancelled:
		return whole && r.runs > 0 && r.blocked == 0 && r.completed+r.unneeded < r.nodes
	default:
		return false
	}
}

// why is the reason of a job that ends because its workflow does.
func (r *workflowRow) why() rota.Reason {
	if r.ending == rota.WorkflowCancelled {
		return rota.ReasonWorkflowCancelled
	}
	return rota.ReasonWorkflowFailed
}

// vertexName is the node's id within its workflow.
func vertexName(r *vertexRow) string { return string(r.spec.ID[len(r.workflow)+1:]) }
