package transport

import (
	"context"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/rest"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/peer"
)

// webLanes returns the core's Lanes for HTTP.
func (s *Server) webLanes(ctx context.Context, queue string, most int, oldest bool,
	read *rotav1.Read) (list rest.Lanes, at *rotav1.ReadAt, err error) {
	if err := rota.CheckID("queue", queue); err != nil {
		return list, nil, err
	}
	found, seen, err := s.options.Core.Lanes(ctx, peer.LanesQuery{Queue: rota.QueueName(queue), Most: most,
		Oldest: oldest}, words.ReadFromWire(read))
	if err != nil {
		return list, nil, err
	}
	list = rest.Lanes{Queue: found.Queue, LanesTotal: found.Lanes, ThrottledTotal: found.Throttled,
		Lanes: make([]rest.Lane, len(found.First))}
	for i := range found.First {
		list.Lanes[i] = laneOf(&found.First[i])
	}
	return list, words.ReadAtToWire(seen), nil
}

func laneOf(l *peer.Lane) rest.Lane {
	return rest.Lane{Tenant: l.Tenant, Type: l.Type, Domain: l.Domain, Keys: l.Keys, Jobs: l.Jobs,
		OldestWaitMs: l.OldestWait.Milliseconds(),
		Oldest:       l.Oldest, Head: l.Head, Priority: l.Priority, Throttled: l.Throttled,
		Reasons: append([]rota.Why{}, l.Reasons...)}
}

// webViews returns the core's Views for HTTP.
func (s *Server) webViews(ctx context.Context) (all rest.Views, err error) {
	found, err := s.options.Core.Views(ctx)
	ago := func(ms int64) *int64 {
		if ms < 0 {
			return nil
		}
		return &ms
	}
	all.Nodes = make([]rest.NodeViews, len(found))
	for i, n := range found {
		of := rest.NodeViews{Node: n.ID, Error: n.Error, Views: make([]rest.NodeView, len(n.Views))}
		for k, v := range n.Views {
			of.Views[k] = rest.NodeView{Node: v.ID, Gossip: v.Gossip, AnsweredMsAgo: ago(v.AnsweredMs),
				RaftMsAgo: ago(v.RaftMs), Error: v.Error}
		}
		all.Nodes[i] = of
	}
	return all, err
}

// webRound returns the core's Round for HTTP.
func (s *Server) webRound(ctx context.Context, epoch, height uint64) (round rest.Round, at *rotav1.ReadAt, err error) {
	found, seen, err := s.options.Core.Round(ctx, epoch, rota.Index(height))
	if err != nil {
		return round, nil, err
	}
	round = rest.Round{Epoch: found.Epoch, Height: found.Height, Index: found.Index, Queue: found.Queue,
		Seed: found.Seed, Proved: found.Proved,
		Workers: found.Workers, Room: found.Room, LoggedText: found.LoggedText, ComputedText: found.ComputedText,
		Candidates: []rest.Candidate{}}
	placed := make(map[rota.JobID]rest.Candidate, len(found.Computed))
	drawn := make(map[rota.JobID]bool, len(found.Candidates))
	for _, c := range found.Candidates {
		drawn[c.Job] = true
	}
	for i := range found.Computed {
		c := placedCandidate(&found.Computed[i])
		if placed[c.Job] = c; !drawn[c.Job] { // before the draw
			round.Candidates = append(round.Candidates, c)
		}
	}
	for _, c := range found.Candidates {
		one, ok := placed[c.Job]
		if !ok {
			one = rest.Candidate{Job: c.Job, Rank: c.Rank, Score: c.Score}
		}
		round.Candidates = append(round.Candidates, one)
	}
	if !found.Proved {
		for i := range found.Logged {
			round.Logged = append(round.Logged, placedCandidate(&found.Logged[i]))
		}
	}
	return round, words.ReadAtToWire(seen), nil
}

func placedCandidate(p *peer.Pair) rest.Candidate {
	return rest.Candidate{Job: p.Job, Rank: p.Rank, Score: p.Score, Worker: p.Worker, Reasoning: &p.Reasoning,
		Interleaved: p.Interleaved}
}
