package rota

import (
	"math"
	"slices"
	"time"
)

// policyKey is one key of the policy, with all its properties, as one row of a table.
type policyKey struct {
	// name is the name of the key in JSON, with its unit at the end. alias is the name without the unit: for a ratio
	// the name that accepts ratios, otherwise a name that some source uses.
	name, alias string
	unit        policyUnit
	min, max    int64
	get         func(*QueuePolicy) int64
	set         func(*QueuePolicy, int64)
	// source is its origin, meaning describes it in a sentence, zero is what 0 means if it is not an ordinary number.
	source, meaning, zero string
	// names are the options of a choice.
	names []string
}

type policyUnit uint8

const (
	unitCount policyUnit = iota
	unitMs
	unitBool
	unitChoice
	unitPermille
	unitPPM
	unitBytes
	unitDecimal // thousandths, written as a decimal number
)

func key(name, alias string, unit policyUnit, lo, hi int64, f func(*QueuePolicy) *int64, source,
	meaning string) policyKey {
	return policyKey{name: name, alias: alias, unit: unit, min: lo, max: hi, source: source, meaning: meaning,
		get: func(p *QueuePolicy) int64 { return *f(p) }, set: func(p *QueuePolicy, v int64) { *f(p) = v }}
}

// off describes what 0 means.
func (k policyKey) off(zero string) policyKey {
	k.zero = zero
	return k
}

func boolKey(name, alias string, f func(*QueuePolicy) *bool, source, meaning string) policyKey {
	get := func(p *QueuePolicy) int64 {
		if *f(p) {
			return 1
		}
		return 0
	}
	set := func(p *QueuePolicy, v int64) { *f(p) = v == 1 }
	return policyKey{name: name, alias: alias, unit: unitBool, max: 1, get: get, set: set, source: source,
		meaning: meaning}
}

// choiceKey is a key of an enumeration, by the names of its values.
func choiceKey[T ~uint8](name string, names []string, f func(*QueuePolicy) *T, source, meaning string) policyKey {
	return policyKey{name: name, unit: unitChoice, max: int64(len(names) - 1), names: names, source: source,
		meaning: meaning,
		get:     func(p *QueuePolicy) int64 { return int64(*f(p)) },
		set:     func(p *QueuePolicy, v int64) { *f(p) = T(v) }}
}

// healthKey is a key for the effect of an outcome on a worker's health.
func healthKey(name string, f func(*QueuePolicy) *int64, does string) policyKey {
	return key(name, "", unitCount, 0, 1000, f,
		"AICF §3, SPEC §6.2", "health_steps=on: how much, of 1000, "+does+" a worker's health.").off("nothing")
}

const maxMs = int64(MaxDuration / time.Millisecond)

// policyKeys is the one table of keys. Its order is the canonical order of a policy in
// the state's digest and in stored formats: append only. docs/reference/policy.md is made of it:
// go test ./internal/tidy -run TestPolicyPage -update.
var policyKeys = append([]policyKey{
	choiceKey("ranking", rankingNames, func(p *QueuePolicy) *Ranking { return &p.Ranking },
		"SPEC §5", "In which order waiting jobs are drawn."),
	choiceKey("strategy", strategyNames, func(p *QueuePolicy) *Strategy { return &p.Strategy },
		"SPEC §7.6, DAG", "Which of the workers with room gets a job."),
	key("lease_ms", "t_lease", unitMs, 100, maxMs, func(p *QueuePolicy) *int64 { return &p.LeaseMs },
		"AICF §5", "How long a lease lasts; a worker renews it while it works."),
	key("ack_timeout_ms", "ack_timeout", unitMs, 100, 3_600_000, func(p *QueuePolicy) *int64 { return &p.AckTimeoutMs },
		"AICF §5", "Within what a worker acknowledges a lease, or the attempt is used up. At most lease_ms."),
	key("renew_alpha_permille", "alpha", unitPermille, 1, 1000,
		func(p *QueuePolicy) *int64 { return &p.RenewAlphaPermille },
		"AICF §5", "Which part of the lease is over when a renewal is due; one after that counts as late."),
	key("renew_beta_permille", "beta", unitPermille, 0, 1000,
		func(p *QueuePolicy) *int64 { return &p.RenewBetaPermille },
		"AICF §5", "By which part of lease_ms a renewal extends the lease.").off("a renewal adds nothing"),
	key("renewals_max", "", unitCount, -1, 1_000_000, func(p *QueuePolicy) *int64 { return &p.RenewalsMax },
		"AICF §5", "How often a lease may be renewed; -1 sets no limit.").off("no renewal"),
	key("max_runtime_ms", "max_runtime", unitMs, 0, maxMs, func(p *QueuePolicy) *int64 { return &p.MaxRuntimeMs },
		"SPEC §20.2", "The longest that an attempt may take, 3s or more, where its job names nothing shorter. Its worker ends it 1s before, to report it.").off("no limit"),
	key("leases_max_per_worker", "max_queue_per_worker", unitCount, 0, 1_000_000,
		func(p *QueuePolicy) *int64 { return &p.LeasesMaxPerWorker },
		"AICF §3, DAG", "The most leases that a worker may have open when it gets a job of this queue.").off(
		"no limit"),
	key("units_per_period", "", unitCount, 0, math.MaxInt64/4, func(p *QueuePolicy) *int64 { return &p.UnitsPerPeriod },
		"AICF §3", "How many units of this queue's jobs a worker may take a period.").off("no limit"),
	key("attempt_max", "", unitCount, 1, MaxAttempts, func(p *QueuePolicy) *int64 { return &p.AttemptMax },
		"AICF §6", "How many attempts a job has."),
	key("backoff_base_ms", "backoff_base", unitMs, 0, maxMs, func(p *QueuePolicy) *int64 { return &p.BackoffBaseMs },
		"AICF §6", "The wait after the first attempt that failed, give or take backoff_jitter.").off("no wait"),
	key("backoff_factor_permille", "backoff_factor", unitPermille, 1000, 1_000_000,
		func(p *QueuePolicy) *int64 { return &p.BackoffFactorPermille },
		"AICF §6", "By how much the wait grows with each attempt."),
	key("backoff_cap_ms", "backoff_cap", unitMs, 0, maxMs, func(p *QueuePolicy) *int64 { return &p.BackoffCapMs },
		"AICF §6", "The longest wait between two attempts.").off("no wait"),
	key("backoff_unit_ms", "backoff_unit", unitMs, 1, 3_600_000,
		func(p *QueuePolicy) *int64 { return &p.BackoffUnitMs }, "AICF §6", "To what multiple the wait is rounded."),
	key("backoff_jitter_permille", "backoff_jitter", unitPermille, 0, 1000,
		func(p *QueuePolicy) *int64 { return &p.BackoffJitterPermille },
		"SPEC §9.2", "By how much a wait is longer or shorter at most.").off("the same wait for all"),
	key("ttl_abs_ms", "ttl_abs", unitMs, 0, maxMs, func(p *QueuePolicy) *int64 { return &p.TTLAbsMs },
		"AICF §7", "After what a job that has not ended expires, from its submission.").off("no limit"),
	key("ttl_rel_max_ms", "ttl_rel_max", unitMs, 0, maxMs, func(p *QueuePolicy) *int64 { return &p.TTLRelMaxMs },
		"AICF §7", "After what a job that has not ended expires, from its first lease.").off("no limit"),
	key("payload_max_bytes", "", unitBytes, 0, MaxPayloadBytes,
		func(p *QueuePolicy) *int64 { return &p.PayloadMaxBytes },
		"SPEC §4.2", "The largest accepted payload.").off("no payload"),
	key("queue_cap", "", unitCount, 1, 100_000_000, func(p *QueuePolicy) *int64 { return &p.QueueCap },
		"FF §5", "The most jobs that may wait; more are refused."),
	key("rate_limit_rps", "", unitCount, 0, 10_000_000, func(p *QueuePolicy) *int64 { return &p.RateLimitRPS },
		"FF §5",
		"How many submissions a second a tenant may make, where its own limits leave that to queues.").off("no limit"),
	key("reject_threshold_permille", "reject_threshold", unitPermille, 0, 1000,
		func(p *QueuePolicy) *int64 { return &p.RejectThresholdPermille },
		"FF §5, DAG", "From which usage of queue_cap or max_queue_size on all but priority 0 is refused.").off("off"),
	key("max_queue_size", "", unitCount, 0, 100_000_000, func(p *QueuePolicy) *int64 { return &p.MaxQueueSize },
		"DAG", "How many jobs, ready or leased, each active worker of the queue makes room for.").off("no limit"),
	key("aging_factor_ms", "aging_factor", unitMs, 1, maxMs, func(p *QueuePolicy) *int64 { return &p.AgingFactorMs },
		"FF §3.2", "ranking=aging: which wait is worth one priority."),
	key("w_fee_ppm", "w_fee", unitPPM, 0, 1_000_000, func(p *QueuePolicy) *int64 { return &p.WFee },
		"AICF §2", "ranking=market: weight of the fee. The four weights sum to 1."),
	key("w_age_ppm", "w_age", unitPPM, 0, 1_000_000, func(p *QueuePolicy) *int64 { return &p.WAge },
		"AICF §2", "ranking=market: weight of the age."),
	key("w_size_ppm", "w_size", unitPPM, 0, 1_000_000, func(p *QueuePolicy) *int64 { return &p.WSize },
		"AICF §2", "ranking=market: weight of a small size."),
	key("w_tier_ppm", "w_tier", unitPPM, 0, 1_000_000, func(p *QueuePolicy) *int64 { return &p.WTier },
		"AICF §2", "ranking=market: weight of the tenant's service tier."),
	key("fee_half", "", unitCount, 1, MaxFee, func(p *QueuePolicy) *int64 { return &p.FeeHalf },
		"AICF §2", "ranking=market: the fee that is worth half of what a fee can be worth."),
	key("size_half", "", unitBytes, 1, MaxSizeBytes, func(p *QueuePolicy) *int64 { return &p.SizeHalf },
		"AICF §2", "ranking=market: the size that costs half of what a size can cost."),
	key("age_horizon_ms", "age_horizon", unitMs, 1_000, maxMs, func(p *QueuePolicy) *int64 { return &p.AgeHorizonMs },
		"AICF §2", "ranking=market: the wait that is worth the whole weight of age."),
	key("batch_size", "", unitCount, 1, MaxRoundPairs, func(p *QueuePolicy) *int64 { return &p.BatchSize },
		"AICF §4", "The most assignments of a round."),
	key("dispatch_interval_ms", "dispatch_interval", unitMs, 10, 60_000,
		func(p *QueuePolicy) *int64 { return &p.DispatchIntervalMs },
		"SPEC §7.2", "How often at least rounds run while jobs wait; a change of supply or demand runs one at once."),
	key("weight", "", unitCount, 1, 1_000_000, func(p *QueuePolicy) *int64 { return &p.Weight },
		"SPEC §7.2", "The queue's share where several compete for workers."),
	boolKey("fair_share", "", func(p *QueuePolicy) *bool { return &p.FairShare },
		"SPEC §4.11", "Whether tenants share the queue's workers by their weights."),
	boolKey("prefer_locality", "", func(p *QueuePolicy) *bool { return &p.PreferLocality },
		"DAG", "Whether workers that hold a job's data or ran its type come first, whatever the strategy."),
	boolKey("preempt", "", func(p *QueuePolicy) *bool { return &p.Preempt },
		"FF §3", "Whether jobs of priority 0 end leases of jobs of priority 9 and 10 where they fit nowhere else."),
	key("starvation_interleave", "interleave", unitCount, 0, 1_000_000,
		func(p *QueuePolicy) *int64 { return &p.StarvationInterleave },
		"AICF §9", "Every how many assignments of the queue one goes to its oldest job.").off("off"),
	key("oldest_every", "", unitCount, 0, 1_000_000, func(p *QueuePolicy) *int64 { return &p.OldestEvery },
		"SPEC §7.10", "Every how many leases of a worker one goes to the oldest job of any queue.").off("off"),
	key("hold_after_ms", "hold_after", unitMs, 0, maxMs, func(p *QueuePolicy) *int64 { return &p.HoldAfterMs },
		"SPEC §7.8", "After which wait for room a worker is kept for a job.").off("at once"),
	key("hold_max_ms", "hold_max", unitMs, 1, maxMs, func(p *QueuePolicy) *int64 { return &p.HoldMaxMs },
		"SPEC §7.8", "How long one worker is kept for a job before another is."),
	key("min_health", "", unitCount, 0, 1000, func(p *QueuePolicy) *int64 { return &p.MinHealth },
		"AICF §3", "The least health, of 1000, of a worker that gets this queue's jobs.").off("off"),
	key("min_stake", "", unitCount, 0, MaxFee, func(p *QueuePolicy) *int64 { return &p.MinStake },
		"AICF §3", "The least attested stake, in millionths of a unit, of a worker that gets this queue's jobs.").off(
		"off"), boolKey("paused", "", func(p *QueuePolicy) *bool { return &p.Paused },
		"SPEC §6.1", "Whether no job of the queue starts."),
	boolKey("require_attestation", "", func(p *QueuePolicy) *bool { return &p.RequireAttestation },
		"AICF §3", "Whether only workers with an attestation that has not expired get this queue's jobs."),
	key("prefetch_max", "", unitCount, 0, MaxPrefetch, func(p *QueuePolicy) *int64 { return &p.PrefetchMax },
		"DAG", "How much of a worker's prefetch counts for this queue's jobs.").off("slots alone count"),
	key("tenant_window_max", "", unitCount, 0, 100_000_000, func(p *QueuePolicy) *int64 { return &p.TenantWindowMax },
		"AICF §9", "How many assignments a tenant gets in a rolling window of tenant_window_ms.").off("no limit"),
	key("tenant_window_ms", "tenant_window", unitMs, 1_000, maxMs,
		func(p *QueuePolicy) *int64 { return &p.TenantWindowMs },
		"AICF §9", "The length of that window."),
	key("domain_failure_threshold_permille", "domain_failure_threshold", unitPermille, 0, 1000,
		func(p *QueuePolicy) *int64 { return &p.DomainFailureThresholdPermille },
		"FF §4",
		"Above which share of failures in a minute a failure domain is isolated; it recovers at half of it.").off(
		"off"),
	key("domain_min_samples", "", unitCount, 1, 1_000_000, func(p *QueuePolicy) *int64 { return &p.DomainMinSamples },
		"FF §4", "How many outcomes a minute it takes to isolate a failure domain."),
	key("domain_probe_rps", "", unitCount, 1, 1_000_000, func(p *QueuePolicy) *int64 { return &p.DomainProbeRPS },
		"FF §4", "How many jobs a second of an isolated failure domain start."),
	key("domain_probe_burst", "", unitCount, 1, 1_000_000, func(p *QueuePolicy) *int64 { return &p.DomainProbeBurst },
		"FF §4", "How many of those at once."),
	key("preempt_max", "", unitCount, 0, 1_000_000, func(p *QueuePolicy) *int64 { return &p.PreemptMax },
		"SPEC §7.9", "How often a job can be preempted by more urgent ones.").off("never"),
	key("aging_threshold_ms", "aging_threshold", unitMs, 1_000, maxMs,
		func(p *QueuePolicy) *int64 { return &p.AgingThresholdMs },
		"DFPS-R", "ranking=adaptive: after which wait in a tier a job rises to the next."),
	key("stats_window", "", unitCount, 2, 1_000_000, func(p *QueuePolicy) *int64 { return &p.StatsWindow },
		"DFPS-S", "ranking=adaptive: at how many outcomes of a type its counts are halved."),
	key("audit_window_ms", "audit_window", unitMs, 0, maxMs, func(p *QueuePolicy) *int64 { return &p.AuditWindowMs },
		"AICF §8", "How long after a completion a verifier may report its proof invalid.").off("never"),
	key("cool_after", "", unitCount, 0, 1_000_000, func(p *QueuePolicy) *int64 { return &p.CoolAfter },
		"AICF §3, SPEC §16.1",
		"From how many failures in a row of a type on a worker cools down for that type, in queues that set this.").off(
		"off"), key("cool_ms", "", unitMs, 1, maxMs, func(p *QueuePolicy) *int64 { return &p.CoolMs },
		"AICF §3", "How long a worker cools down for a type."),
	boolKey("decline_cools", "", func(p *QueuePolicy) *bool { return &p.DeclineCools },
		"AICF §3",
		"Whether a decline cools its worker down for the type at once; needs cool_after. Else the job waits a moment."),
	key("deny_ms", "", unitMs, 0, maxMs, func(p *QueuePolicy) *int64 { return &p.DenyMs },
		"AICF §3",
		"How long a type is denied to a worker after one of its leases expired, in queues that set this.").off("off"),
	boolKey("health_steps", "", func(p *QueuePolicy) *bool { return &p.HealthSteps },
		"AICF §3", "Whether outcomes change a worker's health, and invalid proofs its stake, up to jail."),
	key("lease_grace_on_disconnect_ms", "lease_grace_on_disconnect", unitMs, 0, int64(SilenceEnds),
		func(p *QueuePolicy) *int64 { return &p.LeaseGraceMs },
		"SPEC 16.7", "How long a lease outlives its worker's broken stream, 0 or 10 s to 40 s; 0 lets silence end it.").off("off"),
	key("units_period_ms", "units_period", unitMs, 1_000, maxMs,
		func(p *QueuePolicy) *int64 { return &p.UnitsPeriodMs },
		"AICF §9", "The period of units_per_period; one that has begun keeps its end unless a shorter one ends sooner."),
	healthKey("health_ack_timeout", func(p *QueuePolicy) *int64 { return &p.HealthAckTimeout },
		"an acknowledgement that did not come takes from"),
	healthKey("health_lease_expired", func(p *QueuePolicy) *int64 { return &p.HealthLeaseExpired },
		"a lease that expired takes from"),
	healthKey("health_proof_invalid", func(p *QueuePolicy) *int64 { return &p.HealthProofInvalid },
		"an invalid proof takes from"),
	healthKey("health_late_renewal", func(p *QueuePolicy) *int64 { return &p.HealthLateRenewal },
		"a renewal that came late takes from"),
	healthKey("health_success", func(p *QueuePolicy) *int64 { return &p.HealthSuccess },
		"a completed job adds to"),
	key("bytes_max", "", unitBytes, 0, MaxStateBytes, func(p *QueuePolicy) *int64 { return &p.BytesMax },
		"SPEC §4.14", "How many bytes the queue's jobs and workflows may hold, as `queue show` counts them.").off(
		"no limit"),
	key("gc_horizon_ms", "gc_horizon", unitMs, GCHorizonLeast, maxMs,
		func(p *QueuePolicy) *int64 { return &p.GCHorizonMs },
		"AICF §7", "How long a job or a workflow is remembered from its end, as this was then. At least audit_window_ms."),
}, slices.Concat(scoringKeys, backfillKeys, laterKeys)...)

// laterKeys are the keys added after v0.1.0, by the rules version of fsm/entry. frozenKeys is the number of keys of
// v0.1.0; the other keys are left out where they are as in usualPolicy.
var (
	laterKeys = []policyKey{
		key("worker_losses_max", "", unitCount, 0, MaxWorkerLosses,
			func(p *QueuePolicy) *int64 { return &p.WorkerLossesMax },
			"SPEC §9.7", "How many attempts of a job may end because their worker was lost, uncounted, before it is DEAD; after two it runs alone on a worker.").off("each uses up an attempt"),
		healthKey("health_provider_fail", func(p *QueuePolicy) *int64 { return &p.HealthProviderFail },
			"a failed attempt takes from"),
		boolKey("unseeded", "", func(p *QueuePolicy) *bool { return &p.Unseeded },
			"DAG, SPEC §7.6", "Whether ids alone order workers: least_loaded and affinity take the lowest id of equals, random goes by the job and the number of workers. Else the round's seed decides."),
		boolKey("renew_adds", "", func(p *QueuePolicy) *bool { return &p.RenewAdds },
			"AICF §5", "Whether each renewal adds its part of lease_ms to the deadline, also beyond now + lease_ms; needs renewals_max."),
	}
	frozenKeys  = len(policyKeys) - len(laterKeys)
	usualPolicy = StandardPolicy()
)
