package rota

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"
)

// MaxTiers is the most tiers that an adaptive queue can have.
const MaxTiers = 8

// EstimateBy selects the estimate of how long jobs of a type should take.
type EstimateBy uint8

// The sources of estimates.
const (
	// EstimateByType uses the value that the queue's owner set for the type.
	EstimateByType EstimateBy = iota
	// EstimateByUser uses the value that a submission declares (expected_ms), or the owner's value if it declares none;
	// under the adaptive ranking, the type's newest declaration.
	EstimateByUser
	// EstimateLast2 and those after it use the durations of earlier jobs of the same tenant and type (SPEC §26.1): the
	// mean of the last two, an exponential mean, the third quartile of the last ones. If no job has ended yet, they are
	// as EstimateByUser.
	EstimateLast2
	EstimateEMA
	EstimateQuantile
)

var estimateNames = []string{"type", "user", "last2", "ema", "quantile"}

// Learned reports whether estimates come from jobs that ended.
func (e EstimateBy) Learned() bool { return e >= EstimateLast2 }

// String names it as the policy key does.
func (e EstimateBy) String() string { return nameOf(estimateNames, int(e)) }

// usualTiers returns the default bases, in thousandths, and quotas for a number of tiers: from 100 for the critical
// tier to 0.5 for the last one, if there are enough tiers.
var usualTiers = [MaxTiers + 1]struct{ bases, quotas [MaxTiers]int64 }{
	2: {[MaxTiers]int64{100_000, 2_000}, [MaxTiers]int64{20, 10}},
	3: {[MaxTiers]int64{100_000, 10_000, 1_000}, [MaxTiers]int64{20, 15, 5}},
	4: {[MaxTiers]int64{100_000, 10_000, 2_000, 500}, [MaxTiers]int64{20, 15, 10, 1}},
	5: {[MaxTiers]int64{100_000, 10_000, 2_000, 1_000, 500}, [MaxTiers]int64{20, 15, 10, 5, 1}},
	6: {[MaxTiers]int64{100_000, 10_000, 5_000, 2_000, 1_000, 500}, [MaxTiers]int64{20, 15, 12, 10, 5, 1}},
	7: {[MaxTiers]int64{100_000, 20_000, 10_000, 5_000, 2_000, 1_000, 500}, [MaxTiers]int64{20, 15, 13, 11, 8, 5, 1}},
	8: {[MaxTiers]int64{100_000, 30_000, 20_000, 10_000, 5_000, 2_000, 1_000, 500},
		[MaxTiers]int64{20, 15, 13, 11, 9, 7, 5, 1}},
}

// setTiers changes the number of tiers, 2 to MaxTiers, and with it their bases and quotas.
func (p *QueuePolicy) setTiers(n int64) {
	if n == p.Tiers || n < 2 || n > MaxTiers {
		return
	}
	p.Tiers, p.TierBasesMilli, p.TierQuotas = n, usualTiers[n].bases, usualTiers[n].quotas
}

// scoringKeys are the keys of the adaptive score.
var scoringKeys = []policyKey{
	choiceKey("estimate", estimateNames, func(p *QueuePolicy) *EstimateBy { return &p.Estimate },
		"DFPS-S, SPEC §26.1", "Source of the expected run time: set for the type, given by the job, or learned from ended jobs."),
	key("epsilon", "", unitDecimal, 1, 1_000_000, func(p *QueuePolicy) *int64 { return &p.EpsilonMilli },
		"DFPS-S", "ranking=adaptive: initial outcomes of either kind of a type."),
	key("n_min", "", unitCount, 1, 1_000_000, func(p *QueuePolicy) *int64 { return &p.NMin },
		"DFPS-S", "ranking=adaptive: outcomes of a type from which its weight counts in full."),
	key("w_min", "", unitDecimal, 1, 1_000_000, func(p *QueuePolicy) *int64 { return &p.WMinMilli },
		"DFPS-S", "ranking=adaptive: minimum weight of a type."),
	key("w_max", "", unitDecimal, 1, 1_000_000, func(p *QueuePolicy) *int64 { return &p.WMaxMilli },
		"DFPS-S", "ranking=adaptive: maximum weight of a type."),
	key("max_aging", "", unitDecimal, 1_000, 1_000_000, func(p *QueuePolicy) *int64 { return &p.MaxAgingMilli },
		"DFPS-S", "ranking=adaptive: maximum factor of a wait on the score."),
	key("t_aging_ms", "t_aging", unitMs, 1_000, maxMs, func(p *QueuePolicy) *int64 { return &p.TAgingMs },
		"DFPS-S", "ranking=adaptive: wait that adds one to that factor."),
	// Before bases and quotas, which it sets to the defaults for this number of tiers.
	{name: "tiers", unit: unitCount, min: 2, max: MaxTiers, get: func(p *QueuePolicy) int64 { return p.Tiers },
		set:    (*QueuePolicy).setTiers,
		source: "DFPS-R", meaning: "ranking=adaptive: the number of tiers; resets bases and quotas to the defaults for that number."},
	key("base_0", "", unitDecimal, 0, 1_000_000_000, func(p *QueuePolicy) *int64 { return &p.TierBasesMilli[0] },
		"DFPS-S", "ranking=adaptive: base score of a job of tier 0; 0 beyond the tiers."),
	key("base_1", "", unitDecimal, 0, 1_000_000_000, func(p *QueuePolicy) *int64 { return &p.TierBasesMilli[1] },
		"DFPS-S", "ranking=adaptive: base score of a job of tier 1; 0 beyond the tiers."),
	key("base_2", "", unitDecimal, 0, 1_000_000_000, func(p *QueuePolicy) *int64 { return &p.TierBasesMilli[2] },
		"DFPS-S", "ranking=adaptive: base score of a job of tier 2; 0 beyond the tiers."),
	key("base_3", "", unitDecimal, 0, 1_000_000_000, func(p *QueuePolicy) *int64 { return &p.TierBasesMilli[3] },
		"DFPS-S", "ranking=adaptive: base score of a job of tier 3; 0 beyond the tiers."),
	key("base_4", "", unitDecimal, 0, 1_000_000_000, func(p *QueuePolicy) *int64 { return &p.TierBasesMilli[4] },
		"DFPS-S", "ranking=adaptive: base score of a job of tier 4; 0 beyond the tiers."),
	key("base_5", "", unitDecimal, 0, 1_000_000_000, func(p *QueuePolicy) *int64 { return &p.TierBasesMilli[5] },
		"DFPS-S", "ranking=adaptive: base score of a job of tier 5; 0 beyond the tiers."),
	key("base_6", "", unitDecimal, 0, 1_000_000_000, func(p *QueuePolicy) *int64 { return &p.TierBasesMilli[6] },
		"DFPS-S", "ranking=adaptive: base score of a job of tier 6; 0 beyond the tiers."),
	key("base_7", "", unitDecimal, 0, 1_000_000_000, func(p *QueuePolicy) *int64 { return &p.TierBasesMilli[7] },
		"DFPS-S", "ranking=adaptive: base score of a job of tier 7; 0 beyond the tiers."),
	key("quota_0", "", unitCount, 0, 1_000, func(p *QueuePolicy) *int64 { return &p.TierQuotas[0] },
		"DFPS-R", "ranking=adaptive: share of tier 0 in a sample, relative to the other quotas."),
	key("quota_1", "", unitCount, 0, 1_000, func(p *QueuePolicy) *int64 { return &p.TierQuotas[1] },
		"DFPS-R", "ranking=adaptive: share of tier 1 in a sample, relative to the other quotas."),
	key("quota_2", "", unitCount, 0, 1_000, func(p *QueuePolicy) *int64 { return &p.TierQuotas[2] },
		"DFPS-R", "ranking=adaptive: share of tier 2 in a sample, relative to the other quotas."),
	key("quota_3", "", unitCount, 0, 1_000, func(p *QueuePolicy) *int64 { return &p.TierQuotas[3] },
		"DFPS-R", "ranking=adaptive: share of tier 3 in a sample, relative to the other quotas."),
	key("quota_4", "", unitCount, 0, 1_000, func(p *QueuePolicy) *int64 { return &p.TierQuotas[4] },
		"DFPS-R", "ranking=adaptive: share of tier 4 in a sample, relative to the other quotas."),
	key("quota_5", "", unitCount, 0, 1_000, func(p *QueuePolicy) *int64 { return &p.TierQuotas[5] },
		"DFPS-R", "ranking=adaptive: share of tier 5 in a sample, relative to the other quotas."),
	key("quota_6", "", unitCount, 0, 1_000, func(p *QueuePolicy) *int64 { return &p.TierQuotas[6] },
		"DFPS-R", "ranking=adaptive: share of tier 6 in a sample, relative to the other quotas."),
	key("quota_7", "", unitCount, 0, 1_000, func(p *QueuePolicy) *int64 { return &p.TierQuotas[7] },
		"DFPS-R", "ranking=adaptive: share of tier 7 in a sample, relative to the other quotas."),
}

// checkScoring rejects contradictory keys of the adaptive score.
func (p *QueuePolicy) checkScoring() error {
	if p.WMinMilli > p.WMaxMilli {
		return Refusef(KindInvalid, "w_min", "w_min must be at most w_max (%s), got %s", formatMilli(p.WMaxMilli),
			formatMilli(p.WMinMilli))
	}
	drawn := int64(0)
	for i := range int64(MaxTiers) {
		base, quota := p.TierBasesMilli[i], p.TierQuotas[i]
		switch {
		case i < p.Tiers && base == 0:
			return Refusef(KindInvalid, "base_"+strconv.FormatInt(i, 10),
				"base_%d must be between 0.001 and 1000000, got 0", i)
		case i >= p.Tiers && (base != 0 || quota != 0):
			return Refusef(KindInvalid, "base_"+strconv.FormatInt(i, 10),
				"base_%d and quota_%d must be 0: tiers is %d, so the last tier "+
					"is %d", i, i, p.Tiers, p.Tiers-1)
		}
		drawn += quota
	}
	if drawn == 0 {
		return Refusef(KindInvalid, "quota_0", "quota_0: all quotas are 0; set at least one to 1 or more")
	}
	return nil
}

// parseMilli reads a decimal number of at most three places, in thousandths.
func parseMilli(text string) (milli int64, ok bool) {
	whole, part, _ := strings.Cut(text, ".")
	if len(part) > 3 || len(whole) > 12 || whole == "" || strings.HasSuffix(text, ".") {
		return 0, false
	}
	v, err := strconv.ParseUint(whole+(part + "000")[:3], 10, 63)
	return int64(v), err == nil
}

// formatMilli is the inverse of parseMilli, as short as can be.
func formatMilli(milli int64) string {
	text := strconv.FormatInt(milli/1000, 10)
	if rest := milli % 1000; rest != 0 {
		text += strings.TrimRight("."+strconv.FormatInt(1000+rest, 10)[1:], "0")
	}
	return text
}

// expectedPrefix begins the key of `queue set` that sets how long jobs of a type should take: expected.resize=2s. 0
// removes the value.
const expectedPrefix = "expected."

// Expected reads a setting of that kind; is is false of any other.
func (s Setting) Expected() (typ JobType, ms int64, is bool, err error) {
	name := strings.TrimSpace(s.Key)
	if !strings.HasPrefix(name, expectedPrefix) {
		return "", 0, false, nil
	}
	typ = JobType(name[len(expectedPrefix):])
	if err := CheckID("type", typ); err != nil {
		return "", 0, true, err
	}
	k := policyKey{name: name, unit: unitMs, max: maxMs}
	ms, err = k.parse(strings.TrimSpace(s.Value), false)
	return typ, ms, true, err
}

// CheckUnit rejects a number without a unit for a duration whose key names none, such as backoff_base=5: people read it
// as seconds, Set as milliseconds. It checks typed input; Set accepts both forms, as programs and logs contain them.
func (s Setting) CheckUnit() error {
	name, text := strings.ToLower(strings.TrimSpace(s.Key)), strings.TrimSpace(s.Value)
	if n, err := strconv.ParseInt(text, 10, 64); err != nil || n == 0 || strings.HasSuffix(name, "_ms") {
		return nil
	}
	timed := name == "penalty" || strings.HasPrefix(name, expectedPrefix) ||
		slices.ContainsFunc(policyKeys, func(k policyKey) bool {
			return k.unit == unitMs && name == k.alias
		})
	if !timed {
		return nil
	}
	return Refusef(KindInvalid, name, "%s=%s has no unit: write %s=%sms or %s=%ss", name, text, name, text, name, text)
}

// Try changes the policy by one setting of `queue set`. An expected time is a valid setting too: it changes no key, and
// is only checked.
func (p *QueuePolicy) Try(s Setting) error {
	if _, _, expected, err := s.Expected(); expected {
		return err
	}
	return p.Set(s)
}

// StandardPolicy is the preset `standard`, which every other starts from.
func StandardPolicy() QueuePolicy {
	return QueuePolicy{
		Preset: "standard", Ranking: RankAging, Strategy: StrategyLeastLoaded,
		LeaseMs: 60_000, AckTimeoutMs: 5_000, RenewAlphaPermille: 600, RenewBetaPermille: 500, RenewalsMax: -1,
		AttemptMax: 6, BackoffBaseMs: 5_000, BackoffFactorPermille: 2_000, BackoffCapMs: 900_000, BackoffUnitMs: 1,
		BackoffJitterPermille: 100,
		PayloadMaxBytes:       MaxPayloadBytes, QueueCap: 1_000_000, RejectThresholdPermille: 1_000,
		AgingFactorMs: 10_000,
		WFee:          550_000, WAge: 250_000, WSize: 100_000, WTier: 100_000,
		FeeHalf: 1_000_000, SizeHalf: 1 << 20, AgeHorizonMs: 3_600_000,
		BatchSize: 256, DispatchIntervalMs: 250, Weight: 1, FairShare: true, StarvationInterleave: 0, OldestEvery: 20,
		HoldAfterMs: 30_000, HoldMaxMs: 600_000,
		PrefetchMax: MaxPrefetch, TenantWindowMs: 60_000,
		DomainFailureThresholdPermille: 300, DomainMinSamples: 10, DomainProbeRPS: 1, DomainProbeBurst: 5,
		PreemptMax: 3, AgingThresholdMs: 60_000, StatsWindow: 1_000, AuditWindowMs: 3_600_000,
		CoolMs:           30_000,
		UnitsPeriodMs:    3_600_000,
		GCHorizonMs:      7 * 24 * 3_600_000,
		HealthAckTimeout: 50, HealthLeaseExpired: 150, HealthProofInvalid: 500, HealthLateRenewal: 10,
		HealthSuccess: 20,
		EpsilonMilli:  2_000, NMin: 50, WMinMilli: 100, WMaxMilli: 1_500, MaxAgingMilli: 3_000, TAgingMs: 600_000,
		Tiers: 5, TierBasesMilli: usualTiers[5].bases, TierQuotas: usualTiers[5].quotas,
		ShortestAging: 10, BackfillDepth: 1_000, WorkerLossesMax: 3,
	}
}

// Presets names the presets that PresetPolicy knows, in the order of SPEC §14.
var Presets = []string{"standard", "aicf-ai", "aicf-quantum", "dfps", "fluxforge", "dag", "batch"}

// presetRules are the first rules under which `dfps`, `fluxforge` and `dag` keep to their sources alone.
const presetRules = 2

// PresetPolicy returns a preset by its key, as the newest rules have it (SPEC §14). What a preset does not name
// is as in `standard`.
func PresetPolicy(preset string) (QueuePolicy, error) { return PresetPolicyOf(presetRules, preset) }

// PresetPolicyOf is PresetPolicy as a version of the rules has it (SPEC §2.6).
func PresetPolicyOf(rules uint32, preset string) (QueuePolicy, error) {
	p := StandardPolicy()
	p.Preset = preset
	switch preset {
	case "standard":
	case "aicf-ai":
		p.aicf()
		p.LeaseMs, p.BackoffBaseMs, p.TTLAbsMs, p.UnitsPerPeriod = 600_000, 5_000, 24*3_600_000, 100_000
	case "aicf-quantum":
		p.aicf()
		p.LeaseMs, p.BackoffBaseMs, p.TTLAbsMs, p.UnitsPerPeriod = 180_000, 2_000, 2*3_600_000, 10_000
	case "dfps":
		p.Ranking, p.Strategy, p.FairShare = RankAdaptive, StrategyShuffle, false
		if rules >= presetRules {
			p.OldestEvery, p.DispatchIntervalMs, p.BatchSize = 0, 100, 5_000
		}
	case "fluxforge":
		p.QueueCap, p.RateLimitRPS, p.FairShare, p.Preempt = 1_000, 50, false, true
		if rules >= presetRules {
			p.OldestEvery, p.DispatchIntervalMs = 0, 200
			p.HealthSteps, p.MinHealth, p.HealthProviderFail = true, 300, 100
		}
	case "dag":
		p.Ranking, p.Strategy, p.FairShare = RankFIFO, StrategyAffinity, false
		p.PrefetchMax, p.MaxQueueSize = 10, 1_000
		p.Unseeded = rules >= presetRules
	case "batch":
		p.Ranking, p.ShortestAging, p.FairShare, p.OldestEvery = RankSmallest, 20, false, 0
		p.Backfill, p.BackfillOrder, p.Estimate = BackfillEasy, BackfillShortest, EstimateQuantile
	default:
		return QueuePolicy{}, unknown("preset", "preset", preset, Presets)
	}
	return p, nil
}

// aicf has the settings shared by the two presets of AICF §13.
func (p *QueuePolicy) aicf() {
	p.Ranking, p.Strategy = RankMarket, StrategyShuffle
	p.RenewalsMax, p.BackoffUnitMs, p.TTLRelMaxMs = 4, 1_000, 6*3_600_000
	p.LeasesMaxPerWorker = 16
	p.FairShare, p.StarvationInterleave, p.OldestEvery = false, 20, 0
	p.CoolAfter, p.DeclineCools, p.DenyMs, p.HealthSteps, p.MinHealth = 3, true, 30_000, true, 300
}

// Score is a ranking's number for a job at the moment of a decision: parts per
// billion in a market queue, the effective priority in thousandths in an aging
// one, the milliseconds waited in a fifo one. An adaptive queue's score is a
// double; it is carried as its bits, so that every node holds the same to the bit,
// and shown as the number.
type Score int64

// leastDouble is the smallest value that is interpreted as the bits of a double. The doubles from 1e-154 up lie above
// it and every adaptive score is greater than 1e-12; integer scores stay below it, for they end at MaxDuration in
// milliseconds times a million (SPEC §5.1).
const leastDouble Score = 1 << 61

// IsDouble reports whether the score is an adaptive queue's: the bits of a double.
func (s Score) IsDouble() bool { return s >= leastDouble }

// Double returns an adaptive queue's score; ok is false where the score is a whole
// number.
func (s Score) Double() (x float64, ok bool) {
	if !s.IsDouble() {
		return 0, false
	}
	return math.Float64frombits(uint64(s)), true
}

// Append writes the score as a number that JSON knows. A double always has a
// point or an exponent, a whole number never.
func (s Score) Append(b []byte) []byte {
	x, ok := s.Double()
	if !ok || math.IsInf(x, 0) || math.IsNaN(x) {
		return strconv.AppendInt(b, int64(s), 10)
	}
	from := len(b)
	b = strconv.AppendFloat(b, x, 'g', -1, 64)
	if !bytes.ContainsAny(b[from:], ".e") {
		b = append(b, ".0"...)
	}
	return b
}

// String shows the score as Append does.
func (s Score) String() string { return string(s.Append(nil)) }

// MarshalJSON implements json.Marshaler.
func (s Score) MarshalJSON() ([]byte, error) { return s.Append(nil), nil }

// UnmarshalJSON is the inverse of MarshalJSON.
func (s *Score) UnmarshalJSON(text []byte) error {
	if !bytes.ContainsAny(text, ".eE") {
		n, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil {
			return Refusef(KindInvalid, "score", "score: got %.80q; use a number", text)
		}
		*s = Score(n)
		return nil
	}
	x, err := strconv.ParseFloat(string(text), 64)
	bits := Score(math.Float64bits(x))
	if err != nil || bits < leastDouble {
		return Refusef(KindInvalid, "score", "score: got %.80q; use a number, above 0 if it has a fraction", text)
	}
	*s = bits
	return nil
}
