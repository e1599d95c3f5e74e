package sched

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/rotasched/rota"
)

// Scored is a job with the score of a ranking that is computed anew each round.
type Scored struct {
	Item  *Item
	Score float64
}

func (s Scored) candidate() candidate {
	bits := int64(math.Float64bits(s.Score))
	return candidate{item: s.Item, key: bits, score: bits}
}

// Adaptive samples n jobs of the tiers (each given in the order of entering it),
// scores them, and sorts them by (score DESC, enqueued, id) (SPEC §5.3). The
// base is that of the tier submitted at, which is the priority's.
func Adaptive(tiers [5][]*Item, stats func(rota.JobType) Stats, now rota.Clock, n int) []Scored {
	var depths [5]int
	for i := range tiers {
		depths[i] = len(tiers[i])
	}
	taken := SampleTaken(n, depths)
	var list []Scored
	for i := range tiers {
		for _, it := range tiers[i][:taken[i]] {
			score := AdaptiveScore(stats(it.Type), TierOf(it.Priority), int64(now-it.Enqueued), it.SizeBytes)
			list = append(list, Scored{it, score})
		}
	}
	slices.SortFunc(list, func(a, b Scored) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Item.Enqueued, b.Item.Enqueued),
			strings.Compare(string(a.Item.ID), string(b.Item.ID)))
	})
	return list
}
