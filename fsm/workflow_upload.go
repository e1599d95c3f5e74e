package fsm

import (
	"cmp"
	"maps"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/refuse"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
)

// upload returns the workflow whose upload an operation continues. A nil row comes with the outcome.
func (fs *flows) upload(id rota.WorkflowID, content []byte) (*state.WorkflowRow, *fsmpb.Outcome) {
	r := fs.workflows.Get(id)
	if r == nil || r.Leaving {
		return nil, entry.Refused(rota.Refusef(rota.KindNotFound, "workflow",
			"workflow %.80q is not being submitted, or was given up as its "+
				"nodes stopped arriving: submit it again", id))
	}
	d, ok := contentOf(content)
	other := !ok || d != r.Content
	switch {
	case r.State != rota.WorkflowOpen && other:
		return nil, flowRefused(r, OtherWorkflow(r.ID, ""))
	case r.State != rota.WorkflowOpen:
		return nil, flowOutcome(r, true)
	case other:
		return nil, entry.Refused(rota.Refusef(rota.KindConflict, "content",
			"workflow %s is being submitted with other content", id))
	}
	return r, nil
}

// OtherWorkflow refuses a submission whose id belongs to another workflow (SPEC §16.5). how is the difference; it is
// empty if the caller may not read that workflow.
func OtherWorkflow(id rota.WorkflowID, how string) *rota.Error {
	if how == "" {
		how = "what is submitted now differs from it"
	}
	return rota.Refusef(rota.KindConflict, "id",
		"workflow %s was submitted before, and %s: submit it under a new id, or as it was", id, how)
}

// addNodes adds a chunk of a workflow's nodes, all or nothing. It skips nodes that have already arrived.
func (fs *flows) addNodes(op *fsmpb.AddNodes) *fsmpb.Outcome {
	r, o := fs.upload(rota.WorkflowID(op.GetWorkflow()), op.GetContent())
	if r == nil {
		return o
	}
	n, first := uint64(len(op.GetNodes())), uint64(op.GetFirst())
	switch {
	case n == 0 || n > limits.MaxChunkNodes:
		return entry.Refused(rota.Refusef(rota.KindInvalid, "nodes", "nodes: got %d, want 1 to %d at a time", n,
			limits.MaxChunkNodes))
	case first+n > uint64(r.Nodes):
		return entry.Refused(rota.Refusef(rota.KindInvalid, "nodes",
			"nodes %d to %d are more than the %d that workflow %s announced", first,
			first+n-1, r.Nodes, r.ID))
	case first > uint64(r.Added):
		o := entry.Refused(rota.Refusef(rota.KindOutOfRange, "first",
			"first: the next node must be %d of workflow %s, got node %d", r.Added, r.ID, first))
		o.WorkflowState, o.NextNode = uint32(r.State), r.Added
		return o
	}
	skip := uint64(r.Added) - first
	if skip >= n {
		return flowOutcome(r, true)
	}
	c := chunk{fs: fs, r: r, f: fs.flowIndex.byID[r.ID], names: make(map[string]bool, n-skip)}
	for _, node := range op.GetNodes()[skip:] {
		if err := c.take(node); err != nil {
			return c.refused(c.ofNode(node, err))
		}
	}
	if r.Bytes+c.bytes > rota.MaxWorkflowBytes {
		return c.refused(rota.Refusef(rota.KindInvalid, "nodes",
			"nodes of workflow %s too long: got %d bytes, maximum %d", r.ID, r.Bytes+c.bytes, rota.MaxWorkflowBytes))
	}
	if err := c.admitBytes(); err != nil {
		return c.refused(err)
	}
	need := flowSize{bytes: c.bytes}
	if err := fs.admitSize(need); err != nil {
		return c.refused(err)
	}
	fs.makeRoom(need)
	c.keep()
	return flowOutcome(fs.workflows.Get(r.ID), false)
}

// chunk is a part of an upload, or what a node adds when it completes: checked first, then added as a whole.
type chunk struct {
	fs    *flows
	r     *state.WorkflowRow
	f     *flow
	names map[string]bool
	rows  []*state.VertexRow
	kinds []kind // already taken for it
	edges uint64
	bytes int64
	// grower is the vertex that completes, nil for an upload; content is the hash of what it adds.
	grower  *state.VertexRow
	content rota.Digest
}

// refused releases the chunk's classes and returns a refusal.
func (c *chunk) refused(err error) *fsmpb.Outcome {
	c.fs.dropKinds(c.f, c.kinds)
	return entry.Refused(err)
}

// admitBytes checks the chunk's nodes against the budgets of their queues and tenant.
func (c *chunk) admitBytes() error {
	more := make(map[rota.QueueName]int64)
	for _, v := range c.rows {
		more[v.Spec.Queue] += int64(v.ShapeBytes)
	}
	for _, name := range slices.Sorted(maps.Keys(more)) {
		if err := c.fs.admission.admitBytes(c.fs.s.QueueTable.Get(name), c.r.Tenant, more[name]); err != nil {
			return err
		}
	}
	return c.fs.admission.admitBytes(nil, c.r.Tenant, c.bytes)
}

// take checks the next node; it changes only the chunk, and takes the node's class.
func (c *chunk) take(n *fsmpb.WorkflowNode) error {
	v, name, err := c.read(n)
	if err != nil {
		return err
	}
	c.names[name] = true
	c.rows = append(c.rows, v)
	return nil
}

// ofNode adds the node of an upload to a refusal.
func (c *chunk) ofNode(n *fsmpb.WorkflowNode, err error) error {
	return ofNode(c.r.Added+uint32(len(c.rows)), n.GetSpec().GetId(), err)
}

// parents returns the numbers of the next node's parents. A child names its parents by places, of which the grower's is
// 0: a child without parents is a child of the grower.
func (c *chunk) parents(steps []uint32, number uint64) ([]uint32, error) {
	if c.grower == nil {
		return readParents(steps, number)
	}
	if len(steps) == 0 {
		return []uint32{c.grower.Number}, nil
	}
	list, err := readParents(steps, 1+uint64(len(c.rows)))
	for i, place := range list {
		if list[i] = c.r.Added + place - 1; place == 0 {
			list[i] = c.grower.Number
		}
	}
	return list, err
}

// maxLinked returns the maximum of the workflow's edges: what it announced, or the limit for any workflow.
func (c *chunk) maxLinked() uint64 {
	if c.grower == nil {
		return c.r.Edges
	}
	return rota.MaxWorkflowEdges
}

func (c *chunk) read(n *fsmpb.WorkflowNode) (v *state.VertexRow, name string, err error) {
	s, r := c.fs.s, c.r
	if n := len(n.GetSpec().GetLabels()); n > rota.MaxLabels { // before a map is made of them
		return nil, "", rota.Refusef(rota.KindInvalid, "labels", "too many labels: got %d, maximum %d", n,
			rota.MaxLabels)
	}
	spec := entry.SpecWords(n.GetSpec())
	name = string(spec.ID)
	if err := rota.CheckNodeIDBytes("id", name); err != nil {
		return nil, "", err
	}
	if spec.Tenant != "" {
		return nil, "", rota.Refusef(rota.KindInvalid, "tenant",
			"tenant: got %.80q; omit it, a node has its workflow's tenant", spec.Tenant)
	}
	spec.ID, spec.Tenant = rota.NodeJobID(r.ID, name), r.Tenant
	terms := entry.GateWords(n.GetGate())
	if c.grower != nil {
		spec.Queue = cmp.Or(spec.Queue, r.Queue)
		if terms != nil {
			spec.Type = cmp.Or(spec.Type, rota.GateType)
		}
	}
	q := s.QueueTable.Get(spec.Queue)
	payloadMax := int64(rota.MaxPayloadBytes)
	if q != nil {
		payloadMax = q.Policy.PayloadMaxBytes
	}
	if err := spec.CheckTemplate(payloadMax); err != nil {
		return nil, "", err
	}
	run := rota.NodeRun(min(n.GetRun(), uint32(rota.RunAlways)+1))
	if err := run.Check(terms); err != nil {
		return nil, "", err
	}
	if terms != nil {
		if err := spec.CheckGate(terms); err != nil {
			return nil, "", err
		}
	}
	if q == nil {
		return nil, "", refuse.NoQueue(spec.Queue)
	}
	if q.DrainTo != "" {
		return nil, "", refuse.Leaving(q)
	}
	if _, twice := c.f.byName[name]; twice || c.names[name] {
		return nil, "", rota.Refusef(rota.KindInvalid, "id", "duplicate id in workflow %s", r.ID)
	}
	number := uint64(r.Added) + uint64(len(c.rows))
	if number >= rota.MaxWorkflowNodes {
		return nil, "", rota.Refusef(rota.KindInvalid, "id", "too many nodes: workflow %s has %d, which is the maximum",
			r.ID, rota.MaxWorkflowNodes)
	}
	parents, err := c.parents(n.GetParents(), number)
	if err != nil {
		return nil, "", err
	}
	if c.edges += uint64(len(parents)); r.Linked+c.edges > c.maxLinked() {
		return nil, "", rota.Refusef(rota.KindInvalid, "edges",
			"workflow %s has more edges than the %d that it announced, or may have", r.ID, c.maxLinked())
	}
	kept := s.Specs.Keep(spec)
	c.kinds = c.fs.takeKind(c.f, c.kinds, uint32(number), kept)
	if err := c.fs.admitKind(c.f, kept); err != nil {
		return nil, "", err
	}
	v = &state.VertexRow{Key: state.VertexKey(r.ID, uint32(number)), Workflow: r.ID, Number: uint32(number), Spec: kept,
		Parents: parents, Run: run, Shape: state.HashShape(&s.Ledger.Enc, kept, parents, run, terms),
		State: state.VertexBlocked}
	if terms != nil {
		v.Gate = &state.Gate{Terms: *terms}
	}
	v.ShapeBytes = uint32(len(s.Ledger.Enc.B))
	c.bytes += int64(len(s.Ledger.Enc.B))
	return v, name, nil
}

// readParents sums up the steps. Each parent has a smaller number than the node, so a cycle cannot be expressed.
func readParents(steps []uint32, number uint64) ([]uint32, error) {
	if len(steps) == 0 {
		return nil, nil
	}
	if uint64(len(steps)) > number { // before room is allocated for them
		return nil, rota.Refusef(rota.KindInvalid, "parents",
			"too many parents: got %d, but only %d nodes come before it", len(steps), number)
	}
	parents := make([]uint32, len(steps))
	last := uint64(0)
	for i, step := range steps {
		if last += uint64(step); i > 0 && step == 0 || last >= number {
			return nil, rota.Refusef(rota.KindInvalid, "parents",
				"parent %d does not ascend, or is not a node before it", last)
		}
		parents[i] = uint32(last)
	}
	return parents, nil
}

// keep adds the chunk to the workflow.
func (c *chunk) keep() {
	r := c.fs.workflows.Edit(c.r.ID)
	for _, v := range c.rows {
		c.fs.vertices.Insert(v.Key, v)
		c.f.append(v)
		if len(v.Parents) == 0 {
			c.f.work.Insert(v.Number)
		}
	}
	c.f.kinds = append(c.f.kinds, c.kinds...)
	r.Added += uint32(len(c.rows))
	r.Blocked += uint32(len(c.rows))
	r.Linked += c.edges
	r.Bytes += c.bytes
	c.fs.flowIndex.all.bytes += c.bytes
	c.fs.flowIndex.kept.bytes += c.bytes
	c.fs.touch(r)
}

// commitWorkflow starts a workflow whose nodes have all arrived: it touches its queues and its roots, however many
// nodes there are, and looks at each node if a budget refuses submissions. What admission refuses stays OPEN, to be
// committed later.
func (fs *flows) commitWorkflow(op *fsmpb.CommitWorkflow) *fsmpb.Outcome {
	r, o := fs.upload(rota.WorkflowID(op.GetId()), op.GetContent())
	if r == nil {
		return o
	}
	switch {
	case r.Added < r.Nodes:
		o := entry.Refused(rota.Refusef(rota.KindOutOfRange, "nodes",
			"%d of the %d nodes of workflow %s have arrived: send node %d next",
			r.Added, r.Nodes, r.ID, r.Added))
		o.WorkflowState, o.NextNode = uint32(r.State), r.Added
		return o
	case r.Linked != r.Edges:
		return entry.Refused(rota.Refusef(rota.KindInvalid, "edges", "workflow %s has %d edges, but it announced %d",
			r.ID, r.Linked, r.Edges))
	}
	f := fs.flowIndex.byID[r.ID]
	spec := &rota.JobSpec{Queue: r.Queue, Tenant: r.Tenant, Priority: f.urgent}
	if err := fs.admission.admitMode(spec); err != nil {
		return entry.Refused(err)
	}
	if err := fs.flowIndex.spend(len(f.queues) + fs.budgeted(f)); err != nil {
		return entry.Refused(err)
	}
	for _, q := range f.queues {
		if err := fs.admitNodes(spec, fs.s.QueueTable.Get(q.name), q.nodes); err != nil {
			return entry.Refused(err)
		}
	}
	if err := fs.refuseSpent(f); err != nil {
		return entry.Refused(err)
	}
	r = fs.workflows.Edit(r.ID)
	fs.s.Timers.Upload.Refile(string(r.ID), r.Lapses(), 0)
	r.State, r.Runs = rota.WorkflowRunning, 1
	r.Submitted, r.Started = fs.s.Header.Now(), fs.s.Header.Now()
	for _, q := range f.queues {
		fs.s.QueueTable.Edit(q.name).Blocked += q.nodes
	}
	fs.flowIndex.ready.Set(f.seq, f)
	fs.emitFlow(r, rota.Event{Kind: rota.EventWorkflowStarted, Payload: fs.startedPayload(r)})
	o = flowOutcome(r, false)
	o.Throttle = fs.admission.slowDown(fs.s.QueueTable.Get(r.Queue), r.Tenant)
	return o
}

// budgeted returns the number of nodes that refuseSpent looks at.
func (fs *flows) budgeted(f *flow) int {
	if !fs.budgets.Refuses() {
		return 0
	}
	return len(f.rows)
}

// refuseSpent refuses a workflow if a budget refuses one of its nodes as a job. Gates spend nothing.
func (fs *flows) refuseSpent(f *flow) error {
	for _, v := range f.rows[:fs.budgeted(f)] {
		if v.Gate != nil {
			continue
		}
		if err := fs.budgets.Refuse(v.Spec.ID, &v.Spec.JobSpec); err != nil {
			return ofNode(v.Number, state.VertexName(v), err)
		}
	}
	return nil
}
