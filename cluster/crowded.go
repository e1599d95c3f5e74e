package cluster

import (
	"sync/atomic"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// crowd refuses submissions to full queues before the log (SPEC §4.4, §4.6). Each refusal
// through it would cost three nodes as much as a job does, just when there is no more to
// give. The machine decides, on what this leader has applied; until an entry of this very
// leadership was refused that way nothing is asked of it, so that an ordinary submission
// costs nothing, and the machine knows every job that was ever acknowledged.
//
// The simpler way, to ask always, was refused: each proposal would wait for the machine's
// lock, and miss the entry that goes out meanwhile.
type crowd struct{ seen atomic.Bool }

// note looks for a refusal by a full queue among what became of a proposal.
func (c *crowd) note(ops []*fsmpb.Op, outcomes []*fsmpb.Outcome) {
	for i, o := range outcomes {
		if ops[i].GetSubmit() != nil && rota.Kind(o.GetKind()) == rota.Exhausted && o.GetSubject() == "queue" {
			c.seen.Store(true)
			return
		}
	}
}

// refuse answers what full queues refuse at its place, beside what was refused already;
// nil where nothing is.
func (c *crowd) refuse(n *Node, ops []*fsmpb.Op, refused []*fsmpb.Outcome) []*fsmpb.Outcome {
	if !c.seen.Load() {
		return refused
	}
	submits, full := 0, false
	n.replica.look(func(s *fsm.View) {
		for i, op := range ops {
			submit := op.GetSubmit()
			if submit == nil || refused != nil && refused[i] != nil {
				continue
			}
			submits++
			if o := s.Crowded(submit); o != nil {
				if refused == nil {
					refused = make([]*fsmpb.Outcome, len(ops))
				}
				refused[i], full = o, true
			}
		}
	})
	if submits > 0 && !full {
		c.seen.Store(false)
	}
	return refused
}
