package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/internal/caller"
	"github.com/rotasched/rota/cluster/internal/fault"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// proposer puts operations into the log: on this node, or through the leader.
type proposer struct {
	n          *base
	leader     *leaderWatch
	disk       *diskGate
	membership *membership
	terms      *terms
	batcher    forwardBatcher
}

// propose puts operations into the log wherever the leader is, and returns their outcomes. While there is no leader it
// waits up to ctx's deadline (SPEC §13.1). A batch whose outcome is unknown is proposed again with the same ids, which
// every operation answers with its first outcome (SPEC §2.7). Only revivals are left to the caller, since repeating one
// is answered with a conflict.
func (pr *proposer) propose(ctx context.Context, ops []*fsmpb.Op) ([]*fsmpb.Outcome, rota.Index, error) {
	b, err := encode(caller.Sign(ctx, ops))
	if err != nil {
		return nil, 0, err
	}
	return pr.proposeBatch(ctx, b)
}

// proposeBatch is propose for operations that are already encoded.
func (pr *proposer) proposeBatch(ctx context.Context, b batch) ([]*fsmpb.Outcome, rota.Index, error) {
	var outcomes []*fsmpb.Outcome
	var index rota.Index
	for at := 0; at < len(b.ops); {
		k := b.chunk(at)
		r := pr.proposeChunk(ctx, b.part(at, at+k))
		if r.err != nil {
			return nil, 0, r.err
		}
		if k == len(b.ops) {
			return r.outcomes, r.index, nil
		}
		outcomes, index, at = append(outcomes, r.outcomes...), max(index, r.index), at+k
	}
	return outcomes, index, nil
}

// proposeFirst proposes as many of the first operations as fit into one entry, and returns their outcomes.
func (pr *proposer) proposeFirst(ctx context.Context, ops []*fsmpb.Op) ([]*fsmpb.Outcome, error) {
	b, err := encode(caller.Sign(ctx, ops))
	if err != nil {
		return nil, err
	}
	outcomes, _, err := pr.proposeBatch(ctx, b.part(0, b.chunk(0)))
	return outcomes, err
}

// proposeOne is propose for a single operation; its rejection is the error.
func (pr *proposer) proposeOne(ctx context.Context, op *fsmpb.Op) (*fsmpb.Outcome, rota.Index, error) {
	outcomes, index, err := pr.propose(ctx, []*fsmpb.Op{op})
	if err != nil {
		return nil, 0, err
	}
	if e := entry.OutcomeError(outcomes[0]); e != nil {
		return outcomes[0], index, e
	}
	return outcomes[0], index, nil
}

func (pr *proposer) proposeChunk(ctx context.Context, b batch) reply {
	ops := b.ops
	if err := pr.refuseNewer(ops, nil); err != nil {
		return reply{err: err}
	}
	var last error
	for {
		if l := pr.terms.leading(); l != nil {
			r := l.admit(ctx, b, urgent(b.ops), true)
			definite := errors.Is(r.err, errNotLeader)
			switch {
			case r.err == nil, !definite && ctx.Err() != nil:
				return r
			case definite:
				last = fault.NotLeader()
			default:
				last = r.err
			}
		} else if r, err := pr.carry(ctx, b); err == nil {
			return r
		} else {
			last = err
			if rota.KindOf(err) == rota.KindDenied {
				// This node is no longer a member: the caller is directed to another one.
				return reply{err: &rota.Error{Kind: rota.KindUnavailable, Subject: "node",
					RetryAfter: 50 * time.Millisecond, Text: err.Error()}}
			}
			if rota.KindOf(err) != rota.KindUnavailable {
				return reply{err: err}
			}
		}
		if err := pr.leader.pause(ctx, 25*time.Millisecond); err != nil {
			return reply{err: givenUp(err, last)}
		}
	}
}

// givenUp returns the error for why waiting for a leader ended, including the last error before.
func givenUp(err, last error) error {
	if rota.KindOf(err) == rota.KindUnavailable {
		return err // this node stops
	}
	return fault.NoLeader(last)
}

// proposeInTurn is proposeOne for operations of which an entry holds few: it proposes again, until ctx ends, while the
// log answers that too many came at once.
func (pr *proposer) proposeInTurn(ctx context.Context, op *fsmpb.Op) (*fsmpb.Outcome, rota.Index, error) {
	for {
		o, index, err := pr.proposeOne(ctx, op)
		if !fsm.ManyAtOnce(err) {
			return o, index, err
		}
		pause := time.NewTimer(50 * time.Millisecond)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return o, index, err
		case <-pr.n.stopped:
			pause.Stop()
			return o, index, fault.Stopping()
		}
	}
}
