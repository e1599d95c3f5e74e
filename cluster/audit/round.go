package audit

import (
	"context"
	"errors"

	"github.com/hashicorp/raft"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// roundWithin is the maximum number of entries between a round's height and its entry: entries in flight when it is
// decided come before it, and their number is bounded.
const roundWithin = 4_096

var errFound = errors.New("found")

// Logged is a round as stored in the log.
type Logged struct {
	*fsmpb.Round
	// Index is the index of its entry; With holds the submissions it was decided with, nil for the state alone.
	Index rota.Index
	With  *fsm.Arrivals
}

// Round returns the logged round of an epoch for a height; NotFound if there is none up to an index.
func Round(ctx context.Context, log Log, epoch uint64, height, to rota.Index) (found Logged, err error) {
	last := min(to, height+roundWithin)
	err = walkLog(ctx, log, uint64(height)+1, uint64(last), func(l *raft.Log) error {
		p, err := entry.Peek(rota.Index(l.Index), l.Data)
		if err != nil {
			return err
		}
		for _, r := range p.Rounds {
			if p.Term != l.Term {
				break // decided in an ended leadership: it was dropped
			}
			if r.GetEpoch() == epoch && rota.Index(r.GetHeight()) == height {
				found = Logged{Round: r, Index: rota.Index(l.Index)}
				if r.GetWith() > 0 {
					found.With = &fsm.Arrivals{Ops: p.Ops, Now: p.Now}
				}
				return errFound
			}
		}
		return nil
	})
	if found.Round != nil {
		return found, nil
	}
	if err == nil {
		err = rota.Refusef(rota.KindNotFound, "epoch",
			"no round of epoch %d was decided at height %d: a decision of a job has both", epoch, height)
	}
	return found, err
}
