package sched

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/rotasched/rota"
)

// tierSource gives a round over tiers its candidates (SPEC §5.3): a stratified sample, scored and sorted, and another
// one once that is used up.
type tierSource struct {
	tiers   []*pendingSource
	scoring *Scoring
	in      RoundInput
	// weights caches the weights of the types met.
	weights map[rota.JobType]float64
	list    []scored
	at      int
}

// scored is a candidate with its score as a double.
type scored struct {
	candidate
	value float64
}

func newTierSource(p *Pending, r *rooms, in RoundInput, d *Draft) *tierSource {
	s := &tierSource{in: in, scoring: ScoringOf(in.Policy), weights: map[rota.JobType]float64{}}
	for i := range p.tiers {
		s.tiers = append(s.tiers, newPendingSource(p, r, in, d, &p.tiers[i].group))
	}
	s.more(r)
	return s
}

// more draws the next sample: from each tier the first jobs, in the order of entering it, that have room now and are
// not shut. It fills the quotas first. What a tier cannot fill is filled from the top tier down.
func (s *tierSource) more(r *rooms) bool {
	s.list, s.at = s.list[:0], 0
	left := 0
	quotas := s.scoring.Quotas(int(s.in.Policy.BatchSize))
	for i, quota := range quotas[:len(s.tiers)] {
		left += quota - s.pull(i, quota, r)
	}
	for i := range s.tiers {
		left -= s.pull(i, left, r)
	}
	slices.SortFunc(s.list, func(a, b scored) int {
		return cmp.Or(cmp.Compare(b.value, a.value), cmp.Compare(a.item.Enqueued, b.item.Enqueued),
			strings.Compare(string(a.item.ID), string(b.item.ID)))
	})
	return len(s.list) > 0
}

// pull samples at most n jobs of a tier and returns how many it sampled.
func (s *tierSource) pull(tier, n int, r *rooms) (pulled int) {
	for ; pulled < n; pulled++ {
		c, ok := s.tiers[tier].peek(r)
		if !ok {
			break
		}
		s.tiers[tier].take()
		x := scored{candidate: c, value: s.score(c.item)}
		x.key = int64(math.Float64bits(x.value))
		x.candidate.score = x.key
		s.list = append(s.list, x)
	}
	return pulled
}

func (s *tierSource) score(it *Item) float64 {
	weight, known := s.weights[it.Type]
	if !known {
		weight = s.scoring.Weight(statsOf(s.in.Stats, it.Type))
		s.weights[it.Type] = weight
	}
	return s.scoring.score(weight, it.Priority, int64(s.in.Now-it.Enqueued), it.Size)
}

func (s *tierSource) peek(r *rooms) (candidate, bool) {
	for ; s.at < len(s.list); s.at++ {
		if c := s.list[s.at].candidate; r.has(c.item.Class) && !s.tiers[0].draft.shut(s.in.Queue, c.lane) &&
			!r.barred(c.lane) {
			return c, true
		}
	}
	return candidate{}, false
}

func (s *tierSource) take() { s.at++ }

func (s *tierSource) group(first candidate) (all []*Item, ok bool) {
	start := s.at
	for start > 0 && s.list[start-1].ties(first) {
		start--
	}
	start += (s.at - start) / groupMax * groupMax
	for i := start; i < len(s.list) && len(all) < groupMax && s.list[i].ties(first); i++ {
		all = append(all, s.list[i].item)
	}
	return all, true
}

// ScoreOf returns the number displayed for a pending job of a lot (Pair.Score), whether or not the job was drawn.
func ScoreOf(lot Lot, it *Item, now rota.Clock) int64 {
	if !lot.Pending.tiered {
		return ScoreAt(lot.Policy, it.Key, now)
	}
	stats := statsOf(lot.Stats, it.Type)
	return int64(math.Float64bits(ScoringOf(lot.Policy).Score(stats, it.Priority, int64(now-it.Enqueued), it.Size)))
}

func statsOf(stats func(rota.JobType) Stats, typ rota.JobType) Stats {
	if stats == nil {
		return Stats{}
	}
	return stats(typ)
}
