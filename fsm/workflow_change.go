package fsm

import (
	"fmt"
	"strconv"

	"google.golang.org/protobuf/proto"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// growing looks at the children that a completion brings, and takes their classes; nil where it
// brings none. It changes nothing else, and refuses all or nothing: the lease is open then.
func (fs *flows) growing(l *leaseRow, op *fsmpb.LeaseOp) (*chunk, error) {
	encoded := op.GetChildren()
	if len(encoded) == 0 {
		return nil, nil
	}
	j := fs.s.jobs.get(l.Job)
	if j.workflow == "" {
		return nil, rota.Refusef(rota.KindInvalid, "children", "job %s is no node of a workflow: only such a one can have children", l.Job)
	}
	if n := len(encoded); n > limits.MaxChildrenBytes {
		return nil, rota.Refusef(rota.KindInvalid, "children", "children take %d bytes: at most %d are taken; let payloads name large data "+
			"instead of holding it", n, limits.MaxChildrenBytes)
	}
	var g fsmpb.Growth
	if err := proto.Unmarshal(encoded, &g); err != nil {
		return nil, rota.Refusef(rota.KindInvalid, "children", "children cannot be read: an encoded Growth is wanted, as the client library makes it")
	}
	if needs := entry.GrowthNeeds(&g); needs > fs.s.head.rules {
		return nil, rota.Refusef(rota.KindConflict, SubjectRules, "a child needs rules version %d, version %d is in force", needs, fs.s.head.rules)
	}
	n := len(g.GetNodes())
	if n == 0 || n > rota.MaxChildren {
		return nil, rota.Refusef(rota.KindInvalid, "children", "children are %d: 1 to %d are wanted", n, rota.MaxChildren)
	}
	r, f := fs.workflows.get(j.workflow), fs.flowIndex.byID[j.workflow]
	c := &chunk{fs: fs, r: r, f: f, names: make(map[string]bool, n), grower: f.rows[j.vertex], content: hashBytes(encoded)}
	switch {
	case r.ending != rota.WorkflowNone:
		return c, nil // it takes the completion, and no more nodes
	case r.redo:
		return nil, exhausted("children", "workflow %s is being retried: complete again in a moment", r.id)
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

// mark notes of the children who grew them, and which of them join: those without children.
func (c *chunk) mark(detached bool) {
	inner := make(map[uint32]bool, len(c.rows))
	for _, v := range c.rows {
		for _, p := range v.parents {
			inner[p] = true
		}
	}
	for _, v := range c.rows {
		v.growth = &growth{by: c.grower.number + 1, joins: !detached && !inner[v.number]}
	}
}

// need is what the children add to what all workflows take.
func (c *chunk) need() flowSize {
	return flowSize{vertices: int64(len(c.rows)), bytes: c.bytes + edgeBytes*int64(c.edges)}
}

// admitGrowth holds the children against the bounds of a workflow and of all, and the budgets
// of queues and tenant: their number was not announced.
func (c *chunk) admitGrowth() error {
	r := c.r
	for _, bound := range []struct {
		what            string
		has, more, most int64
	}{
		{"nodes", int64(r.nodes), int64(len(c.rows)), rota.MaxWorkflowNodes},
		{"edges", int64(r.edges), int64(c.edges), rota.MaxWorkflowEdges},
		{"bytes", r.bytes, c.bytes, rota.MaxWorkflowBytes},
	} {
		if bound.has+bound.more > bound.most {
			return rota.Refusef(rota.KindInvalid, "children", "workflow %s has %d %s, the children bring %d more: at most %d are taken", r.id,
				bound.has, bound.what, bound.more, bound.most)
		}
	}
	if err := c.admitBytes(); err != nil {
		return err
	}
	return c.fs.admitSize(c.need())
}

// drop gives back what was taken for children that do not come after all; nil has none.
func (c *chunk) drop() {
	if c != nil {
		c.fs.dropKinds(c.f, c.kinds)
	}
}

// grow adds the children to the workflow as their node completes, before anything hears of it: so
// nothing that waits for it misses them.
func (c *chunk) grow() {
	if c == nil {
		return
	}
	fs, f := c.fs, c.f
	fs.makeRoom(c.need())
	v := fs.editVertex(f, c.grower.number)
	its := growth{content: c.content}
	if v.growth != nil {
		its.by, its.joins = v.growth.by, v.growth.joins
	}
	v.growth = &its
	if len(c.rows) == 0 {
		return
	}
	r := fs.workflows.edit(c.r.id)
	s := &fs.flowIndex
	s.all.add(r, -1)
	s.kept.add(r, -1)
	for _, v := range c.rows {
		fs.vertices.insert(v.key, v)
		f.append(v)
		c.fs.s.queues.edit(v.spec.Queue).blocked++
	}
	f.kinds = append(f.kinds, c.kinds...)
	n := uint32(len(c.rows))
	r.nodes, r.added, r.blocked = r.nodes+n, r.added+n, r.blocked+n
	r.edges, r.linked = r.edges+c.edges, r.linked+c.edges
	r.bytes += c.bytes
	s.all.add(r, 1)
	s.kept.add(r, 1)
	for _, v := range c.rows {
		fs.addWork(f, r, v.number)
	}
	fs.emitFlow(r, rota.Event{Kind: rota.EventWorkflowGrown, Job: v.spec.ID, Node: vertexName(v), Payload: c.grownPayload()})
}

// grownPayload is the payload of workflowGrown.
func (c *chunk) grownPayload() string {
	b := strconv.AppendInt(append(c.fs.s.journal.scratch[:0], `{"children":`...), int64(len(c.rows)), 10)
	last := c.rows[len(c.rows)-1] // it has no children: it joins unless none does
	b = append(b, `,"detached":`...)
	b = strconv.AppendBool(b, !last.joins())
	c.fs.s.journal.scratch = append(b, '}')
	return string(c.fs.s.journal.scratch)
}

// grewSo reports whether a node added as it completed what an operation brings. Of a workflow
// that is forgotten nobody knows.
func (fs *flows) grewSo(op *fsmpb.LeaseOp) bool {
	_, v := fs.vertex(rota.JobID(op.GetJob()))
	if v == nil {
		return true
	}
	var brings, brought rota.Digest
	if b := op.GetChildren(); len(b) > 0 {
		brings = hashBytes(b)
	}
	if v.growth != nil {
		brought = v.growth.content
	}
	return brings == brought
}

// signalWorkflow takes a signal for a gate (SPEC §23.1): the first one counts, even where
// the gate's parents have not completed, and is known by its id. What follows is settled at
// the end of the entry.
func (fs *flows) signalWorkflow(op *fsmpb.SignalWorkflow) *fsmpb.Outcome {
	s := rota.Signal{Workflow: rota.WorkflowID(op.GetWorkflow()), Node: op.GetNode(), ID: op.GetId(), Payload: op.GetPayload(), Refuse: op.GetRefuse()}
	if err := s.CheckShape(); err != nil {
		return entry.Refused(err)
	}
	r, err := fs.committed(s.Workflow)
	if err != nil {
		return entry.Refused(err)
	}
	f := fs.flowIndex.byID[r.id]
	number, known := f.byName[s.Node]
	if !known {
		return flowRefused(r, rota.Refusef(rota.KindNotFound, "node", "workflow %s has no node %.80q", r.id, s.Node))
	}
	v := f.rows[number]
	content := signalContent(&fs.s.ledger.enc, op.GetPayload(), op.GetRefuse())
	existed, err := fs.signalled(f, r, v, &s, content)
	switch {
	case err != nil:
		return flowRefused(r, err)
	case existed:
		return flowOutcome(r, true)
	}
	bytes := int64(len(op.GetPayload()))
	if r.bytes+bytes > rota.MaxWorkflowBytes {
		return flowRefused(r, exhausted("payload", "workflow %s takes %d bytes, the signal brings %d more: at most %d are taken", r.id, r.bytes,
			bytes, rota.MaxWorkflowBytes))
	}
	need := flowSize{bytes: bytes}
	if err := fs.admitSize(need); err != nil {
		return flowRefused(r, err)
	}
	if err := fs.admission.admitBytes(fs.s.queues.get(v.spec.Queue), r.tenant, bytes); err != nil {
		return flowRefused(r, err)
	}
	fs.makeRoom(need)
	r = fs.workflows.edit(r.id)
	v = fs.editVertex(f, number)
	fs.stopWaiting(r, v)
	g := *v.gate
	g.signal, g.content, g.refuse, g.payload, g.due = s.ID, content, op.GetRefuse(), op.GetPayload(), 0
	v.gate = &g
	fs.weighSignal(r, bytes)
	fs.emitFlow(r, rota.Event{Kind: rota.EventGateSignalled, Job: v.spec.ID, Node: s.Node, Payload: fs.signalledPayload(&s, op.GetRefuse())})
	fs.addWork(f, r, number)
	return flowOutcome(r, false)
}

// signalled reports whether a signal is a repetition; the error says why another one is not
// taken.
func (fs *flows) signalled(f *flow, r *workflowRow, v *vertexRow, s *rota.Signal, content rota.Digest) (existed bool, err error) {
	g := v.gate
	switch {
	case g == nil:
		return false, rota.Refusef(rota.KindInvalid, "node", "node %s of workflow %s is no gate: only a gate takes a signal", vertexName(v), r.id)
	case r.redo && v.lost() && (f.redo == nil || f.redo[v.number]):
		return false, exhausted("workflow", "workflow %s is being retried: signal again in a moment", r.id)
	case g.signal == s.ID && g.content == content:
		return true, nil
	case g.signal == s.ID:
		how := "its payload was another"
		if g.refuse != s.Refuse {
			how = fmt.Sprintf("its refuse was %t, not %t", g.refuse, s.Refuse)
		}
		return false, rota.Refusef(rota.KindConflict, "id", "signal %s of gate %s came before, and %s: the first one counts, `rota job show %s` shows it", s.ID,
			v.spec.ID, how, v.spec.ID)
	case g.signal != "":
		return false, rota.Refusef(rota.KindConflict, "signal", "gate %s was signalled before, by signal %s: the first one counts, not %s", v.spec.ID, g.signal, s.ID)
	case v.over():
		return false, rota.Refusef(rota.KindConflict, "signal", "gate %s is %s already (%s)", v.spec.ID, v.state, v.reason)
	case r.state != rota.WorkflowRunning || r.ending != rota.WorkflowNone:
		return false, rota.Refusef(rota.KindConflict, "workflow", "workflow %s is ending", r.id)
	}
	return false, nil
}

// signalledPayload tells of a signal: gateSignalled.
func (fs *flows) signalledPayload(s *rota.Signal, refuse bool) string {
	b := append(append(fs.s.journal.scratch[:0], `{"signal":"`...), s.ID...) // an id needs no quoting
	b = append(b, `","refuse":`...)
	if refuse {
		b = append(b, "true"...)
	} else {
		b = append(b, "false"...)
	}
	fs.s.journal.scratch = append(b, '}')
	return string(fs.s.journal.scratch)
}
