package rota

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// QueuePolicy is every parameter of a queue (SPEC §4–9, §14 presets). All
// numbers are integers: durations in milliseconds, ratios in permille or ppm.
type QueuePolicy struct {
	Preset   string
	Ranking  Ranking
	Strategy Strategy

	// Leases (SPEC §8).
	LeaseMs            int64
	AckTimeoutMs       int64
	RenewAlphaPermille int64
	RenewBetaPermille  int64
	RenewalsMax        int64
	MaxRuntimeMs       int64
	LeasesMaxPerWorker int64
	UnitsPerPeriod     int64

	// Retry and time to live (SPEC §9).
	AttemptMax            int64
	BackoffBaseMs         int64
	BackoffFactorPermille int64
	BackoffCapMs          int64
	BackoffUnitMs         int64
	TTLAbsMs              int64
	TTLRelMaxMs           int64

	// Admission (SPEC §4).
	PayloadMaxBytes         int64
	QueueCap                int64
	RateLimitRPS            int64
	RejectThresholdPermille int64
	MaxQueueSize            int64

	// Ranking parameters (SPEC §5).
	AgingFactorMs int64
	WFee          int64
	WAge          int64
	WSize         int64
	WTier         int64
	FeeHalf       int64
	SizeHalf      int64
	AgeHorizonMs  int64

	// Matching (SPEC §7).
	BatchSize            int64
	DispatchIntervalMs   int64
	Weight               int64
	FairShare            bool
	Preempt              bool
	PreferLocality       bool
	StarvationInterleave int64
	OldestEvery          int64
	HoldAfterMs          int64
	HoldMaxMs            int64
	MinHealth            int64
	MinStake             int64
	Paused               bool

	// Eligibility, quotas and isolation (SPEC §4.8, §6, §7.9).
	RequireAttestation             bool
	PrefetchMax                    int64
	TenantWindowMax                int64
	TenantWindowMs                 int64
	DomainFailureThresholdPermille int64
	DomainMinSamples               int64
	DomainProbeRPS                 int64
	DomainProbeBurst               int64
	PreemptMax                     int64

	// Adaptive ranking and tiers (SPEC §5.3, §10.3), verifiers (SPEC §9.5).
	AgingThresholdMs int64
	StatsWindow      int64
	AuditWindowMs    int64

	// Standing (SPEC §6.2, §16.1).
	CoolAfter    int64
	CoolMs       int64
	DeclineCools bool
	DenyMs       int64
	HealthSteps  bool

	// The adaptive score (SPEC §5.3): thousandths, but for counts and times. Of the tiers,
	// 2 to MaxTiers, each has a base and a quota; those beyond are 0.
	Estimate       EstimateBy
	EpsilonMilli   int64
	NMin           int64
	WMinMilli      int64
	WMaxMilli      int64
	MaxAgingMilli  int64
	TAgingMs       int64
	Tiers          int64
	TierBasesMilli [MaxTiers]int64
	TierQuotas     [MaxTiers]int64
}

// policyKey is one key of the policy: its name in JSON and in `--set`, the name
// SPEC uses where that differs, its unit and range.
type policyKey struct {
	name, alias string
	unit        policyUnit
	min, max    int64
	get         func(*QueuePolicy) int64
	set         func(*QueuePolicy, int64)
}

type policyUnit uint8

const (
	unitCount policyUnit = iota
	unitMs
	unitBool
	unitRanking
	unitStrategy
	unitPermille
	unitPPM
	unitBytes
	unitDecimal // thousandths, written as a decimal number
	unitEstimate
)

func num(f func(*QueuePolicy) *int64) (func(*QueuePolicy) int64, func(*QueuePolicy, int64)) {
	return func(p *QueuePolicy) int64 { return *f(p) }, func(p *QueuePolicy, v int64) { *f(p) = v }
}

func flag(f func(*QueuePolicy) *bool) (func(*QueuePolicy) int64, func(*QueuePolicy, int64)) {
	return func(p *QueuePolicy) int64 {
			if *f(p) {
				return 1
			}
			return 0
		}, func(p *QueuePolicy, v int64) {
			*f(p) = v == 1
		}
}

func key(name, alias string, unit policyUnit, lo, hi int64, f func(*QueuePolicy) *int64) policyKey {
	get, set := num(f)
	return policyKey{name, alias, unit, lo, hi, get, set}
}

func boolKey(name, alias string, f func(*QueuePolicy) *bool) policyKey {
	get, set := flag(f)
	return policyKey{name, alias, unitBool, 0, 1, get, set}
}

const maxMs = int64(MaxDuration / time.Millisecond)

// policyKeys is the one table of keys. Its order is the canonical order of a
// policy in the state's digest and in stored formats: append only.
var policyKeys = append([]policyKey{
	{"ranking", "", unitRanking, 0, int64(len(rankingNames) - 1),
		func(p *QueuePolicy) int64 { return int64(p.Ranking) }, func(p *QueuePolicy, v int64) { p.Ranking = Ranking(v) }},
	{"strategy", "", unitStrategy, 0, int64(len(strategyNames) - 1),
		func(p *QueuePolicy) int64 { return int64(p.Strategy) }, func(p *QueuePolicy, v int64) { p.Strategy = Strategy(v) }},
	key("lease_ms", "t_lease", unitMs, 100, maxMs, func(p *QueuePolicy) *int64 { return &p.LeaseMs }),
	key("ack_timeout_ms", "ack_timeout", unitMs, 100, 3_600_000, func(p *QueuePolicy) *int64 { return &p.AckTimeoutMs }),
	key("renew_alpha_permille", "alpha", unitPermille, 1, 1000, func(p *QueuePolicy) *int64 { return &p.RenewAlphaPermille }),
	key("renew_beta_permille", "beta", unitPermille, 0, 1000, func(p *QueuePolicy) *int64 { return &p.RenewBetaPermille }),
	key("renewals_max", "", unitCount, -1, 1_000_000, func(p *QueuePolicy) *int64 { return &p.RenewalsMax }),
	key("max_runtime_ms", "max_runtime", unitMs, 0, maxMs, func(p *QueuePolicy) *int64 { return &p.MaxRuntimeMs }),
	key("leases_max_per_worker", "max_queue_per_worker", unitCount, 0, 1_000_000, func(p *QueuePolicy) *int64 { return &p.LeasesMaxPerWorker }),
	key("units_per_period", "", unitCount, 0, math.MaxInt64/4, func(p *QueuePolicy) *int64 { return &p.UnitsPerPeriod }),
	key("attempt_max", "", unitCount, 1, 1_000, func(p *QueuePolicy) *int64 { return &p.AttemptMax }),
	key("backoff_base_ms", "backoff_base", unitMs, 0, maxMs, func(p *QueuePolicy) *int64 { return &p.BackoffBaseMs }),
	key("backoff_factor_permille", "backoff_factor", unitPermille, 1000, 1_000_000,
		func(p *QueuePolicy) *int64 { return &p.BackoffFactorPermille }),
	key("backoff_cap_ms", "backoff_cap", unitMs, 0, maxMs, func(p *QueuePolicy) *int64 { return &p.BackoffCapMs }),
	key("backoff_unit_ms", "backoff_unit", unitMs, 1, 3_600_000, func(p *QueuePolicy) *int64 { return &p.BackoffUnitMs }),
	key("ttl_abs_ms", "ttl_abs", unitMs, 0, maxMs, func(p *QueuePolicy) *int64 { return &p.TTLAbsMs }),
	key("ttl_rel_max_ms", "ttl_rel_max", unitMs, 0, maxMs, func(p *QueuePolicy) *int64 { return &p.TTLRelMaxMs }),
	key("payload_max_bytes", "", unitBytes, 0, MaxPayloadBytes, func(p *QueuePolicy) *int64 { return &p.PayloadMaxBytes }),
	key("queue_cap", "", unitCount, 1, 100_000_000, func(p *QueuePolicy) *int64 { return &p.QueueCap }),
	key("rate_limit_rps", "", unitCount, 0, 10_000_000, func(p *QueuePolicy) *int64 { return &p.RateLimitRPS }),
	key("reject_threshold_permille", "reject_threshold", unitPermille, 0, 1000,
		func(p *QueuePolicy) *int64 { return &p.RejectThresholdPermille }),
	key("max_queue_size", "", unitCount, 0, 100_000_000, func(p *QueuePolicy) *int64 { return &p.MaxQueueSize }),
	key("aging_factor_ms", "aging_factor", unitMs, 1, maxMs, func(p *QueuePolicy) *int64 { return &p.AgingFactorMs }),
	key("w_fee", "", unitPPM, 0, 1_000_000, func(p *QueuePolicy) *int64 { return &p.WFee }),
	key("w_age", "", unitPPM, 0, 1_000_000, func(p *QueuePolicy) *int64 { return &p.WAge }),
	key("w_size", "", unitPPM, 0, 1_000_000, func(p *QueuePolicy) *int64 { return &p.WSize }),
	key("w_tier", "", unitPPM, 0, 1_000_000, func(p *QueuePolicy) *int64 { return &p.WTier }),
	key("fee_half", "", unitCount, 1, MaxFee, func(p *QueuePolicy) *int64 { return &p.FeeHalf }),
	key("size_half", "", unitBytes, 1, MaxSizeBytes, func(p *QueuePolicy) *int64 { return &p.SizeHalf }),
	key("age_horizon_ms", "age_horizon", unitMs, 1_000, maxMs, func(p *QueuePolicy) *int64 { return &p.AgeHorizonMs }),
	key("batch_size", "", unitCount, 1, 1_000, func(p *QueuePolicy) *int64 { return &p.BatchSize }),
	key("dispatch_interval_ms", "dispatch_interval", unitMs, 10, 60_000,
		func(p *QueuePolicy) *int64 { return &p.DispatchIntervalMs }),
	key("weight", "", unitCount, 1, 1_000_000, func(p *QueuePolicy) *int64 { return &p.Weight }),
	boolKey("fair_share", "", func(p *QueuePolicy) *bool { return &p.FairShare }),
	boolKey("prefer_locality", "", func(p *QueuePolicy) *bool { return &p.PreferLocality }),
	boolKey("preempt", "", func(p *QueuePolicy) *bool { return &p.Preempt }),
	key("starvation_interleave", "interleave", unitCount, 0, 1_000_000,
		func(p *QueuePolicy) *int64 { return &p.StarvationInterleave }),
	key("oldest_every", "", unitCount, 0, 1_000_000, func(p *QueuePolicy) *int64 { return &p.OldestEvery }),
	key("hold_after_ms", "hold_after", unitMs, 0, maxMs, func(p *QueuePolicy) *int64 { return &p.HoldAfterMs }),
	key("hold_max_ms", "hold_max", unitMs, 1, maxMs, func(p *QueuePolicy) *int64 { return &p.HoldMaxMs }),
	key("min_health", "", unitPermille, 0, 1000, func(p *QueuePolicy) *int64 { return &p.MinHealth }),
	key("min_stake", "", unitCount, 0, MaxFee, func(p *QueuePolicy) *int64 { return &p.MinStake }),
	boolKey("paused", "", func(p *QueuePolicy) *bool { return &p.Paused }),
	boolKey("require_attestation", "", func(p *QueuePolicy) *bool { return &p.RequireAttestation }),
	key("prefetch_max", "", unitCount, 0, MaxPrefetch, func(p *QueuePolicy) *int64 { return &p.PrefetchMax }),
	key("tenant_window_max", "", unitCount, 0, 100_000_000, func(p *QueuePolicy) *int64 { return &p.TenantWindowMax }),
	key("tenant_window_ms", "tenant_window", unitMs, 1_000, maxMs, func(p *QueuePolicy) *int64 { return &p.TenantWindowMs }),
	key("domain_failure_threshold_permille", "domain_failure_threshold", unitPermille, 1, 1000,
		func(p *QueuePolicy) *int64 { return &p.DomainFailureThresholdPermille }),
	key("domain_min_samples", "", unitCount, 1, 1_000_000, func(p *QueuePolicy) *int64 { return &p.DomainMinSamples }),
	key("domain_probe_rps", "", unitCount, 1, 1_000_000, func(p *QueuePolicy) *int64 { return &p.DomainProbeRPS }),
	key("domain_probe_burst", "", unitCount, 1, 1_000_000, func(p *QueuePolicy) *int64 { return &p.DomainProbeBurst }),
	key("preempt_max", "", unitCount, 0, 1_000_000, func(p *QueuePolicy) *int64 { return &p.PreemptMax }),
	key("aging_threshold_ms", "aging_threshold", unitMs, 1_000, maxMs,
		func(p *QueuePolicy) *int64 { return &p.AgingThresholdMs }),
	key("stats_window", "", unitCount, 2, 1_000_000, func(p *QueuePolicy) *int64 { return &p.StatsWindow }),
	key("audit_window_ms", "audit_window", unitMs, 0, maxMs, func(p *QueuePolicy) *int64 { return &p.AuditWindowMs }),
	key("cool_after", "", unitCount, 0, 1_000_000, func(p *QueuePolicy) *int64 { return &p.CoolAfter }),
	key("cool_ms", "", unitMs, 1, maxMs, func(p *QueuePolicy) *int64 { return &p.CoolMs }),
	boolKey("decline_cools", "", func(p *QueuePolicy) *bool { return &p.DeclineCools }),
	key("deny_ms", "", unitMs, 0, maxMs, func(p *QueuePolicy) *int64 { return &p.DenyMs }),
	boolKey("health_steps", "", func(p *QueuePolicy) *bool { return &p.HealthSteps }),
}, scoringKeys...)

// Setting is one key=value of `queue set`.
type Setting struct {
	Key   string
	Value string
}

// PolicyKeys lists the keys that Set takes.
func PolicyKeys() []string {
	names := make([]string, len(policyKeys))
	for i := range policyKeys {
		names[i] = policyKeys[i].name
	}
	return names
}

// Set changes one key, by its name or by the name that SPEC gives it, with or
// without the unit's ending: lease_ms=60000, T_lease=60s, ranking=market. It
// refuses unknown keys and values out of range, naming key, value and range.
func (p *QueuePolicy) Set(s Setting) error {
	name := strings.ToLower(strings.TrimSpace(s.Key))
	for i := range policyKeys {
		k := &policyKeys[i]
		if name != k.name && (k.alias == "" || (name != k.alias && name != k.alias+"_ms" && name != k.alias+"_permille")) {
			continue
		}
		v, err := k.parse(strings.TrimSpace(s.Value))
		if err != nil {
			return err
		}
		k.set(p, v)
		return nil
	}
	return Refusef(Invalid, "key", "queue key %q is unknown: one of %s is wanted", s.Key, strings.Join(PolicyKeys(), ", "))
}

func (k *policyKey) parse(text string) (int64, error) {
	bad := func(want string) error {
		return Refusef(Invalid, k.name, "%s=%q is refused: %s is wanted", k.name, text, want)
	}
	var v int64
	var err error
	switch k.unit {
	case unitRanking:
		return k.parseName(text, rankingNames)
	case unitStrategy:
		return k.parseName(text, strategyNames)
	case unitEstimate:
		return k.parseName(text, estimateNames)
	case unitDecimal:
		var ok bool
		if v, ok = parseMilli(text); !ok {
			return 0, bad("a decimal number with at most three places, such as 0.5")
		}
		if v < k.min || v > k.max {
			return 0, bad(formatMilli(k.min) + " to " + formatMilli(k.max))
		}
		return v, nil
	case unitBool:
		switch strings.ToLower(text) {
		case "true", "on", "yes", "1":
			return 1, nil
		case "false", "off", "no", "0":
			return 0, nil
		}
		return 0, bad("on or off")
	case unitMs:
		if v, err = strconv.ParseInt(text, 10, 64); err != nil {
			d, derr := time.ParseDuration(text)
			if derr != nil {
				return 0, bad("a number of milliseconds or a duration such as 5s")
			}
			v = d.Milliseconds()
		}
	case unitPermille, unitPPM:
		if v, err = strconv.ParseInt(text, 10, 64); err != nil {
			scale := 1000.0
			if k.unit == unitPPM {
				scale = 1e6
			}
			f, ferr := strconv.ParseFloat(text, 64)
			if ferr != nil || math.IsNaN(f) || math.IsInf(f, 0) || math.Abs(f) > 1e6 {
				return 0, bad("a whole number or a ratio such as 0.5")
			}
			v = int64(math.Round(f * scale))
		}
	default:
		if v, err = strconv.ParseInt(text, 10, 64); err != nil {
			return 0, bad("a whole number")
		}
	}
	if v < k.min || v > k.max {
		return 0, bad(fmt.Sprintf("%d to %d", k.min, k.max))
	}
	return v, nil
}

func (k *policyKey) parseName(text string, names []string) (int64, error) {
	for i, n := range names {
		if strings.EqualFold(n, text) {
			return int64(i), nil
		}
	}
	return 0, Refusef(Invalid, k.name, "%s=%q is unknown: one of %s is wanted", k.name, text, strings.Join(names, ", "))
}

// Values gives every key's value in the canonical order.
func (p *QueuePolicy) Values() []int64 { return p.AppendValues(make([]int64, 0, len(policyKeys))) }

// AppendValues is Values for a caller that has room for them.
func (p *QueuePolicy) AppendValues(to []int64) []int64 {
	for i := range policyKeys {
		to = append(to, policyKeys[i].get(p))
	}
	return to
}

// PolicyFromValues is the inverse of Values. Keys beyond the given values take
// the standard's, so that an older state reads in a newer binary; more values
// than keys are refused.
func PolicyFromValues(preset string, values []int64) (QueuePolicy, error) {
	p := StandardPolicy()
	p.Preset = preset
	if len(values) > len(policyKeys) {
		return p, Refusef(Internal, "policy", "policy has %d values, this binary knows %d keys", len(values), len(policyKeys))
	}
	for i, v := range values {
		policyKeys[i].set(&p, v)
	}
	return p, p.Check()
}

// Check refuses a policy that is out of range or contradicts itself.
func (p *QueuePolicy) Check() error {
	for i := range policyKeys {
		k := &policyKeys[i]
		if v := k.get(p); v < k.min || v > k.max {
			return Refusef(Invalid, k.name, "%s=%d is refused: %d to %d is wanted", k.name, v, k.min, k.max)
		}
	}
	if sum := p.WFee + p.WAge + p.WSize + p.WTier; sum != 1_000_000 {
		return Refusef(Invalid, "w_fee", "w_fee + w_age + w_size + w_tier is %d ppm: 1000000 is wanted", sum)
	}
	if err := checkRuntime(p.MaxRuntimeMs); err != nil {
		return err
	}
	if err := p.checkScoring(); err != nil {
		return err
	}
	if p.AckTimeoutMs > p.LeaseMs {
		return Refusef(Invalid, "ack_timeout_ms", "ack_timeout_ms=%d is refused: at most lease_ms (%d) is wanted",
			p.AckTimeoutMs, p.LeaseMs)
	}
	return nil
}

// Settings gives every key with its value as Set takes it, in canonical order.
func (p *QueuePolicy) Settings() []Setting {
	settings := make([]Setting, len(policyKeys))
	for i := range policyKeys {
		k := &policyKeys[i]
		settings[i] = Setting{k.name, k.format(p)}
	}
	return settings
}

func (k *policyKey) format(p *QueuePolicy) string {
	v := k.get(p)
	switch k.unit {
	case unitRanking:
		return Ranking(v).String()
	case unitStrategy:
		return Strategy(v).String()
	case unitEstimate:
		return EstimateBy(v).String()
	case unitDecimal:
		return formatMilli(v)
	case unitBool:
		return strconv.FormatBool(v == 1)
	default:
		return strconv.FormatInt(v, 10)
	}
}
