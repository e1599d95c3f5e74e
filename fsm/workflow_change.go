package fsm

import (
	"fmt"
	"strconv"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/refuse"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
	"google.golang.org/protobuf/proto"
)

// growing checks the children that a completion carries, and takes their classes; nil if it carries none. It changes
// nothing else, and refuses all or nothing: the lease is still open.
func (fs *flows) growing(l *state.LeaseRow, op *fsmpb.LeaseOp) (*chunk, error) {
	encoded := op.GetChildren()
	if len(encoded) == 0 {
		return nil, nil
	}
	j := fs.s.JobTable.Get(l.Job)
	if j.Workflow == "" {
		return nil, rota.Refusef(rota.KindInvalid, "children",
			"job %s is not a node of a workflow: only such a job can have children", l.Job)
	}
	if n := len(encoded); n > limits.MaxChildrenBytes {
		return nil, rota.Refusef(rota.KindInvalid, "children",
			"children too long: got %d bytes, maximum %d; let payloads name large data "+
				"instead of holding it", n, limits.MaxChildrenBytes)
	}
	var g fsmpb.Growth
	if err := proto.Unmarshal(encoded, &g); err != nil {
		return nil, rota.Refusef(rota.KindInvalid, "children",
			"children cannot be read: send an encoded Growth, as the client library makes it")
	}
	if needs := entry.GrowthNeeds(&g); needs > fs.s.Header.Rules {
		return nil, rota.Refusef(rota.KindConflict, SubjectRules,
			"a child needs rules version %d, version %d is in force", needs, fs.s.Header.Rules)
	}
	n := len(g.GetNodes())
	if n == 0 || n > rota.MaxChildren {
		return nil, rota.Refusef(rota.KindInvalid, "children", "children: got %d, want 1 to %d", n, rota.MaxChildren)
	}
	r, f := fs.workflows.Get(j.Workflow), fs.flowIndex.byID[j.Workflow]
	c := &chunk{fs: fs, r: r, f: f, names: make(map[string]bool, n), grower: f.rows[j.Vertex],
		content: state.HashBytes(encoded)}
	switch {
	case r.Ending != rota.WorkflowNone:
		return c, nil // it accepts the completion, but no new nodes
	case r.Redo:
		return nil, refuse.Exhausted("children", "workflow %s is being retried: complete again in a moment", r.ID)
	}
	for i, node := range g.GetNodes() {
		if err := c.take(node); err != nil {
			fs.dropKinds(f, c.kinds)
			return nil, peer.OfChild(i, node.GetSpec().GetId(), err)
		}
	}
	if err := c.admitGrowth(); err != nil {
		fs.dropKinds(f, c.kinds)
		return nil, err
	}
	c.mark(g.GetDetached())
	return c, nil
}

// mark records in the children which vertex grew them, and which of them join: those without children.
func (c *chunk) mark(detached bool) {
	inner := make(map[uint32]bool, len(c.rows))
	for _, v := range c.rows {
		for _, p := range v.Parents {
			inner[p] = true
		}
	}
	for _, v := range c.rows {
		v.Growth = &state.Growth{By: c.grower.Number + 1, Joins: !detached && !inner[v.Number]}
	}
}

// need returns the size that the children add to all workflows.
func (c *chunk) need() flowSize {
	return flowSize{vertices: int64(len(c.rows)), bytes: c.bytes + edgeBytes*int64(c.edges)}
}

// admitGrowth checks the children against the limits of a workflow and of all, and the budgets of queues and tenant:
// their number was not announced.
func (c *chunk) admitGrowth() error {
	r := c.r
	for _, bound := range []struct {
		what            string
		has, more, most int64
	}{
		{"nodes", int64(r.Nodes), int64(len(c.rows)), rota.MaxWorkflowNodes},
		{"edges", int64(r.Edges), int64(c.edges), rota.MaxWorkflowEdges},
		{"bytes", r.Bytes, c.bytes, rota.MaxWorkflowBytes},
	} {
		if bound.has+bound.more > bound.most {
			return rota.Refusef(rota.KindInvalid, "children",
				"workflow %s has %d %s, and the children add %d: maximum %d", r.ID,
				bound.has, bound.what, bound.more, bound.most)
		}
	}
	if err := c.admitBytes(); err != nil {
		return err
	}
	return c.fs.admitSize(c.need())
}

// drop releases the classes of children that are not added after all; a nil chunk has none.
func (c *chunk) drop() {
	if c != nil {
		c.fs.dropKinds(c.f, c.kinds)
	}
}

// grow adds the children to the workflow when their node completes, before that has any effect: so nothing that waits
// for it misses them.
func (c *chunk) grow() {
	if c == nil {
		return
	}
	fs, f := c.fs, c.f
	fs.makeRoom(c.need())
	v := fs.editVertex(f, c.grower.Number)
	its := state.Growth{Content: c.content}
	if v.Growth != nil {
		its.By, its.Joins = v.Growth.By, v.Growth.Joins
	}
	v.Growth = &its
	if len(c.rows) == 0 {
		return
	}
	r := fs.workflows.Edit(c.r.ID)
	s := &fs.flowIndex
	s.all.add(r, -1)
	s.kept.add(r, -1)
	for _, v := range c.rows {
		fs.vertices.Insert(v.Key, v)
		f.append(v)
		c.fs.s.QueueTable.Edit(v.Spec.Queue).Blocked++
	}
	f.kinds = append(f.kinds, c.kinds...)
	n := uint32(len(c.rows))
	r.Nodes, r.Added, r.Blocked = r.Nodes+n, r.Added+n, r.Blocked+n
	r.Edges, r.Linked = r.Edges+c.edges, r.Linked+c.edges
	r.Bytes += c.bytes
	s.all.add(r, 1)
	s.kept.add(r, 1)
	for _, v := range c.rows {
		fs.addWork(f, r, v.Number)
	}
	fs.emitFlow(r, rota.Event{Kind: rota.EventWorkflowGrown, Job: v.Spec.ID, Node: state.VertexName(v),
		Payload: c.grownPayload()})
}

// grownPayload is the payload of workflowGrown.
func (c *chunk) grownPayload() string {
	b := strconv.AppendInt(append(c.fs.s.Journal.Scratch[:0], `{"children":`...), int64(len(c.rows)), 10)
	last := c.rows[len(c.rows)-1] // it has no children: it joins unless none does
	b = append(b, `,"detached":`...)
	b = strconv.AppendBool(b, !last.Joins())
	c.fs.s.Journal.Scratch = append(b, '}')
	return string(c.fs.s.Journal.Scratch)
}

// grewSo reports whether a node added what an operation carries when it completed. For a forgotten workflow this is not
// known.
func (fs *flows) grewSo(op *fsmpb.LeaseOp) bool {
	_, v := fs.vertex(rota.JobID(op.GetJob()))
	if v == nil {
		return true
	}
	var brings, brought rota.Digest
	if b := op.GetChildren(); len(b) > 0 {
		brings = state.HashBytes(b)
	}
	if v.Growth != nil {
		brought = v.Growth.Content
	}
	return brings == brought
}

// signalWorkflow applies a signal to a gate (SPEC §23.1): the first one counts, even if the gate's parents have not
// completed, and is identified by its id. Its consequences are settled at the end of the entry.
func (fs *flows) signalWorkflow(op *fsmpb.SignalWorkflow) *fsmpb.Outcome {
	s := rota.Signal{Workflow: rota.WorkflowID(op.GetWorkflow()), Node: op.GetNode(), ID: op.GetId(),
		Payload: op.GetPayload(), Refuse: op.GetRefuse()}
	if err := s.CheckShape(); err != nil {
		return entry.Refused(err)
	}
	r, err := fs.committed(s.Workflow)
	if err != nil {
		return entry.Refused(err)
	}
	f := fs.flowIndex.byID[r.ID]
	number, known := f.byName[s.Node]
	if !known {
		return flowRefused(r, rota.Refusef(rota.KindNotFound, "node", "workflow %s has no node %.80q", r.ID, s.Node))
	}
	v := f.rows[number]
	content := state.SignalContent(&fs.s.Ledger.Enc, op.GetPayload(), op.GetRefuse())
	existed, err := fs.signalled(f, r, v, &s, content)
	switch {
	case err != nil:
		return flowRefused(r, err)
	case existed:
		return flowOutcome(r, true)
	}
	bytes := int64(len(op.GetPayload()))
	if r.Bytes+bytes > rota.MaxWorkflowBytes {
		return flowRefused(r, refuse.Exhausted("payload",
			"workflow %s takes %d bytes, the signal brings %d more: at most %d are taken", r.ID, r.Bytes,
			bytes, rota.MaxWorkflowBytes))
	}
	need := flowSize{bytes: bytes}
	if err := fs.admitSize(need); err != nil {
		return flowRefused(r, err)
	}
	if err := fs.admission.admitBytes(fs.s.QueueTable.Get(v.Spec.Queue), r.Tenant, bytes); err != nil {
		return flowRefused(r, err)
	}
	fs.makeRoom(need)
	r = fs.workflows.Edit(r.ID)
	v = fs.editVertex(f, number)
	fs.stopWaiting(r, v)
	g := *v.Gate
	g.Signal, g.Content, g.Refuse, g.Payload, g.Due = s.ID, content, op.GetRefuse(), op.GetPayload(), 0
	v.Gate = &g
	fs.weighSignal(r, bytes)
	fs.emitFlow(r, rota.Event{Kind: rota.EventGateSignalled, Job: v.Spec.ID, Node: s.Node,
		Payload: fs.signalledPayload(&s, op.GetRefuse())})
	fs.addWork(f, r, number)
	return flowOutcome(r, false)
}

// signalled reports whether a signal is a repetition; the error gives why another one is refused.
func (fs *flows) signalled(f *flow, r *state.WorkflowRow, v *state.VertexRow, s *rota.Signal,
	content rota.Digest) (existed bool, err error) {
	g := v.Gate
	switch {
	case g == nil:
		return false, rota.Refusef(rota.KindInvalid, "node",
			"node %s of workflow %s is not a gate: only gates accept signals", state.VertexName(v), r.ID)
	case r.Redo && v.Lost() && (f.redo == nil || f.redo[v.Number]):
		return false, refuse.Exhausted("workflow", "workflow %s is being retried: signal again in a moment", r.ID)
	case g.Signal == s.ID && g.Content == content:
		return true, nil
	case g.Signal == s.ID:
		how := "its payload was another"
		if g.Refuse != s.Refuse {
			how = fmt.Sprintf("its refuse was %t, not %t", g.Refuse, s.Refuse)
		}
		return false, rota.Refusef(rota.KindConflict, "id",
			"signal %s of gate %s came before, and %s: the first one counts, `rota job show %s` shows it", s.ID,
			v.Spec.ID, how, v.Spec.ID)
	case g.Signal != "":
		return false, rota.Refusef(rota.KindConflict, "signal",
			"gate %s was signalled before, by signal %s: the first one counts, not %s", v.Spec.ID, g.Signal, s.ID)
	case v.Over():
		return false, rota.Refusef(rota.KindConflict, "signal", "gate %s is %s already (%s)", v.Spec.ID, v.State,
			v.Reason)
	case r.State != rota.WorkflowRunning || r.Ending != rota.WorkflowNone:
		return false, rota.Refusef(rota.KindConflict, "workflow", "workflow %s is ending", r.ID)
	}
	return false, nil
}

// signalledPayload returns the payload of gateSignalled.
func (fs *flows) signalledPayload(s *rota.Signal, refused bool) string {
	b := append(append(fs.s.Journal.Scratch[:0], `{"signal":"`...), s.ID...) // an id needs no quoting
	b = append(b, `","refuse":`...)
	if refused {
		b = append(b, "true"...)
	} else {
		b = append(b, "false"...)
	}
	fs.s.Journal.Scratch = append(b, '}')
	return string(fs.s.Journal.Scratch)
}
