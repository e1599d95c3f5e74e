package state

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/internal/limits"
	"github.com/zeebo/xxh3"
)

// WorkflowRow is one workflow (SPEC §11). Its nodes are called vertices here, as a node is a server.
type WorkflowRow struct {
	RowMeta
	ID rota.WorkflowID
	// Seq numbers workflows in the order in which they were opened.
	Seq    uint64
	Queue  rota.QueueName
	Tenant rota.TenantID
	Policy rota.FailurePolicy
	Labels map[string]string
	// Content is the hash of everything that the submitter specifies: an interrupted upload continues only with equal
	// content.
	Content rota.Digest
	State   rota.WorkflowState
	// Nodes and edges as announced. added counts the nodes that have arrived, linked the edges; bytes is the size of
	// their specs.
	Nodes, Added  uint32
	Edges, Linked uint64
	Bytes         int64
	// Touched is when nodes last arrived, while OPEN.
	Touched rota.Clock
	// Runs counts the submission and every retry.
	Runs int32
	// Ending is the state that it will have once nothing of it runs; WorkflowNone while it may still complete and once
	// it is over. failed is the first node that did not complete in this run and reason its reason, ReasonNone if none
	// failed.
	Ending rota.WorkflowState
	Failed uint32
	Reason rota.Reason
	// Cursor is the next vertex of a pass over all of them: the end of a run (ending), a retry (redo), or the end of
	// the whole row (leaving). A pass continues over many entries. It is over when the cursor equals nodes.
	Cursor  uint32
	Leaving bool
	// Redo reports that a retry still resets vertices to Blocked. from is one more than the number of the vertex that
	// the retry named, 0 for all; was is the state before.
	Redo bool
	From uint32
	Was  rota.WorkflowState
	// Counts of nodes by state: live ones have a job; the others are over. Invariant I4: equal to the vertex rows.
	Blocked, Live, Completed, Dead, Expired, Cancelled, Skipped uint32
	// Waiting counts the blocked nodes that are gates and wait for their signal.
	Waiting uint32
	// Unneeded counts the skipped nodes that run only on a failure, which did not occur; never under rules version 1.
	Unneeded uint32

	Submitted, Finished rota.Moment
	// Due is the date on which it is forgotten, by its queue's gc_horizon when it ended; 0 if it has not ended.
	Due rota.Date
	// Started is when this run began: the commit, or the last retry. Times to live count from it.
	Started   rota.Moment
	LastEvent rota.EventID
	// By is its submitter.
	By rota.Principal
}

// Lives reports whether it has not ended, and counts for its submitter.
func (r *WorkflowRow) Lives() bool { return !r.State.Terminal() && !r.Leaving }

// Canonical appends the canonical form for digests and snapshots.
func (r *WorkflowRow) Canonical(e *Encoder) {
	e.Str(string(r.ID))
	e.Uint(r.Seq)
	e.Str(string(r.Queue))
	e.Str(string(r.Tenant))
	e.Uint(uint64(r.Policy))
	e.Uint(uint64(len(r.Labels)))
	if len(r.Labels) > 0 {
		for _, k := range slices.Sorted(maps.Keys(r.Labels)) {
			e.Str(k)
			e.Str(r.Labels[k])
		}
	}
	e.digest(r.Content)
	e.Uint(uint64(r.State))
	for _, n := range []uint32{r.Nodes, r.Added, r.Failed, r.Cursor, r.Blocked, r.Live, r.Completed, r.Dead, r.Expired,
		r.Cancelled, r.Skipped, r.Waiting} {
		e.Uint(uint64(n))
	}
	e.Uint(r.Edges)
	e.Uint(r.Linked)
	e.Int(r.Bytes)
	e.Int(int64(r.Touched))
	e.Int(int64(r.Runs))
	e.Uint(uint64(r.Ending))
	e.Uint(uint64(r.Reason))
	e.Bool(r.Leaving)
	e.Moment(r.Submitted)
	e.Moment(r.Finished)
	e.eventID(r.LastEvent)
	e.Bool(r.Redo)
	e.Uint(uint64(r.From))
	e.Uint(uint64(r.Was))
	e.Moment(r.Started)
	e.Int(int64(r.Due))
	e.Str(string(r.By))
	if r.Unneeded != 0 {
		e.Uint(uint64(r.Unneeded))
	}
}

// DecodeWorkflow reads what Canonical wrote.
func DecodeWorkflow(d *Decoder) *WorkflowRow {
	r := &WorkflowRow{ID: rota.WorkflowID(d.Str()), Seq: d.Uint(), Queue: rota.QueueName(d.Str()),
		Tenant: rota.TenantID(d.Str()),
		Policy: rota.FailurePolicy(d.Enum(uint64(rota.FailureContinue)))}
	if n := d.Count(rota.MaxLabels); n > 0 {
		r.Labels = make(map[string]string, n)
		for range n {
			k := d.Str()
			r.Labels[k] = d.Str()
		}
	}
	r.Content = d.digest()
	r.State = rota.WorkflowState(d.Enum(uint64(rota.WorkflowCancelled)))
	for _, p := range []*uint32{&r.Nodes, &r.Added, &r.Failed, &r.Cursor, &r.Blocked, &r.Live, &r.Completed, &r.Dead,
		&r.Expired,
		&r.Cancelled, &r.Skipped, &r.Waiting} {
		*p = uint32(d.Enum(rota.MaxWorkflowNodes))
	}
	r.Edges, r.Linked = d.Enum(rota.MaxWorkflowEdges), d.Enum(rota.MaxWorkflowEdges)
	r.Bytes = d.Int()
	r.Touched = rota.Clock(d.Int())
	r.Runs = int32(d.Int())
	r.Ending = rota.WorkflowState(d.Enum(uint64(rota.WorkflowCancelled)))
	r.Reason = rota.Reason(d.Enum(uint64(rota.ReasonLast)))
	r.Leaving = d.Bool()
	r.Submitted, r.Finished = d.Moment(), d.Moment()
	r.LastEvent = d.eventID()
	r.Redo = d.Bool()
	r.From = uint32(d.Enum(rota.MaxWorkflowNodes))
	r.Was = rota.WorkflowState(d.Enum(uint64(rota.WorkflowCancelled)))
	r.Started = d.Moment()
	r.Due = rota.Date(d.Int())
	r.By = rota.Principal(d.Str())
	if len(d.B) > 0 {
		if r.Unneeded = uint32(d.Enum(rota.MaxWorkflowNodes)); r.Unneeded == 0 {
			d.Fail()
		}
	}
	return r
}

// VertexRow is one node of a workflow. Vertices are numbered in topological order, so every parent has a smaller number
// and a cycle cannot be expressed (Invariant I5).
type VertexRow struct {
	RowMeta
	// Key is the vertexKey, the key of the row.
	Key      string
	Workflow rota.WorkflowID
	// Spec, parents, run and the gate's own terms never change; their hash, shape, replaces them in the row's canonical
	// bytes. Parents ascend.
	Spec    *KeptSpec
	Parents []uint32
	Shape   rota.Digest
	// Number and the next three fields are adjacent to fill exactly two words.
	Number uint32
	// State is Blocked until its parents have completed, vertexLive while it has a job, then how it ended.
	State rota.NodeState
	Run   rota.NodeRun
	// Fields of the last attempt: its worker and number, when and at which index it was assigned, then when and why it
	// ended. runs counts the jobs that were made of the vertex.
	Reason     rota.Reason
	Attempt    int32
	Runs       int32
	Worker     rota.WorkerID
	Assigned   rota.Moment
	AssignedAt rota.Index
	Finished   rota.Moment
	FinishedAt rota.Index
	// Past holds the attempts of a node that did not COMPLETE, which a retry of the workflow keeps (SPEC §16.6); nil
	// for most. It is replaced, never changed.
	Past *NodePast
	// Gate is set for a gate; nil for most. It is replaced, never changed.
	Gate *Gate
	// Growth is nil for most; see Growth.
	Growth *Growth
	// FreeAt is the same as in a tombstone.
	FreeAt rota.Clock
	// ShapeBytes is the size of the data that shape is the hash of.
	ShapeBytes uint32
}

// NodePast holds the newest attempts of all lives of a node's jobs, and what they have spent.
type NodePast struct {
	Attempts []rota.Attempt
	Spent    rota.Costs
}

// Costs returns what earlier lives have spent; nil if p is nil.
func (p *NodePast) Costs() rota.Costs {
	if p == nil {
		return nil
	}
	return p.Spent
}

// List returns the attempts of earlier lives; none if p is nil.
func (p *NodePast) List() []rota.Attempt {
	if p == nil {
		return nil
	}
	return p.Attempts
}

// VertexBlocked means that the vertex waits for parents, or for its release in the next entries; vertexLive that it has
// a job, whose row has the state.
const (
	VertexBlocked = rota.NodeState(rota.JobBlocked)
	VertexLive    = rota.NodeState(rota.JobQueued)
)

// Over reports whether the vertex has ended.
func (r *VertexRow) Over() bool { return r.State >= rota.NodeState(rota.JobCompleted) }

// Lost reports whether the node ended in any state but COMPLETED.
func (r *VertexRow) Lost() bool { return r.State > rota.NodeState(rota.JobCompleted) }

// Count returns the counter of the vertices in a state.
func (r *WorkflowRow) Count(s rota.NodeState) *uint32 {
	switch s {
	case VertexBlocked:
		return &r.Blocked
	case rota.NodeState(rota.JobCompleted):
		return &r.Completed
	case rota.NodeState(rota.JobDead):
		return &r.Dead
	case rota.NodeState(rota.JobExpired):
		return &r.Expired
	case rota.NodeState(rota.JobCancelled):
		return &r.Cancelled
	case rota.NodeSkipped:
		return &r.Skipped
	default:
		return &r.Live
	}
}

// Passing reports whether a pass over the vertices is in progress.
func (r *WorkflowRow) Passing() bool {
	return r.State == rota.WorkflowRunning && (r.Redo || r.Ending != rota.WorkflowNone) && r.Cursor < r.Nodes
}

// Canonical appends the canonical form for digests and snapshots.
func (r *VertexRow) Canonical(e *Encoder) {
	e.Str(string(r.Workflow))
	e.Uint(uint64(r.Number))
	e.digest(r.Shape)
	e.Uint(uint64(r.State))
	e.Str(string(r.Worker))
	e.Int(int64(r.Attempt))
	e.Moment(r.Assigned)
	e.Uint(uint64(r.AssignedAt))
	e.Moment(r.Finished)
	e.Uint(uint64(r.FinishedAt))
	e.Uint(uint64(r.Reason))
	e.Int(int64(r.Runs))
	e.Int(int64(r.FreeAt))
	EncodeAttempts(e, r.Past.List())
	r.Gate.canonical(e)
	r.Growth.canonical(e)
	if spent := r.Past.Costs(); len(spent) > 0 { // never under rules version 1
		encodeLimits(e, spent)
	}
}

// EncodeShape writes the parts of a vertex that never change; they precede the row in snapshots.
func EncodeShape(e *Encoder, s *KeptSpec, parents []uint32, run rota.NodeRun, terms *rota.Gate) {
	EncodeSpec(e, s)
	encodeTerms(e, run, terms)
	e.Uint(uint64(len(parents)))
	last := uint32(0)
	for _, p := range parents {
		e.Uint(uint64(p - last))
		last = p
	}
}

// HashShape hashes everything that a submitter specifies about a node: its spec, parents, run condition and gate.
func HashShape(e *Encoder, s *KeptSpec, parents []uint32, run rota.NodeRun, terms *rota.Gate) rota.Digest {
	e.B = e.B[:0]
	EncodeShape(e, s, parents, run, terms)
	return HashBytes(e.B)
}

// DecodeVertex reads what Canonical wrote.
func DecodeVertex(d *Decoder) *VertexRow {
	r := &VertexRow{Spec: decodeSpec(d)}
	r.Run, r.Gate = decodeTerms(d)
	n := d.Count(rota.MaxWorkflowNodes)
	r.Parents = make([]uint32, 0, min(int(n), len(d.B)))
	last := uint64(0)
	for i := range n {
		step := d.Enum(rota.MaxWorkflowNodes)
		if last += step; i > 0 && step == 0 || last >= rota.MaxWorkflowNodes || d.Err != nil {
			d.Fail()
			return r
		}
		r.Parents = append(r.Parents, uint32(last))
	}
	enc := d.Specs.encoder()
	r.Shape = HashShape(enc, r.Spec, r.Parents, r.Run, r.Gate.Own())
	r.ShapeBytes = uint32(len(enc.B))
	r.Workflow = rota.WorkflowID(d.Str())
	r.Number = uint32(d.Enum(rota.MaxWorkflowNodes - 1))
	r.Key = VertexKey(r.Workflow, r.Number)
	if d.digest() != r.Shape || n > 0 && last >= uint64(r.Number) {
		d.Fail()
	}
	r.State = rota.NodeState(d.Enum(uint64(rota.NodeSkipped)))
	r.Worker = rota.WorkerID(d.Str())
	r.Attempt = int32(d.Int())
	r.Assigned, r.AssignedAt = d.Moment(), rota.Index(d.Uint())
	r.Finished, r.FinishedAt = d.Moment(), rota.Index(d.Uint())
	r.Reason = rota.Reason(d.Enum(uint64(rota.ReasonLast)))
	r.Runs = int32(d.Int())
	r.FreeAt = rota.Clock(d.Int())
	if list := DecodeAttempts(d); len(list) > 0 {
		r.Past = &NodePast{Attempts: list}
	}
	r.Gate.decode(d)
	r.Growth = decodeGrowth(d)
	if spent := decodeSpent(d); spent != nil {
		r.Past = &NodePast{r.Past.List(), spent}
	}
	return r
}

// VertexKey returns a key that orders vertices by workflow, then number. No id contains a zero byte.
func VertexKey(w rota.WorkflowID, number uint32) string {
	b := make([]byte, 0, len(w)+5)
	b = append(append(b, w...), 0)
	return string(binary.BigEndian.AppendUint32(b, number))
}

// WorkflowContent returns the hash of everything that a submitter specifies about a workflow, nodes and edges included,
// headers excluded: two submissions with equal content continue one upload.
func WorkflowContent(w *rota.WorkflowSpec, g *rota.Graph) [16]byte {
	h := xxh3.New()
	e := &Encoder{}
	e.Str(string(w.ID))
	e.Str(string(entry.WorkflowQueue(w)))
	e.Str(string(entry.WorkflowTenant(w)))
	e.Uint(uint64(w.OnFailure))
	e.Uint(uint64(len(w.Labels)))
	for _, k := range slices.Sorted(maps.Keys(w.Labels)) {
		e.Str(k)
		e.Str(w.Labels[k])
	}
	e.Uint(uint64(len(g.Order)))
	_, _ = h.Write(e.B) // a hash never fails
	var kept Specs
	for k, at := range g.Order {
		s := entry.Template(w, &w.Nodes[at])
		s.Headers = nil // not part of the content
		e.B = e.B[:0]
		EncodeShape(e, kept.Keep(&s), g.Parents[k], w.Nodes[at].Run, w.Nodes[at].Gate)
		_, _ = h.Write(e.B)
	}
	return h.Sum128().Bytes()
}

// BlamedBefore orders nodes that did not complete; within one entry the lower number comes first.
func (v *VertexRow) BlamedBefore(o *VertexRow) bool {
	if own := v.FailedItself(); own != o.FailedItself() {
		return own
	}
	return v.FinishedAt < o.FinishedAt
}

// Difference returns how the vertex differs from the node with its number.
func (r *VertexRow) Difference(w *rota.WorkflowSpec, g *rota.Graph, k int) string {
	node := &w.Nodes[g.Order[k]]
	name := VertexName(r)
	if name != node.ID {
		return fmt.Sprintf("its node %d was %q, not %q", k, name, node.ID)
	}
	now, before := entry.Template(w, node), r.Spec.Words()
	now.ID, now.Tenant = before.ID, before.Tenant
	in := fmt.Sprintf("node %s differs: ", name)
	if how := now.Difference(&before); how != "" {
		return in + how
	}
	if !slices.Equal(r.Parents, g.Parents[k]) {
		return in + "its parents were others"
	}
	if was, is := r.Gate.Own(), node.Gate; (was == nil) != (is == nil) || was != nil && *was != *is {
		return in + "its gate was another"
	}
	return ""
}

// FailedItself reports whether a node that did not complete ended for a reason of its own.
func (v *VertexRow) FailedItself() bool {
	switch v.Reason {
	case rota.ReasonParentFailed, rota.ReasonWorkflowFailed, rota.ReasonWorkflowCancelled, rota.ReasonNotNeeded:
		return false
	}
	return true
}

// Outlives reports whether a vertex still runs in a workflow with this ending: everything that it waits for ends in any
// case.
func (r *VertexRow) Outlives(ending rota.WorkflowState) bool {
	return r.Run == rota.RunAlways || r.Run == rota.RunOnFailure && ending == rota.WorkflowFailed
}

// Unneeded reports whether a vertex was skipped because it runs only on a failure, which did not occur.
func (r *VertexRow) Unneeded() bool {
	return r.State == rota.NodeSkipped && r.Reason == rota.ReasonNotNeeded
}

// Endures reports whether a workflow is over, and kept until its date.
func (r *WorkflowRow) Endures() bool { return r.State.Terminal() && !r.Leaving }

// Hidden reports whether a workflow is invisible to callers: its nodes are still arriving, or it is being dropped.
func (r *WorkflowRow) Hidden() bool { return r.State == rota.WorkflowOpen || r.Leaving }

// Lapses returns when an upload is abandoned, 0 for never.
func (r *WorkflowRow) Lapses() int64 {
	if r.State != rota.WorkflowOpen || r.Leaving {
		return 0
	}
	return int64(r.Touched + limits.UploadLapses)
}

// Sound reports whether the state fields of a kept row are consistent.
func (r *WorkflowRow) Sound() bool {
	whole := r.Added == r.Nodes && r.Linked == r.Edges
	if r.Added > r.Nodes || r.Linked > r.Edges || r.Failed >= r.Nodes || r.Cursor > r.Nodes || !r.Redo && r.From != 0 {
		return false
	}
	if r.State != rota.WorkflowRunning && (r.Ending != rota.WorkflowNone || r.Redo || r.Live > 0 || r.Cursor != 0) {
		return false
	}
	switch r.State {
	case rota.WorkflowOpen:
		return r.Runs == 0
	case rota.WorkflowRunning:
		ends := r.Ending == rota.WorkflowFailed || r.Ending == rota.WorkflowCancelled
		switch {
		case r.Redo:
			return whole && r.Runs > 1 && r.Ending == rota.WorkflowNone && r.Cursor < r.Nodes
		case ends:
			return whole && r.Runs > 0 && r.Live+r.Blocked > 0
		default:
			return whole && r.Runs > 0 && r.Live+r.Blocked > 0 && r.Ending == rota.WorkflowNone && r.Cursor == 0
		}
	case rota.WorkflowCompleted:
		return whole && r.Runs > 0 && r.Completed+r.Unneeded == r.Nodes
	case rota.WorkflowFailed, rota.WorkflowCancelled:
		return whole && r.Runs > 0 && r.Blocked == 0 && r.Completed+r.Unneeded < r.Nodes
	default:
		return false
	}
}

// Why returns the reason of a job that ends because its workflow does.
func (r *WorkflowRow) Why() rota.Reason {
	if r.Ending == rota.WorkflowCancelled {
		return rota.ReasonWorkflowCancelled
	}
	return rota.ReasonWorkflowFailed
}

// VertexName returns the node's id within its workflow.
func VertexName(r *VertexRow) string { return string(r.Spec.ID[len(r.Workflow)+1:]) }
