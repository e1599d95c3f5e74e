package cluster

import (
	"context"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// answerKnown answers submissions of ids that ended beyond the tombstones (SPEC §9.4): jobs that the archive knows and
// the state does not, or soon may not. As everywhere, the same content is the same submission and different content is
// rejected (SPEC §16.5). Before the first tombstone is removed this costs nothing.
func (pr *proposer) answerKnown(ctx context.Context, _ *leadership, ops []*fsmpb.Op,
	answers []*fsmpb.Outcome) ([]*fsmpb.Outcome, error) {
	ids, places := pr.forgotten(ops, answers)
	if len(ids) == 0 {
		return answers, nil
	}
	ends, err := pr.n.archive.LastEnds(ctx, ids)
	if err != nil {
		return nil, err
	}
	for i := range ends {
		if e := &ends[i]; e.Job.State.Terminal() {
			op := ops[places[i]]
			o := e.Again(op.GetSubmit().GetSpec())
			pr.n.replica.Look(func(s *fsm.View) {
				if taken := s.Taken(op, e.Job.Tenant, e.Job.Queue); taken != nil {
					o = taken
				}
			})
			answers = answer(answers, ops, places[i], o)
		}
	}
	return answers, nil
}

// forgotten returns the submitted ids, and their places, that the state may no longer know.
func (pr *proposer) forgotten(ops []*fsmpb.Op, answers []*fsmpb.Outcome) (ids []rota.JobID, places []int) {
	pr.n.replica.Look(func(s *fsm.View) {
		if !s.Forgetful() {
			return
		}
		for i, op := range ops {
			submit := op.GetSubmit()
			if submit == nil || submit.GetMinted() || answers != nil && answers[i] != nil {
				continue
			}
			id := rota.JobID(submit.GetSpec().GetId())
			if _, fading, ok := s.Tombstone(id); ok && !fading || !ok && s.JobState(id) != rota.JobNone {
				continue
			}
			ids, places = append(ids, id), append(places, i)
		}
	})
	return ids, places
}
