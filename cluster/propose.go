package cluster

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/failpoint"
	"github.com/rotasched/rota/internal/limits"
)

// proposer puts operations into the log: here, or by the node that leads.
type proposer struct {
	n       *Node
	batcher forwardBatcher
}

// propose puts operations into the log wherever the leader is, and returns their
// outcomes. While there is no leader it waits up to ctx's deadline (SPEC §13.1).
// A batch whose outcome is unknown is proposed again with the same ids, which
// every operation answers with its first outcome (SPEC §2.7); only a revival is
// left to its caller, as its repetition reads as a conflict.
func (pr *proposer) propose(ctx context.Context, ops []*fsmpb.Op) ([]*fsmpb.Outcome, rota.Index, error) {
	b, err := encode(askedBy(ctx, ops))
	if err != nil {
		return nil, 0, err
	}
	return pr.proposeBatch(ctx, b)
}

// askedBy says in operations whose call they belong to; those of a context without a caller
// are what the node does by itself.
func askedBy(ctx context.Context, ops []*fsmpb.Op) []*fsmpb.Op {
	c, ok := ctx.Value(access.CallerKey{}).(access.Caller)
	if ok {
		for _, op := range ops {
			op.Actor, op.Via, op.Request = string(c.Actor), c.Via, c.Request
		}
	}
	return ops
}

// proposeBatch is propose for operations that are encoded already.
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

// proposeOne is propose for a single operation; its refusal is the error.
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
		if l := pr.n.terms.leading(); l != nil {
			r := l.admit(ctx, b, urgent(b.ops), true)
			definite := errors.Is(r.err, errNotLeader)
			switch {
			case r.err == nil, !definite && ctx.Err() != nil:
				return r
			case definite:
				last = notLeader()
			default:
				last = r.err
			}
		} else if r, err := pr.carry(ctx, b); err == nil {
			return r
		} else {
			last = err
			if rota.KindOf(err) == rota.KindDenied {
				// This node is no member any more: its caller is sent to another one.
				return reply{err: &rota.Error{Kind: rota.KindUnavailable, Subject: "node", RetryAfter: 50 * time.Millisecond, Text: err.Error()}}
			}
			if rota.KindOf(err) != rota.KindUnavailable {
				return reply{err: err}
			}
		}
		if err := pr.n.leader.pause(ctx, 25*time.Millisecond); err != nil {
			return reply{err: givenUp(err, last)}
		}
	}
}

// givenUp words why the waiting for a leader ended, and what came last.
func givenUp(err, last error) error {
	if rota.KindOf(err) == rota.KindUnavailable {
		return err // this node stops
	}
	return errNoLeader(last)
}

// pause waits a moment, a change of leadership, or the end of ctx.
func (lw *leaderWatch) pause(ctx context.Context, most time.Duration) error {
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-lw.leaderContext().Done():
		if lw.n.stopping() {
			return errStopping()
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-lw.n.stopped:
		return errStopping()
	}
}

// carry forwards operations, workers' commands together with others'.
func (pr *proposer) carry(ctx context.Context, b batch) (reply, error) {
	if joins(b.ops) {
		return pr.forwardBatched(ctx, b)
	}
	return pr.forward(ctx, b)
}

// forward hands operations to the leader, once; it gives up waiting when the
// leader changes.
func (pr *proposer) forward(ctx context.Context, b batch) (reply, error) {
	leading := pr.n.leader.leaderContext()
	to, ok := pr.n.Leader()
	if !ok {
		return reply{}, notLeader()
	}
	ctx, cancel := until(ctx, leading)
	defer cancel()
	answer, err := pr.n.peers.Forward(ctx, to, b.encoded)
	if err != nil {
		return reply{}, err
	}
	failpoint.Pass("forward-before-answer")
	outcomes, index, ok := entry.OpenOutcomes(answer, len(b.ops))
	if !ok {
		return reply{}, errUnknown(nil)
	}
	return reply{outcomes: outcomes, index: rota.Index(index)}, nil
}

// Forwarded takes commands that another node forwarded. Not leading is a
// definite refusal; nothing is ever forwarded twice.
func (pr *proposer) Forwarded(ctx context.Context, commands []byte) ([]byte, error) {
	reader := readers.Get().(*entry.CommandReader)
	ops, encoded, ok := reader.Read(commands, limits.MaxEntryOps)
	if !ok {
		return nil, rota.Refusef(rota.KindInvalid, "commands", "forwarded commands cannot be decoded, or are none or too many")
	}
	for _, op := range ops {
		if op.GetOp() == nil {
			return nil, errNewer(0, pr.n.replica.rulesInForce())
		}
		if !fsm.Forwardable(op) {
			return nil, rota.Refusef(rota.KindInvalid, "commands", "an internal operation is never forwarded")
		}
	}
	l := pr.n.terms.leading()
	if l == nil {
		return nil, notLeader()
	}
	r := l.admit(ctx, batch{ops: ops, encoded: encoded}, urgent(ops), true)
	if errors.Is(r.err, errNotLeader) {
		return nil, notLeader()
	}
	if r.err != nil {
		return nil, r.err
	}
	readers.Put(reader) // with an error the operations may still stand in a queue
	failpoint.Pass("forwarded-before-answer")
	return entry.AppendOutcomes(nil, r.outcomes, uint64(r.index))
}

// readers read what is forwarded; they keep room for it.
var readers = sync.Pool{New: func() any { return &entry.CommandReader{} }}

// urgent reports whether operations overtake submissions on their way into the log.
func urgent(ops []*fsmpb.Op) bool {
	switch ops[0].GetOp().(type) {
	case *fsmpb.Op_Submit, *fsmpb.Op_OpenWorkflow, *fsmpb.Op_AddNodes, *fsmpb.Op_CommitWorkflow:
		return false
	default:
		return true
	}
}

// subjectNotLeader marks the refusal of a node that does not lead, so that the
// forwarding node knows it from an unknown outcome.
const subjectNotLeader = "not-leader"

func notLeader() error {
	return &rota.Error{Kind: rota.KindUnavailable, Subject: subjectNotLeader, RetryAfter: 50 * time.Millisecond,
		Text: "this node does not lead"}
}

// isNotLeader reports whether a forwarded call was definitely not taken: the other
// node said so, or no connection to it could be made.
func isNotLeader(err error) bool {
	var e *rota.Error
	return errors.As(err, &e) && (e.Subject == subjectNotLeader || e.Subject == SubjectNotSent)
}

// SubjectNotSent is the subject of an Unavailable error by which Peers says
// that a call definitely never left this node.
const SubjectNotSent = "not-sent"

// proposeInTurn is proposeOne for what an entry takes few of: it proposes the same again
// for as long as the log says that too many came at once, until ctx ends.
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
			return o, index, errStopping()
		}
	}
}
