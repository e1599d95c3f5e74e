package cluster

import (
	"context"
	"errors"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/snapshot/archive"
)

// answerKnown answers submissions of ids that ended beyond the tombstones (SPEC §9.4): of jobs
// that the archive knows and the state does not, or may not a moment from now. As everywhere,
// the same content is the same submission and another one is refused (SPEC §16.5). While no
// tombstone was ever taken that costs nothing.
func (pr *proposer) answerKnown(ctx context.Context, _ *leadership, ops []*fsmpb.Op, answers []*fsmpb.Outcome) ([]*fsmpb.Outcome, error) {
	ids, places := pr.forgotten(ops)
	if len(ids) == 0 {
		return answers, nil
	}
	ends := make([]fsm.Ended, len(ids))
	var unsure []int
	lost, gaps := false, len(pr.n.history.lacks(1)) > 0
	deleted := pr.n.replica.firstDeleted() != 0
	for i, id := range ids {
		e, ok, err := pr.n.history.lastEnd(id)
		if gone := errors.Is(err, archive.ErrMarksDamaged); gone && !pr.n.history.alone() {
			lost = true
		} else if err != nil {
			return nil, unreadable(err)
		}
		if ends[i] = e; !ok || gaps && deleted { // what is here may be an earlier life of what was deleted
			unsure = append(unsure, i)
		}
	}
	if len(unsure) > 0 && (lost || gaps) {
		asked := make([]rota.JobID, len(unsure))
		for i, at := range unsure {
			asked[i] = ids[at]
		}
		found, err := pr.n.history.askPeers(ctx, asked)
		if err != nil {
			return nil, &rota.Error{Kind: rota.KindUnavailable, Subject: "archive", RetryAfter: fetchEvery, Cause: err,
				Text: "the leader's history has gaps, and whether these ids are known could not be asked of all other nodes: submit again"}
		}
		for i, at := range unsure {
			if found[i].Seq >= ends[at].Seq {
				ends[at] = found[i]
			}
		}
	}
	for i := range ends {
		if e := &ends[i]; e.Job.State.Terminal() {
			answers = answer(answers, ops, places[i], e.Again(ops[places[i]].GetSubmit().GetSpec()))
		}
	}
	return answers, nil
}

// forgotten returns the ids, and their places, that are submitted and that the state
// does not know for sure any more.
func (pr *proposer) forgotten(ops []*fsmpb.Op) (ids []rota.JobID, places []int) {
	pr.n.replica.look(func(s *fsm.View) {
		if !s.Forgetful() {
			return
		}
		for i, op := range ops {
			submit := op.GetSubmit()
			if submit == nil || submit.GetMinted() {
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
