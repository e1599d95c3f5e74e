package cluster

import (
	"context"
	"errors"
	"sync"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/internal/caller"
	"github.com/rotasched/rota/cluster/internal/fault"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/internal/failpoint"
	"github.com/rotasched/rota/internal/limits"
)

// carry forwards operations; workers' commands share calls with others'.
func (pr *proposer) carry(ctx context.Context, b batch) (reply, error) {
	if joins(b.ops) {
		return pr.forwardBatched(ctx, b)
	}
	return pr.forward(ctx, b)
}

// forward sends operations to the leader, once; it stops waiting when the leader changes.
func (pr *proposer) forward(ctx context.Context, b batch) (reply, error) {
	leading := pr.leader.leaderContext()
	to, ok := pr.membership.Leader()
	if !ok {
		return reply{}, fault.NotLeader()
	}
	ctx, cancel := caller.Until(ctx, leading)
	defer cancel()
	answer, err := pr.n.peers.Forward(ctx, to, b.encoded)
	if err != nil {
		return reply{}, err
	}
	failpoint.Pass("forward-before-answer")
	outcomes, index, ok := entry.OpenOutcomes(answer, len(b.ops))
	if !ok {
		return reply{}, fault.Unknown(nil)
	}
	return reply{outcomes: outcomes, index: rota.Index(index)}, nil
}

// Forwarded proposes commands that another node forwarded. If this node is not the leader, it rejects them definitely;
// nothing is ever forwarded twice.
func (pr *proposer) Forwarded(ctx context.Context, commands []byte) ([]byte, error) {
	reader := readers.Get().(*entry.CommandReader)
	ops, encoded, known, ok := reader.Read(commands, limits.MaxEntryOps)
	if !ok {
		return nil, rota.Refusef(rota.KindInvalid, "commands",
			"forwarded commands cannot be decoded, or are none or too many")
	}
	if !known {
		return nil, fault.Newer(0, pr.n.replica.RulesInForce())
	}
	for _, op := range ops {
		if op.GetOp() == nil {
			return nil, fault.Newer(0, pr.n.replica.RulesInForce())
		}
		if !fsm.Forwardable(op) {
			return nil, rota.Refusef(rota.KindInvalid, "commands", "an internal operation is never forwarded")
		}
	}
	l := pr.terms.leading()
	if l == nil {
		return nil, fault.NotLeader()
	}
	r := l.admit(ctx, batch{ops: ops, encoded: encoded}, urgent(ops), true)
	if errors.Is(r.err, errNotLeader) {
		return nil, fault.NotLeader()
	}
	if r.err != nil {
		return nil, r.err
	}
	readers.Put(reader) // after an error the operations may still be in a queue
	failpoint.Pass("forwarded-before-answer")
	return entry.AppendOutcomes(nil, r.outcomes, uint64(r.index))
}

// readers decode forwarded commands; they reuse their memory.
var readers = sync.Pool{New: func() any { return &entry.CommandReader{} }}
