package rota

// StandardPolicy is the preset `standard`, which every other starts from.
func StandardPolicy() QueuePolicy {
	return QueuePolicy{
		Preset: "standard", Ranking: RankAging, Strategy: StrategyLeastLoaded,
		LeaseMs: 60_000, AckTimeoutMs: 5_000, RenewAlphaPermille: 600, RenewBetaPermille: 500, RenewalsMax: -1,
		AttemptMax: 6, BackoffBaseMs: 5_000, BackoffFactorPermille: 2_000, BackoffCapMs: 900_000, BackoffUnitMs: 1, BackoffJitterPermille: 100,
		PayloadMaxBytes: MaxPayloadBytes, QueueCap: 1_000_000, RejectThresholdPermille: 1_000,
		AgingFactorMs: 10_000,
		WFee:          550_000, WAge: 250_000, WSize: 100_000, WTier: 100_000,
		FeeHalf: 1_000_000, SizeHalf: 1 << 20, AgeHorizonMs: 3_600_000,
		BatchSize: 256, DispatchIntervalMs: 250, Weight: 1, FairShare: true, StarvationInterleave: 0, OldestEvery: 20,
		HoldAfterMs: 30_000, HoldMaxMs: 600_000,
		PrefetchMax: MaxPrefetch, TenantWindowMs: 60_000,
		DomainFailureThresholdPermille: 300, DomainMinSamples: 10, DomainProbeRPS: 1, DomainProbeBurst: 5, PreemptMax: 3,
		AgingThresholdMs: 60_000, StatsWindow: 1_000, AuditWindowMs: 3_600_000,
		CoolMs:           30_000,
		UnitsPeriodMs:    3_600_000,
		GCHorizonMs:      7 * 24 * 3_600_000,
		HealthAckTimeout: 50, HealthLeaseExpired: 150, HealthProofInvalid: 500, HealthLateRenewal: 10, HealthSuccess: 20,
		EpsilonMilli: 2_000, NMin: 50, WMinMilli: 100, WMaxMilli: 1_500, MaxAgingMilli: 3_000, TAgingMs: 600_000,
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
