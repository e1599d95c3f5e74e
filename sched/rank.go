package sched

import (
	"cmp"
	"math/bits"
	"strings"
	"time"

	"github.com/rotasched/rota"
)

// RankKey returns a job's key in its queue. The smaller key comes first; ties go by Enqueued, then under `fifo`,
// `shortest` and `smallest` by the submission number, then by id. No integer ranking ever changes the order of two
// queued jobs, so the key is computed once (SPEC §5.1, §5.2, §5.4, §26.2). The market's key is negated. `adaptive` has
// no lasting key and uses that of `fifo`. estimate is the result of RunEstimate, under `smallest` that of Weighed; only
// `shortest` and `smallest` use it.
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

// ScoreAt returns the number displayed for a key: the market's score(now) in parts per billion, the aging ranking's
// effective priority in thousandths, under fifo the ms waited, under shortest and smallest the ms of the estimate that
// waiting has not used up.
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

// longestRun is the estimate for a job without any information, in ms.
const longestRun = int64(rota.MaxDuration / time.Millisecond)

// RunEstimate returns the expected duration of an attempt in ms, at least 1. It is the learned value, or the
// submitter's value if the queue uses that, else the value set for the type; but at most max_runtime, which also
// applies if nothing is given (SPEC §26.1). learned is 0 if nothing was learned.
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

// LongestOf returns a job's max_runtime in ms.
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

// marketWorth returns S of SPEC §5.1, in parts per billion.
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

// marketAge returns A(t) of SPEC §5.1, in parts per billion.
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

// TierOf returns the tier of a priority for a number of tiers from 2 to rota.MaxTiers. Priority 0 is critical, tier 0.
// The others are spread evenly over the rest, with one more for the higher tiers. With five tiers: 1 to 3 high, 4 to 6
// normal, 7 and 8 low, 9 and 10 background (SPEC §5.0).
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

// CompareTurn orders queues in an entry of rounds by (assignments ÷ weight, name), comparing the fractions exactly
// (SPEC §7.2). A weight of 0 counts as 1.
func CompareTurn(aAssigned, aWeight uint64, aName rota.QueueName,
	bAssigned, bWeight uint64, bName rota.QueueName) int {
	if c := compareFractions(aAssigned, max(aWeight, 1), bAssigned, max(bWeight, 1)); c != 0 {
		return c
	}
	return strings.Compare(string(aName), string(bName))
}

// compareFractions compares a/b with c/d using 128-bit products.
func compareFractions(a, b, c, d uint64) int {
	hiL, loL := bits.Mul64(a, d)
	hiR, loR := bits.Mul64(c, b)
	if hiL != hiR {
		return cmp.Compare(hiL, hiR)
	}
	return cmp.Compare(loL, loR)
}
