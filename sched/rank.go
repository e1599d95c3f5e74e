package sched

import (
	"cmp"
	"math/bits"
	"strings"
	"time"

	"github.com/rotasched/rota"
)

// RankKey is a job's key in its queue: the smaller comes first, ties by Enqueued,
// under `fifo`, `shortest` and `smallest` then by the submission number, then by id. None of the integer rankings ever changes the order of two queued
// jobs, so the key is computed once (SPEC §5.1, §5.2, §5.4, §26.2). The market's key is
// negated. `adaptive` has no lasting key; it gets that of `fifo`.
// estimate is what RunEstimate returns, under `smallest` Weighed; these two and `shortest` alone ask for it.
func RankKey(p *rota.QueuePolicy, priority int32, fee, sizeBytes int64, tier rota.ServiceTier,
	enqueued rota.Clock, estimate int64) int64 {
	switch p.Ranking {
	case rota.RankMarket:
		return marketAge(p, enqueued) - marketWorth(p, fee, sizeBytes, tier)
	case rota.RankAging:
		return int64(enqueued) + int64(priority)*p.AgingFactorMs
	case rota.RankShortest, rota.RankSmallest:
		if p.ShortestAging == 0 {
			return estimate
		}
		return int64(enqueued) + estimate*p.ShortestAging
	default:
		return int64(enqueued)
	}
}

// ScoreAt is the number shown for a key: the market's score(now) in parts per
// billion, the aging ranking's effective priority in thousandths, the
// milliseconds waited under fifo, under shortest and smallest those of the estimate that waiting has not used up.
func ScoreAt(p *rota.QueuePolicy, key int64, now rota.Clock) int64 {
	switch p.Ranking {
	case rota.RankMarket:
		return marketAge(p, now) - key
	case rota.RankAging:
		return floorDiv((key-int64(now))*1000, max(p.AgingFactorMs, 1))
	case rota.RankShortest, rota.RankSmallest:
		if p.ShortestAging == 0 {
			return key
		}
		return floorDiv(key-int64(now), p.ShortestAging)
	default:
		return int64(now) - key
	}
}

// longestRun is the estimate of a job of which nothing is known, in ms.
const longestRun = int64(rota.MaxDuration / time.Millisecond)

// RunEstimate is how long an attempt of a job should take, in ms, 1 at least: what was learned or what its submitter says
// where the queue goes by that, else what is set for its type, but no more than its max_runtime;
// that alone where nothing is said (SPEC §26.1). learned is 0 where nothing is.
func RunEstimate(p *rota.QueuePolicy, spec *rota.JobSpec, ofType, learned int64) int64 {
	most := LongestOf(p, spec)
	estimate, said := ofType, spec.Expected.Milliseconds()
	switch {
	case learned > 0 && p.Estimate.Learned():
		estimate = learned
	case said > 0 && p.Estimate != rota.EstimateByType:
		estimate = said
	}
	if estimate <= 0 {
		return most
	}
	return min(estimate, most)
}

// LongestOf is the max_runtime of a job, in ms.
func LongestOf(p *rota.QueuePolicy, spec *rota.JobSpec) int64 {
	most := p.MaxRuntimeMs
	if own := spec.MaxRuntime.Milliseconds(); own > 0 {
		most = own
	}
	if most == 0 {
		most = longestRun
	}
	return most
}

// marketWorth is S of SPEC §5.1, in parts per billion.
func marketWorth(p *rota.QueuePolicy, fee, sizeBytes int64, tier rota.ServiceTier) int64 {
	const billion = 1_000_000_000
	var nt int64
	switch tier {
	case rota.TierPro:
		nt = 300_000_000
	case rota.TierPremium:
		nt = 600_000_000
	}
	nf := mulDiv(fee, billion, max(fee+p.FeeHalf, 1))
	ns := mulDiv(p.SizeHalf, billion, max(sizeBytes+p.SizeHalf, 1))
	return (p.WFee*nf + p.WSize*ns + p.WTier*nt) / 1_000_000
}

// marketAge is A(t) of SPEC §5.1, in parts per billion.
func marketAge(p *rota.QueuePolicy, t rota.Clock) int64 {
	return mulDiv(p.WAge*1000, int64(t), max(p.AgeHorizonMs, 1))
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// TierOf is the tier of a priority among so many tiers, 2 to rota.MaxTiers: priority 0 is
// critical, tier 0, and the others are spread evenly over the rest, where the higher tiers
// have one more. Of five: 1 to 3 high, 4 to 6 normal, 7 and 8 low, 9 and 10 background
// (SPEC §5.0).
func TierOf(priority int32, tiers int) int {
	if priority <= 0 {
		return 0
	}
	at, rest := int(min(priority, rota.MaxPriority))-1, tiers-1
	each, more := rota.MaxPriority/rest, rota.MaxPriority%rest
	if wide := more * (each + 1); at >= wide {
		return 1 + more + (at-wide)/each
	}
	return 1 + at/(each+1)
}

// CompareTurn orders queues for an entry of rounds: (assignments ÷ weight, name),
// the fractions compared exactly (SPEC §7.2). A weight of 0 counts as 1.
func CompareTurn(aAssigned, aWeight uint64, aName rota.QueueName,
	bAssigned, bWeight uint64, bName rota.QueueName) int {
	if c := compareFractions(aAssigned, max(aWeight, 1), bAssigned, max(bWeight, 1)); c != 0 {
		return c
	}
	return strings.Compare(string(aName), string(bName))
}

// compareFractions compares a/b with c/d by products of 128 bits.
func compareFractions(a, b, c, d uint64) int {
	hiL, loL := bits.Mul64(a, d)
	hiR, loR := bits.Mul64(c, b)
	if hiL != hiR {
		return cmp.Compare(hiL, hiR)
	}
	return cmp.Compare(loL, loR)
}
