package cluster

import (
	"context"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// fullSubjects are the subjects of Crowded's errors.
var fullSubjects = map[string]bool{"queue": true, "bytes_max": true, "state_bytes_max": true}

// note looks for a rejection by a full queue among the outcomes of a proposal.
func (g *queueGate) note(ops []*fsmpb.Op, outcomes []*fsmpb.Outcome) {
	for i, o := range outcomes {
		if ops[i].GetSubmit() != nil && rota.Kind(o.GetKind()) == rota.KindExhausted && fullSubjects[o.GetSubject()] {
			g.seen.Store(true)
			return
		}
	}
}

// refuseQueued rejects submissions to full queues.
func (pr *proposer) refuseQueued(_ context.Context, l *leadership, ops []*fsmpb.Op,
	answers []*fsmpb.Outcome) ([]*fsmpb.Outcome, error) {
	if !l.queues.seen.Load() {
		return answers, nil
	}
	submits, full := 0, false
	pr.n.replica.Look(func(s *fsm.View) {
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
