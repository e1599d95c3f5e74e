package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// stateDiffers is the payload of that event.
type stateDiffers struct {
	Node  rota.NodeID `json:"node"`
	Index rota.Index  `json:"index"`
}

// nodeDiffers tells by an event that a node's state was wrong (SPEC §2.5), once for
// each doubt: what was told of the node after it was last right is told already. The
// row remembers it, as a new leader would say it again otherwise.
func (m *Machine) nodeDiffers(op *fsmpb.NodeDiffers) *fsmpb.Outcome {
	if o := m.internal(); o != nil {
		return o
	}
	id, at, right := rota.NodeID(op.GetNode()), rota.Index(op.GetIndex()), rota.Index(op.GetRightUntil())
	if err := rota.CheckID("node", id); err != nil {
		return refused(err)
	}
	if at >= m.at || right >= at {
		return refused(rota.Refusef(rota.Invalid, "index", "node %s differed at %d and was right until %d, this is entry %d: they are "+
			"wanted in ascending order", id, at, right, m.at))
	}
	old := m.nodes.get(id)
	if old == nil {
		return refused(rota.Refusef(rota.NotFound, "node", "node %s was never a member", id))
	}
	if old.differed > right {
		return &fsmpb.Outcome{Existed: true}
	}
	m.nodes.edit(id).differed = at
	m.journal.emit(rota.Event{Kind: rota.StateDiffers, Text: string(id), Payload: payload(stateDiffers{id, at})})
	return &fsmpb.Outcome{}
}
