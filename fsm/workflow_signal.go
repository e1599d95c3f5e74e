package fsm

import (
	"fmt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

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
	content := signalContent(&fs.m.ledger.enc, op.GetPayload(), op.GetRefuse())
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
	if err := fs.m.admission.admitBytes(fs.m.queues.get(v.spec.Queue), r.tenant, bytes); err != nil {
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
	b := append(append(fs.m.journal.scratch[:0], `{"signal":"`...), s.ID...) // an id needs no quoting
	b = append(b, `","refuse":`...)
	if refuse {
		b = append(b, "true"...)
	} else {
		b = append(b, "false"...)
	}
	fs.m.journal.scratch = append(b, '}')
	return string(fs.m.journal.scratch)
}
