package foresight

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rotasched/rota"
)

// bounds computes for each job how long it may wait by SPEC §26.4, in ms; none says why there is no such bound. The simulator decides at
// every event: δ is 0.
func (l *Life) bounds(fates []Fate) (of []int64, none string) {
	if l.Flow != nil {
		return nil, "a workflow: its nodes come as others end"
	}
	q := rota.StandardPolicy()
	for _, s := range l.Settings {
		if err := q.Set(s); err != nil {
			return nil, err.Error()
		}
	}
	if none = unboundedBy(&q); none != "" {
		return nil, none
	}
	estimate := func(j *Job) int64 {
		if l.Exact {
			return j.Run
		}
		return j.Estimate
	}
	longest, run, outlived := int64(0), int64(0), q.Estimate != rota.EstimateByUser
	for i := range l.Jobs {
		j := &l.Jobs[i]
		longest, run = max(longest, estimate(j)), max(run, j.Run)
		outlived = outlived || j.Run > estimate(j)
	}
	first := longest // after so long the first job starts
	if outlived {
		first = max(longest, run) + run
	}
	before := l.before(fates, q.OldestEvery > 0, func(j *Job) int64 {
		switch {
		case q.Ranking != rota.RankShortest:
			return j.Submit
		case q.Estimate != rota.EstimateByUser: // what was learned by then is not more than what ran
			return j.Submit + q.ShortestAging*max(longest, run)
		}
		return j.Submit + q.ShortestAging*estimate(j)
	})
	of = make([]int64, len(l.Jobs))
	for i := range of {
		of[i] = (before[i] + 1) * first
	}
	return of, ""
}

// unboundedBy names the setting by which a wait has no bound that SPEC §26.4 has, "" if none does.
func unboundedBy(q *rota.QueuePolicy) string {
	switch {
	case q.Backfill == rota.BackfillFree:
		return "backfill=free: whatever fits may start before a job that does not"
	case q.FairShare:
		return "fair_share=on: the order follows what tenants run"
	case q.Ranking == rota.RankShortest && q.ShortestAging == 0:
		return "shortest_aging=0: shorter jobs may come for ever"
	case q.Ranking != rota.RankShortest && q.Ranking != rota.RankFIFO:
		return fmt.Sprintf("ranking=%s: the bound is that of fifo and shortest", q.Ranking)
	case q.Ranking == rota.RankShortest && q.Estimate.Learned():
		return fmt.Sprintf("estimate=%s: the order follows what is learned", q.Estimate)
	case q.Estimate == rota.EstimateByType:
		return "estimate=type: nothing is said of how long jobs take"
	case q.Preempt:
		return "preempt=on: a job that gives way begins anew"
	}
	return ""
}

// before counts for each job those that go before it: those that wait when it comes, and those that come later and precede it by their
// keys. Unless all that wait may, only those of them do that precede it.
func (l *Life) before(fates []Fate, all bool, key func(*Job) int64) []int64 {
	n := len(l.Jobs)
	order, started := make([]int, n), make([]int, n)
	for i := range order {
		order[i], started[i] = i, i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(key(&l.Jobs[a]), key(&l.Jobs[b])), cmp.Compare(a, b)) })
	place := make([]int, n)
	for at, i := range order {
		place[i] = at
	}
	left := func(i int) int64 { // it waits no more from then on
		if fates[i].Start >= 0 {
			return fates[i].Start
		}
		return fates[i].End
	}
	slices.SortFunc(started, func(a, b int) int { return cmp.Compare(left(a), left(b)) })
	count := make([]int64, n)
	later, waiting := newCounts(n), newCounts(n)
	for i := n - 1; i >= 0; i-- {
		count[i] = later.below(place[i])
		later.add(place[i], 1)
	}
	gone, inside := 0, make([]bool, n)
	for i := range n {
		for ; gone < n && left(started[gone]) <= l.Jobs[i].Submit; gone++ {
			if j := started[gone]; inside[j] {
				waiting.add(place[j], -1)
				inside[j] = false
			}
		}
		if all {
			count[i] += waiting.below(n)
		} else {
			count[i] += waiting.below(place[i])
		}
		if left(i) > l.Jobs[i].Submit {
			waiting.add(place[i], 1)
			inside[i] = true
		}
	}
	return count
}

// counts are numbers at places, of which sums are asked for (a Fenwick tree).
type counts []int64

func newCounts(n int) counts { return make(counts, n+1) }

func (c counts) add(place int, by int64) {
	for i := place + 1; i < len(c); i += i & -i {
		c[i] += by
	}
}

// below sums what is before a place.
func (c counts) below(place int) (sum int64) {
	for i := place; i > 0; i -= i & -i {
		sum += c[i]
	}
	return sum
}
