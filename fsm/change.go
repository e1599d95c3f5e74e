package fsm

import (
	"maps"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/millis"
)

// ChangeJobOp returns the persisted form of a job change. It names the life and the number of changes that the caller
// knows, which identifies a repetition.
func ChangeJobOp(c *rota.JobChange, life, changes int32) *fsmpb.Op {
	op := &fsmpb.ChangeJob{Job: string(c.ID), Priority: c.Priority, Fee: c.Fee, TtlMs: millis.Given(c.TTL),
		StartByMs: millis.Given(c.StartBy), Life: life, Changes: changes}
	if c.Payload != nil {
		op.Payload = append([]byte{}, *c.Payload...) // empty differs from none
	}
	for _, k := range slices.Sorted(maps.Keys(c.Labels)) {
		op.Labels = append(op.Labels, &fsmpb.Label{Key: k, Value: c.Labels[k]})
	}
	return &fsmpb.Op{Op: &fsmpb.Op_ChangeJob{ChangeJob: op}}
}

// changeWords is the inverse of ChangeJobOp.
func changeWords(op *fsmpb.ChangeJob) rota.JobChange {
	c := rota.JobChange{ID: rota.JobID(op.GetJob()), Priority: op.Priority, Fee: op.Fee, TTL: millis.Taken(op.TtlMs),
		StartBy: millis.Taken(op.StartByMs)}
	if op.Payload != nil {
		c.Payload = (*rota.Blob)(&op.Payload)
	}
	most := min(len(op.GetLabels()), 2*rota.MaxLabels+1) // a hostile entry cannot create a large map
	if most > 0 {
		c.Labels = make(map[string]string, most)
	}
	for _, l := range op.GetLabels()[:most] {
		c.Labels[l.GetKey()] = l.GetValue()
	}
	return c
}

// changeJob changes a pending job (SPEC §21.2): it keeps its id, its place by age and the hash that identifies its
// submission.
func (m *Machine) changeJob(op *fsmpb.ChangeJob) *fsmpb.Outcome {
	c := changeWords(op)
	if err := c.CheckShape(rota.MaxPayloadBytes); err != nil {
		return entry.Refused(err)
	}
	j, o := m.changeable(&c, op)
	if j == nil {
		return o
	}
	before := j.Spec.Words()
	spec := c.Of(&before)
	q := m.QueueTable.Get(j.Spec.Queue)
	if err := spec.CheckShape(max(q.Policy.PayloadMaxBytes, int64(len(before.Payload)))); err != nil {
		return entry.Refused(err)
	}
	j = m.JobTable.Edit(c.ID)
	m.own(j)
	past := *j.History()
	past.Content, past.Changes = j.FirstContent(), past.Changes+1
	j.Past = &past
	m.respec(j, q, &spec, c.TTL != nil)
	m.Journal.EmitFor(j, &rota.Event{Kind: rota.EventJobChanged, Job: c.ID, Queue: q.Name, Tenant: j.Spec.Tenant,
		Attempt: j.Attempt,
		Payload: changed(&c)})
	return &fsmpb.Outcome{JobState: uint32(j.State)}
}

// changeable returns the row of a job that may be changed. A nil row comes with the outcome.
func (m *Machine) changeable(c *rota.JobChange, op *fsmpb.ChangeJob) (*state.JobRow, *fsmpb.Outcome) {
	if f, v := m.flows.vertex(c.ID); v != nil {
		return nil, entry.Refused(rota.Refusef(rota.KindConflict, "job",
			"job %s is a node of workflow %s: what nodes are is settled when their "+
				"workflow is submitted", c.ID, f.id))
	}
	j := m.JobTable.Get(c.ID)
	if j == nil {
		t := m.ended.tombs.Get(c.ID)
		if t == nil {
			return nil, entry.Refused(rota.Refusef(rota.KindNotFound, "job", "job %q is not known", c.ID))
		}
		o := entry.Refused(rota.Refusef(rota.KindConflict, "job", "job %s is %s: only a job that waits can be changed",
			c.ID, t.State))
		o.JobState = uint32(t.State)
		return nil, o
	}
	p, before := j.History(), j.Spec.Words()
	var err error
	switch after := c.Of(&before); {
	case p.Life == op.GetLife() && p.Changes == op.GetChanges()+1 && after.Difference(&before) == "":
		return nil, &fsmpb.Outcome{JobState: uint32(j.State), Existed: true} // the same change again
	case j.State.Leased():
		err = rota.Refusef(rota.KindConflict, "job", "job %s is %s: only a job that waits can be changed", c.ID,
			j.State)
	case c.Payload != nil && j.Spec.Unique.Collects():
		err = rota.Refusef(rota.KindConflict, "payload",
			"job %s collects the payloads of others: submit one that is merged into it", c.ID)
	case p.Life != op.GetLife() || p.Changes != op.GetChanges():
		err = rota.Refusef(rota.KindStale, "changes",
			"job %s is in life %d and was changed %d times in it, not in life %d and changed %d "+
				"times: look at it again", c.ID, p.Life, p.Changes, op.GetLife(), op.GetChanges())
	case after.Difference(&before) == "":
		return nil, &fsmpb.Outcome{JobState: uint32(j.State), Existed: true}
	default:
		return j, nil
	}
	o := entry.Refused(err)
	o.JobState = uint32(j.State)
	return nil, o
}

// changed returns the payload of jobChanged: the changed fields, and for a payload only its size.
func changed(c *rota.JobChange) string {
	told := struct {
		Priority     *int32            `json:"priority,omitempty"`
		Fee          *int64            `json:"fee,omitempty"`
		Labels       map[string]string `json:"labels,omitempty"`
		TTLMs        *int64            `json:"ttl_ms,omitempty"`
		StartByMs    *int64            `json:"start_by_ms,omitempty"`
		PayloadBytes *int              `json:"payload_bytes,omitempty"`
	}{c.Priority, c.Fee, c.Labels, millis.Given(c.TTL), millis.Given(c.StartBy), nil}
	if c.Payload != nil {
		n := len(*c.Payload)
		told.PayloadBytes = &n
	}
	return state.Payload(told)
}
