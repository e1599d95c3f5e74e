package sched

import (
	"math"

	"github.com/rotasched/rota"
)

// Stats holds the counts and mean duration of a job type, for the adaptive ranking (SPEC §5.3).
type Stats struct {
	// Success and Fail count outcomes. Both are halved when their sum reaches the window.
	Success, Fail int64
	// EMAus is the moving average of durations, in microseconds.
	EMAus int64
	// ExpectedMs is the duration that the type's owner declares, in ms; 0 means none declared.
	ExpectedMs int64
	// Sampled reports whether EMAus holds at least one duration: failures may be counted before the first one.
	Sampled bool
}

const (
	sizeMiBMin     = 0.1
	bytesPerMiB    = 1048576.0
	emaShift       = 3
	milliPerSecond = 1000.0
	milli          = 1000.0
)

// Scoring holds the parameters of the adaptive score from a queue's policy (SPEC §5.3), as doubles.
type Scoring struct {
	epsilon, confidentAt   float64
	weightMin, weightMax   float64
	agingMax, agingSeconds float64
	tiers                  int
	base                   [rota.MaxTiers]float64
	quota                  [rota.MaxTiers]int
}

// ScoringOf converts a policy's integers to doubles once.
func ScoringOf(p *rota.QueuePolicy) *Scoring {
	k := &Scoring{epsilon: float64(p.EpsilonMilli) / milli, confidentAt: float64(p.NMin),
		weightMin: float64(p.WMinMilli) / milli, weightMax: float64(p.WMaxMilli) / milli,
		agingMax: float64(p.MaxAgingMilli) / milli, agingSeconds: float64(p.TAgingMs) / milliPerSecond,
		tiers: int(p.Tiers)}
	for i := range k.tiers {
		k.base[i], k.quota[i] = float64(p.TierBasesMilli[i])/milli, int(p.TierQuotas[i])
	}
	return k
}

// Observe returns the stats after one more outcome. A negative duration means an outcome without a sample, such as an
// expired lease. A window below 1 never halves the counts. Integers only: frozen.
func (s Stats) Observe(us int64, ok bool, window int64) Stats {
	if ok {
		s.Success++
	} else {
		s.Fail++
	}
	if window > 0 && s.Success+s.Fail >= window {
		s.Success /= 2
		s.Fail /= 2
	}
	switch {
	case us < 0:
	case !s.Sampled:
		s.EMAus, s.Sampled = us, true
	default:
		s.EMAus += (us - s.EMAus) >> emaShift
	}
	return s
}

// Weight returns W of SPEC §5.3. The operations run in the order given there, each rounded on its own.
func (k *Scoring) Weight(s Stats) float64 {
	success, fail := float64(s.Success), float64(s.Fail)
	yield := (success + k.epsilon) / (success + fail + float64(2*k.epsilon))
	ratio := 1.0
	if s.ExpectedMs > 0 {
		ema := float64(s.EMAus) / 1000
		ratio = float64(s.ExpectedMs) / math.Max(1, ema)
	}
	raw := float64(ratio * yield)
	confidence := math.Min(1, (success+fail)/k.confidentAt)
	blended := float64(confidence*raw) + float64((1-confidence)*1.0)
	return math.Max(k.weightMin, math.Min(k.weightMax, blended))
}

// Score returns the score (SPEC §5.3) of a job with this priority, waiting time and size. The greater score comes
// first.
func (k *Scoring) Score(s Stats, priority int32, waitMs, sizeBytes int64) float64 {
	return k.score(k.Weight(s), priority, waitMs, sizeBytes)
}

func (k *Scoring) score(weight float64, priority int32, waitMs, sizeBytes int64) float64 {
	size := float64(sizeBytes) / bytesPerMiB
	wait := float64(waitMs) / milliPerSecond
	base := k.base[TierOf(priority, k.tiers)]
	aged := float64(base * math.Min(k.agingMax, 1+wait/k.agingSeconds))
	return float64(aged * (weight / math.Sqrt(math.Max(sizeMiBMin, size))))
}
