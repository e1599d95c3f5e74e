package cluster

import (
	"context"
	"sync/atomic"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// queueGate refuses submissions to full queues before the log (SPEC §4.4, §4.6). Each refusal
// through it would cost three nodes as much as a job does, just when there is no more to
// give. The machine decides, on what this leader has applied; until an entry of this very
// leadership was refused that way nothing is asked of it, so that an ordinary submission
// costs nothing, and the machine knows every job that was ever acknowledged.
//
// The simpler way, to ask always, was refused: each proposal would wait for the machine's
// lock, and miss the entry that goes out meanwhile.
type queueGate struct{ seen atomic.Bool }

// fullSubjects are what Crowded refuses by.
var fullSubjects = map[string]bool{"queue": true, "bytes_max": true, "state_bytes_max": true}

// note looks for a refusal by a full queue among what became of a proposal.
func (g *queueGate) note(ops []*fsmpb.Op, outcomes []*fsmpb.Outcome) {
	for i, o := range outcomes {
		if ops[i].GetSubmit() != nil && rota.Kind(o.GetKind()) == rota.KindExhausted && fullSubjects[o.GetSubject()] {
			g.seen.Store(true)
			return
		}
	}
}

// refuseQueued answers what full queues refuse.
func (pr *proposer) refuseQueued(_ context.Context, l *leadership, ops []*fsmpb.Op, answers []*fsmpb.Outcome) ([]*fsmpb.Outcome, error) {
	if !l.queues.seen.Load() {
		return answers, nil
	}
	submits, full := 0, false
	pr.n.replica.look(func(s *fsm.View) {
		for i, op := range ops {
			submit := op.GetSubmit()
			if submit == nil || answers != nil && answers[i] != nil {
				continue
			}
			submits++
			if o := s.QueueFull(submit); o != nil {
				answers, full = answer(answers, ops, i, o), true
			}
		}
	})
	if submits > 0 && !full {
		l.queues.seen.Store(false)
	}
	return answers, nil
}
