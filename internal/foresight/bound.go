package foresight

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	"github.com/rotasched/rota"
)

// bounds computes for each job how long it may wait by SPEC §26.4, in ms; none is the reason if there is no such bound.
// The simulator decides at every event: δ is 0.
func (l *Life) bounds(fates []Fate) (of []int64, none string) {
	if l.Limits != nil {
		return nil, "limits: jobs also wait for their keys and budgets"
	}
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
	longest, run, outlived := int64(0), int64(0), q.Estimate != rota.EstimateByUser
	for i := range l.Jobs {
		longest, run = max(longest, l.expected(i)), max(run, l.Jobs[i].Run)
		outlived = outlived || l.Jobs[i].Run > l.expected(i)
	}
	first := longest // the first job starts at the latest after this time
	if outlived {
		first = max(longest, run) + run
	}
	before := l.before(fates, q.OldestEvery > 0, l.keys(&q))
	of = make([]int64, len(l.Jobs))
	for i := range of {
		of[i] = (before[i] + 1) * first
	}
	return of, ""
}

// unboundedBy returns the setting because of which SPEC §26.4 gives no bound on a wait, "" if there is none.
func unboundedBy(q *rota.QueuePolicy) string {
	switch {
	case q.Backfill == rota.BackfillFree:
		return "backfill=free: whatever fits may start before a job that does not"
	case q.FairShare:
		return "fair_share=on: the order depends on the running jobs of tenants"
	case q.Ranking != rota.RankFIFO && q.Ranking != rota.RankShortest && q.Ranking != rota.RankSmallest:
		return fmt.Sprintf("ranking=%s: the bound is that of fifo, shortest and smallest", q.Ranking)
	case q.Ranking != rota.RankFIFO && q.ShortestAging == 0:
		return "shortest_aging=0: shorter jobs may come for ever"
	case q.Estimate == rota.EstimateByType:
		return "estimate=type: jobs have no stated run times"
	case q.Preempt:
		return "preempt=on: a preempted job begins again"
	}
	return ""
}

// keys returns the keys that order the jobs: the least and the greatest possible key of each job. A learned estimate is
// between zero and the declared one.
func (l *Life) keys(q *rota.QueuePolicy) (keys keysOf) {
	part := func(*Job) int64 { return million }
	if q.Ranking == rota.RankSmallest {
		part = l.parts()
	}
	keys.least, keys.most = make([]int64, len(l.Jobs)), make([]int64, len(l.Jobs))
	for i := range l.Jobs {
		at := l.Jobs[i].Submit
		if keys.least[i], keys.most[i] = at, at; q.Ranking == rota.RankFIFO {
			continue
		}
		hi, lo := bits.Mul64(uint64(l.expected(i)), uint64(part(&l.Jobs[i])))
		weighed, _ := bits.Div64(hi, lo, million) // parts are million at most
		keys.most[i] += q.ShortestAging * max(int64(weighed), 1)
		if !q.Estimate.Learned() {
			keys.least[i] = keys.most[i]
		}
	}
	return keys
}

type keysOf struct{ least, most []int64 }

const million = 1_000_000

// parts returns the largest part of the workers that a job takes, in millionths, rounded up.
func (l *Life) parts() func(*Job) int64 {
	var all [4]int64
	for i := range l.Workers {
		w := &l.Workers[i]
		for k, has := range [...]int64{int64(w.Slots), w.CPUMilli, w.MemoryBytes, w.IOBytesPerS} {
			all[k] += has
		}
	}
	return func(j *Job) (part int64) {
		takes := [4]int64{1, j.CPUMilli}
		if j.Spec != nil {
			takes[2], takes[3] = j.Spec.MemoryBytes, j.Spec.IOBytesPerS
		}
		for k := range all {
			switch {
			case takes[k] <= 0:
			case takes[k] >= all[k]:
				return million
			default:
				hi, lo := bits.Mul64(uint64(takes[k]), million)
				q, rest := bits.Div64(hi, lo, uint64(all[k]))
				part = max(part, int64(q)+int64(min(rest, 1)))
			}
		}
		return part
	}
}

// before counts for each job those that go before it: those pending when it arrives, and later ones that may precede it
// by their keys. If all is false, only those pending jobs count that may precede it.
func (l *Life) before(fates []Fate, all bool, keys keysOf) []int64 {
	n := len(l.Jobs)
	order, started := make([]int, n), make([]int, n)
	for i := range order {
		order[i], started[i] = i, i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(keys.least[a], keys.least[b]), cmp.Compare(a, b))
	})
	place, sorted := make([]int, n), make([]int64, n)
	for at, i := range order {
		place[i], sorted[at] = at, keys.least[i]
	}
	below := func(key int64) int { // the number of lesser keys
		at, _ := slices.BinarySearch(sorted, key)
		return at
	}
	left := func(i int) int64 { // the time from which it is no longer pending
		if fates[i].Start >= 0 {
			return fates[i].Start
		}
		return fates[i].End
	}
	slices.SortFunc(started, func(a, b int) int { return cmp.Compare(left(a), left(b)) })
	count := make([]int64, n)
	later, waiting := newCounts(n), newCounts(n)
	for i := n - 1; i >= 0; i-- {
		count[i] = later.below(below(keys.most[i]))
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
			count[i] += waiting.below(below(keys.most[i] + 1))
		}
		if left(i) > l.Jobs[i].Submit {
			waiting.add(place[i], 1)
			inside[i] = true
		}
	}
	return count
}

// counts are numbers at indexes, with fast prefix sums (a Fenwick tree).
type counts []int64

func newCounts(n int) counts { return make(counts, n+1) }

func (c counts) add(place int, by int64) {
	for i := place + 1; i < len(c); i += i & -i {
		c[i] += by
	}
}

// below returns the sum of the numbers before an index.
func (c counts) below(place int) (sum int64) {
	for i := place; i > 0; i -= i & -i {
		sum += c[i]
	}
	return sum
}
