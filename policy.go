package rota

import (
	"fmt"
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
	// Unseeded orders workers by id instead of by the round's seed (SPEC §7.6).
	Unseeded bool

	// Leases (SPEC §8).
	LeaseMs            int64
	AckTimeoutMs       int64
	RenewAlphaPermille int64
	RenewBetaPermille  int64
	RenewalsMax        int64
	RenewAdds          bool
	MaxRuntimeMs       int64
	LeasesMaxPerWorker int64
	// LeaseGraceMs is how long a lease continues after its worker's stream breaks; 0 means as long as for a silent
	// worker (SPEC §16.7).
	LeaseGraceMs   int64
	UnitsPerPeriod int64
	UnitsPeriodMs  int64

	// Retry and time to live (SPEC §9).
	AttemptMax            int64
	BackoffBaseMs         int64
	BackoffFactorPermille int64
	BackoffCapMs          int64
	BackoffUnitMs         int64
	BackoffJitterPermille int64
	TTLAbsMs              int64
	TTLRelMaxMs           int64
	// GCHorizonMs is how long the record of an ended job or workflow is kept (SPEC §9.4).
	GCHorizonMs int64

	// Admission (SPEC §4).
	PayloadMaxBytes         int64
	QueueCap                int64
	RateLimitRPS            int64
	RejectThresholdPermille int64
	MaxQueueSize            int64
	// BytesMax is the maximum number of bytes of the queue's jobs and workflows; 0 means no limit (SPEC §4.14).
	BytesMax int64

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

	// Reputation (SPEC §6.2, §16.1).
	CoolAfter    int64
	CoolMs       int64
	DeclineCools bool
	DenyMs       int64
	HealthSteps  bool
	// Changes of a worker's health, in permille: what each bad outcome subtracts, and what a success adds.
	HealthAckTimeout   int64
	HealthLeaseExpired int64
	HealthProviderFail int64
	HealthProofInvalid int64
	HealthLateRenewal  int64
	HealthSuccess      int64

	// The adaptive score (SPEC §5.3): thousandths, but for counts and times. Of the tiers, 2 to MaxTiers, each has a
	// base and a quota; the unused ones are 0.
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

	// Batch scheduling (SPEC §26).
	ShortestAging int64
	Backfill      Backfill
	BackfillOrder BackfillOrder
	BackfillDepth int64

	// Lost workers (SPEC §9.7).
	WorkerLossesMax int64
}

// Setting is one key=value of `queue set`.
type Setting struct {
	Key   string
	Value string
}

// PolicyKeys lists the keys that Set accepts.
func PolicyKeys() []string {
	names := make([]string, len(policyKeys))
	for i := range policyKeys {
		names[i] = policyKeys[i].name
	}
	return names
}

// Set changes one key, given by its name, by the name without its unit, or by its name in a source: lease_ms=60000,
// T_lease=60s, ranking=market. For a ratio, the name with the unit accepts whole numbers
// (reject_threshold_permille=900); the name without it accepts ratios in any notation (reject_threshold=0.9, 1, 1.0).
// It rejects unknown keys and values out of range; the error names key, value and range.
func (p *QueuePolicy) Set(s Setting) error {
	name := strings.ToLower(strings.TrimSpace(s.Key))
	for i := range policyKeys {
		k := &policyKeys[i]
		called, ratio := k.called(name)
		if !called {
			continue
		}
		v, err := k.parse(strings.TrimSpace(s.Value), ratio)
		if err != nil {
			return err
		}
		k.set(p, v)
		return nil
	}
	return unknown("key", "queue key", s.Key, PolicyKeys())
}

// Shuffles reports whether rounds look at the workers in an order that their seed draws, not by id.
func (p *QueuePolicy) Shuffles() bool {
	switch p.Strategy {
	case StrategyShuffle:
		return true
	case StrategyRoundRobin, StrategyRandom:
		return false
	default:
		return !p.Unseeded
	}
}

// called reports whether a name is one of the key's, and whether the key accepts a ratio under that name.
func (k *policyKey) called(name string) (called, ratio bool) {
	switch {
	case name == k.name:
		return true, false
	case k.alias == "":
		return false, false
	case name == k.alias:
		return true, k.scale() != 0
	case k.unit == unitMs:
		return name == k.alias+"_ms", false
	case k.unit == unitPermille:
		return name == k.alias+"_permille", false
	}
	return false, false
}

// scale is the factor from a ratio to the key's value; 0 for a key that is not a ratio.
func (k *policyKey) scale() int64 {
	switch k.unit {
	case unitPermille:
		return 1_000
	case unitPPM:
		return 1_000_000
	default:
		return 0
	}
}

func (k *policyKey) parse(text string, ratio bool) (int64, error) {
	name := k.name
	if ratio {
		name = k.alias
	}
	bad := func(want string) error {
		return Refusef(KindInvalid, k.name, "%s: got %q; use %s", name, shorten(text), want)
	}
	var v int64
	var err error
	switch {
	case k.unit == unitChoice:
		return k.parseName(text)
	case k.unit == unitDecimal:
		var ok bool
		if v, ok = parseMilli(text); !ok {
			return 0, bad("a decimal number with at most three places, such as 0.5")
		}
		if v < k.min || v > k.max {
			return 0, bad(formatMilli(k.min) + " to " + formatMilli(k.max))
		}
		return v, nil
	case k.unit == unitBool:
		on, ok := parseSwitch(text)
		switch {
		case !ok:
			return 0, bad("on or off")
		case on:
			return 1, nil
		}
		return 0, nil
	case ratio:
		want := fmt.Sprintf("a ratio of %s to %s with at most %d decimals", ratioText(k.min, k.scale()),
			ratioText(k.max, k.scale()),
			decimals(k.scale()))
		if v, err = parseRatio(text, k.scale()); err != nil || v < k.min || v > k.max {
			return 0, bad(want)
		}
		return v, nil
	case k.unit == unitMs:
		if v, err = strconv.ParseInt(text, 10, 64); err != nil {
			d, derr := ParseDuration(text)
			if derr != nil || d%time.Millisecond != 0 {
				return 0, bad("a number of milliseconds, or a duration of whole milliseconds such as 5s or 1d12h")
			}
			v = d.Milliseconds()
		}
	case k.unit == unitBytes:
		if v, err = parseBytes(name, text, k.min, k.max); err != nil {
			return 0, err
		}
	default:
		if v, err = strconv.ParseInt(text, 10, 64); err != nil {
			want := "a whole number"
			if k.scale() != 0 {
				want = fmt.Sprintf("a whole number from %d to %d, or set %s to a ratio", k.min, k.max, k.alias)
			}
			return 0, bad(want)
		}
	}
	if v < k.min || v > k.max {
		return 0, bad(fmt.Sprintf("%d to %d", k.min, k.max))
	}
	return v, nil
}

func (k *policyKey) parseName(text string) (int64, error) {
	for i, n := range k.names {
		if strings.EqualFold(n, text) {
			return int64(i), nil
		}
	}
	return 0, unknown(k.name, k.name, text, k.names)
}

// Values returns the values of the keys in canonical order. Trailing keys that were added after v0.1.0 and are as in
// the standard preset are left out, so that a policy without them has the same form as before.
func (p *QueuePolicy) Values() []int64 { return p.AppendValues(make([]int64, 0, len(policyKeys))) }

// AppendValues is Values for a caller that has room for them.
func (p *QueuePolicy) AppendValues(to []int64) []int64 {
	n := len(policyKeys)
	for ; n > frozenKeys && policyKeys[n-1].get(p) == policyKeys[n-1].get(&usualPolicy); n-- {
	}
	for i := range n {
		to = append(to, policyKeys[i].get(p))
	}
	return to
}

// PolicyFromValues is the inverse of Values: trailing keys without a value are as in the standard preset. It rejects
// fewer values than v0.1.0 had keys, and more values than there are keys.
func PolicyFromValues(preset string, values []int64) (QueuePolicy, error) {
	p := StandardPolicy()
	p.Preset = preset
	if len(values) < frozenKeys || len(values) > len(policyKeys) {
		return p, Refusef(KindInternal, "policy", "policy: got %d values, but this binary knows %d keys", len(values),
			len(policyKeys))
	}
	for i, v := range values {
		k := &policyKeys[i]
		if k.set(&p, v); k.get(&p) != v { // such as a flag that is neither 0 nor 1
			return p, Refusef(KindInternal, "policy", "policy: %s must be between %d and %d, got %d", k.name, k.min,
				k.max, v)
		}
	}
	err := p.Check()
	return p, err
}

// Check rejects a policy that is out of range or contradicts itself.
func (p *QueuePolicy) Check() error {
	for i := range policyKeys {
		k := &policyKeys[i]
		if v := k.get(p); v < k.min || v > k.max {
			return OutOfRange(k.name, v, k.min, k.max)
		}
	}
	if sum := p.WFee + p.WAge + p.WSize + p.WTier; sum != 1_000_000 {
		return Refusef(KindInvalid, "w_fee", "w_fee + w_age + w_size + w_tier must be 1000000 ppm, got %d", sum)
	}
	if err := checkRuntime(p.MaxRuntimeMs); err != nil {
		return err
	}
	if p.RenewAdds && p.RenewalsMax < 0 {
		return Refusef(KindInvalid, "renew_adds",
			"renew_adds: got on with renewals_max -1 (no limit), want renewals_max of 0 to 1000000; set both in one call")
	}
	if p.LeaseGraceMs != 0 && p.LeaseGraceMs < int64(GraceLeast) {
		return Refusef(KindInvalid, "lease_grace_on_disconnect_ms",
			"lease_grace_on_disconnect_ms must be 0 or between %d and %d, got %d", GraceLeast, SilenceEnds,
			p.LeaseGraceMs)
	}
	if err := p.checkScoring(); err != nil {
		return err
	}
	if err := p.checkBackfill(); err != nil {
		return err
	}
	if p.GCHorizonMs < p.AuditWindowMs { // a report needs the tombstone
		return Refusef(KindInvalid, "gc_horizon_ms", "gc_horizon_ms must be at least audit_window_ms (%d), got %d",
			p.AuditWindowMs, p.GCHorizonMs)
	}
	if p.AckTimeoutMs > p.LeaseMs {
		return Refusef(KindInvalid, "ack_timeout_ms", "ack_timeout_ms must be at most lease_ms (%d), got %d",
			p.LeaseMs, p.AckTimeoutMs)
	}
	return nil
}

// Settings returns every key with its value in the form that Set accepts, in canonical order.
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
	case unitChoice:
		return nameOf(k.names, int(v))
	case unitDecimal:
		return formatMilli(v)
	case unitBool:
		return strconv.FormatBool(v == 1)
	default:
		return strconv.FormatInt(v, 10)
	}
}
