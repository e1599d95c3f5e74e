package sched

import "math"

// Stats is what is known of a job type for the adaptive ranking (SPEC §5.3).
type Stats struct {
	// Success and Fail are counts, both halved when their sum reaches the window.
	Success, Fail int64
	// EMAus is the moving average of durations, in microseconds.
	EMAus int64
	// ExpectedMs is what the type's owner declares; 0 is nothing declared.
	ExpectedMs int64
	// Sampled says that EMAus holds at least one duration: failures may be
	// counted before the first one.
	Sampled bool
}

// The constants of SPEC §5.3.
const (
	yieldEpsilon   = 2.0
	confidentAt    = 50.0
	weightMin      = 0.1
	weightMax      = 1.5
	agingMax       = 3.0
	agingSeconds   = 600.0
	sizeMiBMin     = 0.1
	bytesPerMiB    = 1048576.0
	emaShift       = 3
	milliPerSecond = 1000.0
)

// tierBase is the base of a tier as submitted (SPEC §5.3).
var tierBase = [5]float64{100, 10, 2, 1, 0.5}

// Observe counts one outcome. A negative duration is an outcome without a
// sample, such as an expired lease. A window below 1 never halves. Integers
// only: frozen.
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

// AdaptiveWeight is W of SPEC §5.3, its operations in the order given there,
// each rounded on its own.
func AdaptiveWeight(s Stats) float64 {
	success, fail := float64(s.Success), float64(s.Fail)
	yield := (success + yieldEpsilon) / (success + fail + 2*yieldEpsilon)
	ratio := 1.0
	if s.ExpectedMs > 0 {
		ema := float64(s.EMAus) / 1000
		ratio = float64(s.ExpectedMs) / math.Max(1, ema)
	}
	raw := float64(ratio * yield)
	confidence := math.Min(1, (success+fail)/confidentAt)
	blended := float64(confidence*raw) + float64((1-confidence)*1.0)
	return math.Max(weightMin, math.Min(weightMax, blended))
}

// AdaptiveScore is the score of SPEC §5.3 of a job submitted at a tier that has
// waited so long. The greater comes first.
func AdaptiveScore(s Stats, tier int, waitMs, sizeBytes int64) float64 {
	return adaptiveScore(AdaptiveWeight(s), tier, waitMs, sizeBytes)
}

func adaptiveScore(weight float64, tier int, waitMs, sizeBytes int64) float64 {
	size := float64(sizeBytes) / bytesPerMiB
	wait := float64(waitMs) / milliPerSecond
	base := tierBase[min(max(tier, 0), len(tierBase)-1)]
	aged := float64(base * math.Min(agingMax, 1+wait/agingSeconds))
	return float64(aged * (weight / math.Sqrt(math.Max(sizeMiBMin, size))))
}
