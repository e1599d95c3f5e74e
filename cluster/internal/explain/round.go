package explain

import (
	"context"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/audit"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
	"github.com/rotasched/rota/sched"
)

// Round recomputes a round on the state at its height, and compares it with the one in the log (SPEC §2.4).
func (ex *Explainer) Round(ctx context.Context, epoch uint64,
	height rota.Index) (r peer.Round, seen rota.ReadAt, err error) {
	if seen, err = ex.n.Replica.Fresh(ctx, peer.ReadOptions{Stale: true}); err != nil {
		return r, seen, err
	}
	rd, err := ex.n.Replica.Reader(ctx)
	if err != nil {
		return r, seen, err
	}
	if height >= seen.Index {
		return r, seen, rota.Refusef(rota.KindOutOfRange, "height",
			"height %d has no entry after it yet: this node has applied %d", height, seen.Index)
	}
	logged, err := audit.Round(ctx, ex.n.Stores.Log, epoch, height, seen.Index)
	if err != nil {
		return r, seen, err
	}
	var computed *fsmpb.Round
	var sight sched.Sight
	var seed sched.Hash
	if err := ex.Reader.at(ctx, height, func(m *fsm.Machine) {
		computed, sight, seed = m.ReenactRound(epoch, logged.With, limits.MaxDecide)
	}); err != nil {
		return r, seen, err
	}
	r = compared(logged.Round, computed)
	r.Epoch, r.Height, r.Index, r.Seed, r.Room = epoch, height, logged.Index, slices.Clone(seed[:]), sight.Room
	for _, c := range sight.Candidates {
		r.Candidates = append(r.Candidates, peer.Candidate{Job: c.Job, Score: rota.Score(c.Score), Rank: c.Rank})
	}
	if rd.Has(rota.RightStatus, access.Everything, access.Everything) {
		r.Workers = sight.Workers
	}
	return r, seen, nil
}

// compared compares a round of the log with the recomputed one, nil for none. The result shows both if they differ.
func compared(logged, computed *fsmpb.Round) peer.Round {
	r := peer.Round{Queue: rota.QueueName(logged.GetQueue()), Logged: pairsOf(logged), Computed: pairsOf(computed)}
	if r.Proved = computed != nil && proto.Equal(logged, computed); !r.Proved {
		r.LoggedText, r.ComputedText = audit.RoundTexts(logged, computed)
	}
	return r
}

func pairsOf(r *fsmpb.Round) (pairs []peer.Pair) {
	for _, p := range r.GetPairs() {
		pairs = append(pairs, peer.Pair{Job: rota.JobID(p.GetJob()), Worker: rota.WorkerID(p.GetWorker()),
			Score: rota.Score(p.GetScore()), Rank: p.GetRank(),
			Reasoning:   rota.Reasoning{Rule: rota.ReasoningRule(p.GetRule()), N: p.GetN(), Of: p.GetOf()},
			Interleaved: p.GetInterleaved()})
	}
	return pairs
}
