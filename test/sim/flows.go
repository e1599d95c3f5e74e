package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/millis"
	"github.com/rotasched/rota/internal/peer"
)

// flowClient submits workflows, cancels some and retries some. It draws from a random source of its own, separate from
// the world's, as the walls do.
type flowClient struct {
	w      *World
	chance *rand.Rand
	all    []*flow
	byID   map[rota.WorkflowID]*flow
}

// flow is one workflow as its submitter sees it, and the submitter's intentions.
type flow struct {
	actor
	c       *flowClient
	spec    rota.WorkflowSpec
	graph   *rota.Graph
	content [16]byte
	// opened means that the cluster knows it; next is the next node to upload.
	opened bool
	next   uint32
	// acked means that its commit was acknowledged.
	acked bool
	// steps counts the steps, so that a late repetition notices progress. gaveUp means that the submitter's process is
	// gone for good; pauseAt and giveUpAt are steps.
	steps, pauseAt, giveUpAt int
	gaveUp                   bool
	// retries is the number of retries left; from is the node from which each run was retried.
	retries int
	from    map[int32]string
	// cancelling means that a cancellation was requested and is not yet answered.
	cancelling bool
}

// typeDoomed is the type of nodes whose handlers mostly fail permanently.
const typeDoomed = "doomed"

func newFlowClient(w *World) *flowClient {
	c := &flowClient{w: w, chance: rand.New(rand.NewPCG(w.Seed, 0xf10e)), byID: map[rota.WorkflowID]*flow{}}
	for i := range w.Flows {
		f := c.draw(i)
		c.all, c.byID[f.spec.ID] = append(c.all, f), f
		w.on(&f.actor, Time(c.chance.IntN(int(max(w.Heal-20_000, 1)))), f.step)
	}
	return c
}

// draw creates a random graph, and a submitter with intentions.
func (c *flowClient) draw(i int) *flow {
	r := c.chance
	f := &flow{c: c, pauseAt: -1, giveUpAt: -1, retries: r.IntN(3), from: map[int32]string{}}
	f.spec = rota.WorkflowSpec{ID: rota.WorkflowID(fmt.Sprint("f", i)), Tenant: rota.TenantID(fmt.Sprint("t", i%3)),
		OnFailure: rota.FailurePolicy(r.IntN(2))}
	f.name = string(f.spec.ID)
	gates := rand.New(rand.NewPCG(c.w.Seed, uint64(0x6a7e+i))) // so that graphs are the same as before gates existed
	density := 1 + r.IntN(4)
	for n := range 1 + r.IntN(10) {
		s := rota.NewJobSpec("work", []byte("node"))
		s.Priority = int32(r.IntN(11))
		switch r.IntN(12) {
		case 0:
			s.Delay = millis.Duration(int64(r.IntN(4_000)))
		case 1:
			s.TTL = millis.Duration(int64(10_000 + r.IntN(80_000)))
		case 2, 3:
			s.Type = typeDoomed
		}
		node := rota.NodeSpec{ID: fmt.Sprint("n", n), JobSpec: s}
		for p := range n {
			if r.IntN(density+1) == 0 {
				node.Parents = append(node.Parents, fmt.Sprint("n", p))
			}
		}
		if gates.IntN(8) == 0 {
			node.Gate, node.JobSpec = drawGate(gates), rota.NewJobSpec("", nil)
		}
		f.spec.Nodes = append(f.spec.Nodes, node)
	}
	g, err := f.spec.Arrange()
	if err != nil {
		c.w.audit.failf("workflow %s: %v", f.spec.ID, err)
		return f
	}
	f.graph, f.content = g, fsm.WorkflowContent(&f.spec, g)
	switch r.IntN(6) {
	case 0: // its process crashes in the middle, or just after it requested the commit
		f.giveUpAt = r.IntN(g.Edges + len(g.Order) + 2)
	case 1: // it sleeps, maybe for longer than an upload is kept
		f.pauseAt = 1 + r.IntN(3)
	}
	return f
}

// step sends the next operation of the upload, repeatedly until it is acknowledged.
func (f *flow) step() {
	w, r := f.c.w, f.c.chance
	if f.acked || f.gaveUp {
		return
	}
	if f.steps++; f.steps == f.pauseAt {
		w.on(&f.actor, Time(20_000+r.IntN(80_000)), f.step)
		return
	}
	op := f.nextOp(r)
	now := f.steps
	f.send(op, func(o *fsmpb.Outcome) {
		f.learn(o)
		if now == f.steps {
			f.step()
		}
	})
	if f.steps-1 == f.giveUpAt { // it will never learn the outcome of its last request
		f.gaveUp = true
		if f.gated() { // which may have committed it: another client then signals its gates
			w.on(&f.actor, Time(r.IntN(5_000)), f.signal)
		}
		return
	}
	w.on(&f.actor, Time(300+r.IntN(400)), func() {
		if now == f.steps {
			f.step()
		}
	})
}

// nextOp returns the next operation of the upload, as far as the submitter knows; sometimes a later or an earlier one.
func (f *flow) nextOp(r *rand.Rand) *fsmpb.Op {
	if !f.opened || r.IntN(20) == 0 {
		return entry.OpenWorkflowOp(&f.spec, f.graph, f.content)
	}
	at := f.next
	switch r.IntN(16) {
	case 0:
		at = uint32(r.IntN(len(f.graph.Order)))
	case 1:
		at = uint32(len(f.graph.Order))
	}
	if int(at) == len(f.graph.Order) {
		return entry.CommitWorkflowOp(f.spec.ID, f.content)
	}
	op := entry.AddNodesOps(&f.spec, f.graph, f.content, at)[0]
	chunk := op.GetAddNodes()
	chunk.Nodes = chunk.Nodes[:min(len(chunk.Nodes), 1+r.IntN(4))]
	return op
}

// learn handles an answer to the upload, which may be an old one.
func (f *flow) learn(o *fsmpb.Outcome) {
	switch err := entry.OutcomeError(o); {
	case err == nil && rota.WorkflowState(o.GetWorkflowState()) != rota.WorkflowOpen:
		if !f.acked {
			f.acked = true
			f.committed()
		}
	case err == nil || err.Kind == rota.KindOutOfRange:
		f.opened, f.next = true, o.GetNextNode()
	case err.Kind == rota.KindConflict || err.Kind == rota.KindInvalid:
		f.c.w.audit.failf("workflow %s: its upload was refused: %v", f.spec.ID, err)
	default: // it was given up
		f.opened, f.next = false, 0
	}
}

func (f *flow) send(op *fsmpb.Op, reply func(*fsmpb.Outcome)) {
	w := f.c.w
	n := w.nodes[f.c.chance.IntN(len(w.nodes))]
	w.forward(n, &f.actor, !n.down, op, reply)
}

// committed schedules the submitter's later actions: cancel, cancel a node, retry.
func (f *flow) committed() {
	w, r := f.c.w, f.c.chance
	switch r.IntN(8) {
	case 0:
		f.cancelling = true
		w.on(&f.actor, Time(r.IntN(30_000)), f.cancel)
	case 1:
		node := f.spec.Nodes[r.IntN(len(f.spec.Nodes))].ID
		op := &fsmpb.Op{Op: &fsmpb.Op_Cancel{Cancel: &fsmpb.Cancel{Job: string(rota.NodeJobID(f.spec.ID, node))}}}
		w.on(&f.actor, Time(r.IntN(20_000)), func() { f.send(op, func(*fsmpb.Outcome) {}) })
	}
	w.on(&f.actor, 1_000, f.retry)
	w.on(&f.actor, Time(r.IntN(5_000)), f.signal)
}

// drawGate draws the terms of a gate.
func drawGate(r *rand.Rand) *rota.Gate {
	g := &rota.Gate{OnTimeout: rota.GateTimeout(r.IntN(2))}
	if r.IntN(2) == 0 {
		g.Timeout = millis.Duration(int64(1 + r.IntN(20_000)))
	}
	return g
}

// gated reports whether it has a gate.
func (f *flow) gated() bool {
	return slices.ContainsFunc(f.spec.Nodes, func(n rota.NodeSpec) bool { return n.Gate != nil })
}

// signal signals gates now and then, early and late, more than once and not always the same: a refusal one time in six.
func (f *flow) signal() {
	w, r := f.c.w, f.c.chance
	n := w.nodes[r.IntN(len(w.nodes))]
	flow, ok := n.machine.Workflow(f.spec.ID)
	if !n.down && ok && flow.State.Terminal() && f.retries == 0 {
		if _, again := f.from[flow.Runs]; !again { // else it lags, and another run may be waiting
			// A retry that is still in flight may begin a run whose gates wait for a signal.
			w.on(&f.actor, 30_000, f.signal)
			return
		}
	}
	w.on(&f.actor, Time(500+r.IntN(4_000)), f.signal)
	for i := range f.spec.Nodes {
		if f.spec.Nodes[i].Gate == nil || r.IntN(2) == 0 {
			continue
		}
		s := rota.Signal{Workflow: f.spec.ID, Node: f.spec.Nodes[i].ID, ID: fmt.Sprint("s", r.IntN(3)),
			Payload: []byte("word")}
		s.Refuse = r.IntN(6) == 0
		f.send(entry.SignalWorkflowOp(&s), func(*fsmpb.Outcome) {})
	}
}

// cancel repeats the request until it is answered.
func (f *flow) cancel() {
	if !f.cancelling {
		return
	}
	f.send(entry.CancelWorkflowOp(f.spec.ID), func(*fsmpb.Outcome) { f.cancelling = false })
	f.c.w.on(&f.actor, 500, f.cancel)
}

// retry checks now and then whether the workflow failed, and retries it: from the same node for as long as it has no
// answer.
func (f *flow) retry() {
	w, r := f.c.w, f.c.chance
	if f.retries == 0 {
		return
	}
	w.on(&f.actor, Time(500+r.IntN(3_000)), f.retry)
	n := w.nodes[r.IntN(len(w.nodes))]
	flow, ok := n.machine.Workflow(f.spec.ID)
	if n.down || !ok || flow.State != rota.WorkflowFailed && flow.State != rota.WorkflowCancelled {
		return
	}
	from, asked := f.from[flow.Runs]
	if !asked {
		if r.IntN(2) == 0 {
			from = f.spec.Nodes[r.IntN(len(f.spec.Nodes))].ID
		}
		f.from[flow.Runs] = from
	}
	runs, answered := flow.Runs, false
	f.send(entry.RetryWorkflowOp(f.spec.ID, from, runs), func(o *fsmpb.Outcome) {
		if !answered {
			answered = true
			if !OutcomeOK(o) && from != "" { // no node depends on that one: all of it then
				f.from[runs] = ""
			}
			if OutcomeOK(o) && f.retries > 0 {
				f.retries--
			}
		}
	})
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// handles decides how a node's handler runs: it finishes sooner than other jobs, because many wait for it.
func (c *flowClient) handles(k *worker, t *task) {
	now := k.local(c.w.now)
	t.finish = now + (t.finish-now)/6
	if t.given.Spec.Type == typeDoomed && c.chance.IntN(4) > 0 {
		t.report, t.fail, t.wait = rota.VerbFail, peer.FailNoRetry, 0
	}
	c.drawGrowth(t)
}

// quiet reports whether every upload was acknowledged or lapsed, and no further requests follow. The cluster clock
// determines when one has lapsed: a part in flight as the world healed may be accepted seconds later.
func (c *flowClient) quiet() bool {
	lapsed := c.w.now >= c.w.Heal+Time(limits.UploadLapses)+5_000 &&
		c.w.audit.clock >= c.w.audit.uploaded+limits.UploadLapses+5_000
	for _, f := range c.all {
		if a := c.w.audit.flows[f.spec.ID]; a != nil {
			if !a.state.Terminal() || f.cancelling || f.retries > 0 && a.state != rota.WorkflowCompleted {
				return false
			}
		} else if !f.gaveUp || !lapsed {
			return false
		}
	}
	return true
}
