package rota

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
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
		"SPEC §5", "Order in which pending jobs are drawn."),
	choiceKey("strategy", strategyNames, func(p *QueuePolicy) *Strategy { return &p.Strategy },
		"SPEC §7.6, DAG", "Which worker with room gets a job."),
	key("lease_ms", "t_lease", unitMs, 100, maxMs, func(p *QueuePolicy) *int64 { return &p.LeaseMs },
		"AICF §5", "Length of a lease; a worker renews it while it works."),
	key("ack_timeout_ms", "ack_timeout", unitMs, 100, 3_600_000, func(p *QueuePolicy) *int64 { return &p.AckTimeoutMs },
		"AICF §5", "Time allowed to acknowledge a lease before the attempt counts as failed. At most lease_ms."),
	key("renew_alpha_permille", "alpha", unitPermille, 1, 1000,
		func(p *QueuePolicy) *int64 { return &p.RenewAlphaPermille },
		"AICF §5", "Part of the lease after which a renewal is due; a later one counts as late."),
	key("renew_beta_permille", "beta", unitPermille, 0, 1000,
		func(p *QueuePolicy) *int64 { return &p.RenewBetaPermille },
		"AICF §5", "Part of lease_ms by which a renewal extends the lease.").off("a renewal adds nothing"),
	key("renewals_max", "", unitCount, -1, 1_000_000, func(p *QueuePolicy) *int64 { return &p.RenewalsMax },
		"AICF §5", "Maximum renewals of a lease; -1 sets no limit.").off("no renewal"),
	key("max_runtime_ms", "max_runtime", unitMs, 0, maxMs, func(p *QueuePolicy) *int64 { return &p.MaxRuntimeMs },
		"SPEC §20.2", "Maximum run time of an attempt, at least 3s, unless its job sets a shorter one. Its worker ends it 1s earlier, to report it.").off("no limit"),
	key("leases_max_per_worker", "max_queue_per_worker", unitCount, 0, 1_000_000,
		func(p *QueuePolicy) *int64 { return &p.LeasesMaxPerWorker },
		"AICF §3, DAG", "Maximum open leases of a worker that gets a job of this queue.").off(
		"no limit"),
	key("units_per_period", "", unitCount, 0, math.MaxInt64/4, func(p *QueuePolicy) *int64 { return &p.UnitsPerPeriod },
		"AICF §3", "Maximum units of this queue's jobs for a worker in a period.").off("no limit"),
	key("attempt_max", "", unitCount, 1, MaxAttempts, func(p *QueuePolicy) *int64 { return &p.AttemptMax },
		"AICF §6", "Attempts of a job."),
	key("backoff_base_ms", "backoff_base", unitMs, 0, maxMs, func(p *QueuePolicy) *int64 { return &p.BackoffBaseMs },
		"AICF §6", "Wait after the first failed attempt, changed by backoff_jitter.").off("no wait"),
	key("backoff_factor_permille", "backoff_factor", unitPermille, 1000, 1_000_000,
		func(p *QueuePolicy) *int64 { return &p.BackoffFactorPermille },
		"AICF §6", "Factor by which the wait grows with each attempt."),
	key("backoff_cap_ms", "backoff_cap", unitMs, 0, maxMs, func(p *QueuePolicy) *int64 { return &p.BackoffCapMs },
		"AICF §6", "Maximum wait between two attempts.").off("no wait"),
	key("backoff_unit_ms", "backoff_unit", unitMs, 1, 3_600_000,
		func(p *QueuePolicy) *int64 { return &p.BackoffUnitMs }, "AICF §6", "Unit to which the wait is rounded."),
	key("backoff_jitter_permille", "backoff_jitter", unitPermille, 0, 1000,
		func(p *QueuePolicy) *int64 { return &p.BackoffJitterPermille },
		"SPEC §9.2", "Maximum random change of a wait, longer or shorter.").off("the same wait for all"),
	key("ttl_abs_ms", "ttl_abs", unitMs, 0, maxMs, func(p *QueuePolicy) *int64 { return &p.TTLAbsMs },
		"AICF §7", "Time after submission when a live job expires.").off("no limit"),
	key("ttl_rel_max_ms", "ttl_rel_max", unitMs, 0, maxMs, func(p *QueuePolicy) *int64 { return &p.TTLRelMaxMs },
		"AICF §7", "Time after the first lease when a live job expires.").off("no limit"),
	key("payload_max_bytes", "", unitBytes, 0, MaxPayloadBytes,
		func(p *QueuePolicy) *int64 { return &p.PayloadMaxBytes },
		"SPEC §4.2", "Maximum payload.").off("no payload"),
	key("queue_cap", "", unitCount, 1, 100_000_000, func(p *QueuePolicy) *int64 { return &p.QueueCap },
		"FF §5", "Maximum pending jobs; more are refused."),
	key("rate_limit_rps", "", unitCount, 0, 10_000_000, func(p *QueuePolicy) *int64 { return &p.RateLimitRPS },
		"FF §5",
		"Maximum submissions a second of a tenant whose own limits leave this to queues.").off("no limit"),
	key("reject_threshold_permille", "reject_threshold", unitPermille, 0, 1000,
		func(p *QueuePolicy) *int64 { return &p.RejectThresholdPermille },
		"FF §5, DAG", "Usage of queue_cap or max_queue_size from which only priority 0 is accepted.").off("off"),
	key("max_queue_size", "", unitCount, 0, 100_000_000, func(p *QueuePolicy) *int64 { return &p.MaxQueueSize },
		"DAG", "Maximum jobs, ready or leased, for each active worker of the queue.").off("no limit"),
	key("aging_factor_ms", "aging_factor", unitMs, 1, maxMs, func(p *QueuePolicy) *int64 { return &p.AgingFactorMs },
		"FF §3.2", "ranking=aging: wait that is worth one priority."),
	key("w_fee_ppm", "w_fee", unitPPM, 0, 1_000_000, func(p *QueuePolicy) *int64 { return &p.WFee },
		"AICF §2", "ranking=market: weight of the fee. The four weights sum to 1."),
	key("w_age_ppm", "w_age", unitPPM, 0, 1_000_000, func(p *QueuePolicy) *int64 { return &p.WAge },
		"AICF §2", "ranking=market: weight of the age."),
	key("w_size_ppm", "w_size", unitPPM, 0, 1_000_000, func(p *QueuePolicy) *int64 { return &p.WSize },
		"AICF §2", "ranking=market: weight of a small size."),
	key("w_tier_ppm", "w_tier", unitPPM, 0, 1_000_000, func(p *QueuePolicy) *int64 { return &p.WTier },
		"AICF §2", "ranking=market: weight of the tenant's service tier."),
	key("fee_half", "", unitCount, 1, MaxFee, func(p *QueuePolicy) *int64 { return &p.FeeHalf },
		"AICF §2", "ranking=market: fee with half of the maximum effect."),
	key("size_half", "", unitBytes, 1, MaxSizeBytes, func(p *QueuePolicy) *int64 { return &p.SizeHalf },
		"AICF §2", "ranking=market: size with half of the maximum effect."),
	key("age_horizon_ms", "age_horizon", unitMs, 1_000, maxMs, func(p *QueuePolicy) *int64 { return &p.AgeHorizonMs },
		"AICF §2", "ranking=market: wait with the whole weight of age."),
	key("batch_size", "", unitCount, 1, MaxRoundPairs, func(p *QueuePolicy) *int64 { return &p.BatchSize },
		"AICF §4", "Maximum assignments of a round."),
	key("dispatch_interval_ms", "dispatch_interval", unitMs, 10, 60_000,
		func(p *QueuePolicy) *int64 { return &p.DispatchIntervalMs },
		"SPEC §7.2", "Maximum interval of rounds while jobs wait; a change of supply or demand starts one at once."),
	key("weight", "", unitCount, 1, 1_000_000, func(p *QueuePolicy) *int64 { return &p.Weight },
		"SPEC §7.2", "The queue's share when queues compete for workers."),
	boolKey("fair_share", "", func(p *QueuePolicy) *bool { return &p.FairShare },
		"SPEC §4.11", "Whether tenants share the queue's workers by their weights."),
	boolKey("prefer_locality", "", func(p *QueuePolicy) *bool { return &p.PreferLocality },
		"DAG", "Whether workers that hold a job's data or ran its type come first, under any strategy."),
	boolKey("preempt", "", func(p *QueuePolicy) *bool { return &p.Preempt },
		"FF §3", "Whether jobs of priority 0 that fit nowhere else end leases of jobs of priority 9 and 10."),
	key("starvation_interleave", "interleave", unitCount, 0, 1_000_000,
		func(p *QueuePolicy) *int64 { return &p.StarvationInterleave },
		"AICF §9", "Interval, in assignments of the queue, at which one goes to its oldest job.").off("off"),
	key("oldest_every", "", unitCount, 0, 1_000_000, func(p *QueuePolicy) *int64 { return &p.OldestEvery },
		"SPEC §7.10", "Interval, in leases of a worker, at which one goes to the oldest job of any queue.").off("off"),
	key("hold_after_ms", "hold_after", unitMs, 0, maxMs, func(p *QueuePolicy) *int64 { return &p.HoldAfterMs },
		"SPEC §7.8", "Wait for room after which a worker is kept for a job.").off("at once"),
	key("hold_max_ms", "hold_max", unitMs, 1, maxMs, func(p *QueuePolicy) *int64 { return &p.HoldMaxMs },
		"SPEC §7.8", "Time for which one worker is kept for a job before another one is."),
	key("min_health", "", unitCount, 0, 1000, func(p *QueuePolicy) *int64 { return &p.MinHealth },
		"AICF §3", "Minimum health, of 1000, of a worker that gets this queue's jobs.").off("off"),
	key("min_stake", "", unitCount, 0, MaxFee, func(p *QueuePolicy) *int64 { return &p.MinStake },
		"AICF §3", "Minimum attested stake, in millionths of a unit, of a worker that gets this queue's jobs.").off(
		"off"), boolKey("paused", "", func(p *QueuePolicy) *bool { return &p.Paused },
		"SPEC §6.1", "Whether no job of the queue starts."),
	boolKey("require_attestation", "", func(p *QueuePolicy) *bool { return &p.RequireAttestation },
		"AICF §3", "Whether only workers with a valid attestation get this queue's jobs."),
	key("prefetch_max", "", unitCount, 0, MaxPrefetch, func(p *QueuePolicy) *int64 { return &p.PrefetchMax },
		"DAG", "Maximum part of a worker's prefetch that counts for this queue's jobs.").off("slots alone count"),
	key("tenant_window_max", "", unitCount, 0, 100_000_000, func(p *QueuePolicy) *int64 { return &p.TenantWindowMax },
		"AICF §9", "Maximum assignments of a tenant in a rolling window of tenant_window_ms.").off("no limit"),
	key("tenant_window_ms", "tenant_window", unitMs, 1_000, maxMs,
		func(p *QueuePolicy) *int64 { return &p.TenantWindowMs },
		"AICF §9", "The length of that window."),
	key("domain_failure_threshold_permille", "domain_failure_threshold", unitPermille, 0, 1000,
		func(p *QueuePolicy) *int64 { return &p.DomainFailureThresholdPermille },
		"FF §4",
		"Share of failures in a minute above which a failure domain is isolated; it recovers at half.").off(
		"off"),
	key("domain_min_samples", "", unitCount, 1, 1_000_000, func(p *QueuePolicy) *int64 { return &p.DomainMinSamples },
		"FF §4", "Minimum outcomes a minute to isolate a failure domain."),
	key("domain_probe_rps", "", unitCount, 1, 1_000_000, func(p *QueuePolicy) *int64 { return &p.DomainProbeRPS },
		"FF §4", "Jobs of an isolated failure domain that start per second."),
	key("domain_probe_burst", "", unitCount, 1, 1_000_000, func(p *QueuePolicy) *int64 { return &p.DomainProbeBurst },
		"FF §4", "How many of these start at once."),
	key("preempt_max", "", unitCount, 0, 1_000_000, func(p *QueuePolicy) *int64 { return &p.PreemptMax },
		"SPEC §7.9", "Maximum preemptions of a job by more urgent ones.").off("never"),
	key("aging_threshold_ms", "aging_threshold", unitMs, 1_000, maxMs,
		func(p *QueuePolicy) *int64 { return &p.AgingThresholdMs },
		"DFPS-R", "ranking=adaptive: wait in a tier after which a job rises to the next."),
	key("stats_window", "", unitCount, 2, 1_000_000, func(p *QueuePolicy) *int64 { return &p.StatsWindow },
		"DFPS-S", "ranking=adaptive: outcomes of a type at which its counts are halved."),
	key("audit_window_ms", "audit_window", unitMs, 0, maxMs, func(p *QueuePolicy) *int64 { return &p.AuditWindowMs },
		"AICF §8", "Time after a completion in which a verifier may reject its proof.").off("never"),
	key("cool_after", "", unitCount, 0, 1_000_000, func(p *QueuePolicy) *int64 { return &p.CoolAfter },
		"AICF §3, SPEC §16.1",
		"Failures of a type in a row after which a worker cools down for it, in queues that set this.").off(
		"off"), key("cool_ms", "", unitMs, 1, maxMs, func(p *QueuePolicy) *int64 { return &p.CoolMs },
		"AICF §3", "Time for which a worker cools down for a type."),
	boolKey("decline_cools", "", func(p *QueuePolicy) *bool { return &p.DeclineCools },
		"AICF §3",
		"Whether a decline cools its worker down for the type at once; needs cool_after. Else the job waits a moment."),
	key("deny_ms", "", unitMs, 0, maxMs, func(p *QueuePolicy) *int64 { return &p.DenyMs },
		"AICF §3",
		"Time for which a type is denied to a worker after one of its leases expired, in queues that set this.").off("off"),
	boolKey("health_steps", "", func(p *QueuePolicy) *bool { return &p.HealthSteps },
		"AICF §3", "Whether outcomes change a worker's health, and invalid proofs its stake, up to jail."),
	key("lease_grace_on_disconnect_ms", "lease_grace_on_disconnect", unitMs, 0, int64(SilenceEnds),
		func(p *QueuePolicy) *int64 { return &p.LeaseGraceMs },
		"SPEC 16.7", "Time for which a lease outlives its worker's broken stream, 0 or 10 s to 40 s; 0 lets silence end it.").off("off"),
	key("units_period_ms", "units_period", unitMs, 1_000, maxMs,
		func(p *QueuePolicy) *int64 { return &p.UnitsPeriodMs },
		"AICF §9", "The period of units_per_period; one that has begun keeps its end unless a shorter one ends sooner."),
	healthKey("health_ack_timeout", func(p *QueuePolicy) *int64 { return &p.HealthAckTimeout },
		"a missing acknowledgement takes from"),
	healthKey("health_lease_expired", func(p *QueuePolicy) *int64 { return &p.HealthLeaseExpired },
		"an expired lease takes from"),
	healthKey("health_proof_invalid", func(p *QueuePolicy) *int64 { return &p.HealthProofInvalid },
		"an invalid proof takes from"),
	healthKey("health_late_renewal", func(p *QueuePolicy) *int64 { return &p.HealthLateRenewal },
		"a late renewal takes from"),
	healthKey("health_success", func(p *QueuePolicy) *int64 { return &p.HealthSuccess },
		"a completed job adds to"),
	key("bytes_max", "", unitBytes, 0, MaxStateBytes, func(p *QueuePolicy) *int64 { return &p.BytesMax },
		"SPEC §4.14", "Maximum bytes of the queue's jobs and workflows, as `queue show` counts them.").off(
		"no limit"),
	key("gc_horizon_ms", "gc_horizon", unitMs, GCHorizonLeast, maxMs,
		func(p *QueuePolicy) *int64 { return &p.GCHorizonMs },
		"AICF §7", "Time for which an ended job or workflow is kept; the value at its end counts. At least audit_window_ms."),
}, slices.Concat(scoringKeys, backfillKeys, laterKeys)...)

// laterKeys are the keys added after v0.1.0, by the rules version of fsm/entry. frozenKeys is the number of keys of
// v0.1.0; the other keys are left out where they are as in usualPolicy.
var (
	laterKeys = []policyKey{
		key("worker_losses_max", "", unitCount, 0, MaxWorkerLosses,
			func(p *QueuePolicy) *int64 { return &p.WorkerLossesMax },
			"SPEC §9.7", "Maximum uncounted attempts of a job that lost their worker, before it is DEAD; after two it runs alone on a worker.").off("each uses up an attempt"),
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

// PolicyDoc documents one key of a policy.
type PolicyDoc struct {
	// Key is its name with its unit; Alias is another name, or "".
	Key   string
	Alias string
	// Meaning is a sentence. Zero is what 0 means; "" if 0 is an ordinary number or not accepted.
	Meaning string
	Zero    string
	// Values describes the values that the key accepts, with their unit; for a ratio, those under the Alias. Under Key
	// a ratio is a whole number in Unit, described by KeyValues, which is "" for other keys.
	Values, KeyValues string
	// Unit is the unit of the number under Key: ms, bytes, permille, ppm, thousandths or count; or else switch, or
	// choice (one of Choices). Least and Most are the limits of the number.
	Unit        string
	Least, Most int64
	Choices     []string
	// Defaults are the values of the presets as Set accepts them under that name, in the order of Presets; KeyDefaults
	// are those that it accepts under Key. A key without presets has one value.
	Defaults, KeyDefaults []string
	// Source is the origin of the key: a section of the specification, or one of the designs that the specification
	// combines.
	Source string
}

// PolicyDocs returns the documentation of every key, in canonical order.
func PolicyDocs() []PolicyDoc {
	docs := make([]PolicyDoc, len(policyKeys))
	for i := range policyKeys {
		k := &policyKeys[i]
		docs[i] = PolicyDoc{Key: k.name, Alias: k.alias, Meaning: k.meaning, Zero: k.zero, Values: k.values(),
			Source:    k.source,
			KeyValues: k.keyValues(), Unit: unitNames[k.unit], Least: k.min, Most: k.max, Choices: k.choices()}
		for _, preset := range Presets {
			p, _ := PresetPolicy(preset) // every one of Presets is known
			docs[i].Defaults = append(docs[i].Defaults, k.plain(&p))
			docs[i].KeyDefaults = append(docs[i].KeyDefaults, k.plainByKey(&p))
		}
	}
	return docs
}

var unitNames = [...]string{unitCount: "count", unitMs: "ms", unitBool: "switch", unitChoice: "choice",
	unitPermille: "permille", unitPPM: "ppm", unitBytes: "bytes", unitDecimal: "thousandths"}

// choices returns the words that a key accepts; nil for a numeric key.
func (k *policyKey) choices() []string {
	if k.unit == unitChoice {
		return choices(k.names)
	}
	return nil
}

// values returns the range of a key in its unit.
func (k *policyKey) values() string {
	switch k.unit {
	case unitChoice:
		return strings.Join(k.names, ", ")
	case unitBool:
		return "on, off"
	case unitMs:
		return "a duration, " + durationText(k.min) + " to " + durationText(k.max)
	case unitPermille, unitPPM:
		return fmt.Sprintf("a ratio, %s to %s", ratioText(k.min, k.scale()), ratioText(k.max, k.scale()))
	case unitDecimal:
		return formatMilli(k.min) + " to " + formatMilli(k.max)
	case unitBytes:
		return fmt.Sprintf("bytes, %d to %d", k.min, k.max)
	default:
		return fmt.Sprintf("%d to %d", k.min, k.max)
	}
}

// keyValues returns the range of a ratio under its key; "" if it is not a ratio.
func (k *policyKey) keyValues() string {
	switch k.unit {
	case unitPermille:
		return fmt.Sprintf("thousandths, %d to %d", k.min, k.max)
	case unitPPM:
		return fmt.Sprintf("millionths, %d to %d", k.min, k.max)
	default:
		return ""
	}
}

// plainByKey is plain in the form that Set accepts under the key.
func (k *policyKey) plainByKey(p *QueuePolicy) string {
	if k.scale() != 0 {
		return k.format(p)
	}
	return k.plain(p)
}

// plain returns a value in readable form.
func (k *policyKey) plain(p *QueuePolicy) string {
	v := k.get(p)
	switch {
	case v == 0 && k.zero != "":
		return "0"
	case k.unit == unitMs:
		return durationText(v)
	case k.scale() != 0:
		return ratioText(v, k.scale())
	case k.unit == unitBool && v == 1:
		return "on"
	case k.unit == unitBool:
		return "off"
	default:
		return k.format(p)
	}
}

// durationText returns a duration in its largest whole unit, in the form that Set accepts.
func durationText(ms int64) string {
	if ms == 0 {
		return "0"
	}
	for _, unit := range []struct {
		of   time.Duration
		name string
	}{{time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if whole := unit.of.Milliseconds(); ms >= whole && ms%whole == 0 {
			return strconv.FormatInt(ms/whole, 10) + unit.name
		}
	}
	return strconv.FormatInt(ms, 10) + "ms"
}

// Backfill determines which jobs may start before the first job of a queue if that job finds no room (SPEC §26.3).
type Backfill uint8

// The ways of backfilling.
const (
	// BackfillFree starts any job that fits; holds (SPEC §7.8) limit this.
	BackfillFree Backfill = iota
	// BackfillNone lets nothing of the queue start before its first job does.
	BackfillNone
	// BackfillEasy reserves room for the first job at the earliest possible time, and starts other jobs if they do not
	// delay it.
	BackfillEasy
	// BackfillConservative reserves room for each pending job, and starts other jobs if they delay none of those before
	// them.
	BackfillConservative
)

var backfillNames = []string{"free", "none", "easy", "conservative"}

// String names it as the policy key does.
func (b Backfill) String() string { return nameOf(backfillNames, int(b)) }

// BackfillOrder is the order of the jobs that may be backfilled.
type BackfillOrder uint8

// The orders of backfilling.
const (
	// BackfillByRank looks at them in the order of the queue's ranking.
	BackfillByRank BackfillOrder = iota
	// BackfillShortest considers jobs with the smallest estimate first.
	BackfillShortest
)

var backfillOrderNames = []string{"rank", "shortest"}

// String names it as the policy key does.
func (o BackfillOrder) String() string { return nameOf(backfillOrderNames, int(o)) }

// backfillKeys are the keys of batch scheduling.
var backfillKeys = []policyKey{
	key("shortest_aging", "", unitCount, 0, 1_000_000, func(p *QueuePolicy) *int64 { return &p.ShortestAging },
		"SPEC §26.2", "ranking=shortest or smallest: a job that has waited this many times its estimate, or its share of it, precedes later submissions.").off("estimates alone order"),
	choiceKey("backfill", backfillNames, func(p *QueuePolicy) *Backfill { return &p.Backfill },
		"SPEC §26.3", "Which jobs may pass the first job that finds no room: all that fit, none, those that do not delay it, or those that delay no earlier job. Not with ranking=adaptive."),
	choiceKey("backfill_order", backfillOrderNames, func(p *QueuePolicy) *BackfillOrder { return &p.BackfillOrder },
		"SPEC §26.3", "backfill=easy: the order in which jobs that may pass are tried."),
	key("backfill_depth", "", unitCount, 1, 1_000_000, func(p *QueuePolicy) *int64 { return &p.BackfillDepth },
		"SPEC §26.3", "Maximum jobs that a round examines that have room but may have to leave it to a job for which room is kept."),
}

// checkBackfill rejects backfilling together with an order of jobs that is not stable.
func (p *QueuePolicy) checkBackfill() error {
	if p.Backfill != BackfillFree && p.Ranking == RankAdaptive {
		return Refusef(KindInvalid, "backfill",
			"backfill=%s does not work with ranking=%s, whose order changes every round: "+
				"use another ranking, or backfill=free", p.Backfill, p.Ranking)
	}
	return nil
}

// MarshalJSON shows the preset and every key under its name.
func (p QueuePolicy) MarshalJSON() ([]byte, error) {
	out := []byte(`{"preset":` + strconv.Quote(p.Preset))
	for i := range policyKeys {
		k := &policyKeys[i]
		v := k.format(&p)
		if k.unit == unitChoice {
			v = strconv.Quote(v)
		}
		out = append(out, `,"`+k.name+`":`+v...)
	}
	return append(out, '}'), nil
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (p *QueuePolicy) UnmarshalJSON(text []byte) error {
	var m map[string]any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // a float64 would change what is beyond 2⁵³
	if err := d.Decode(&m); err != nil {
		return err
	}
	*p = StandardPolicy()
	for i := range policyKeys {
		v, ok := m[policyKeys[i].name]
		if !ok {
			continue
		}
		if err := p.Set(Setting{policyKeys[i].name, fmt.Sprint(v)}); err != nil {
			return err
		}
	}
	if s, ok := m["preset"].(string); ok {
		p.Preset = s
	}
	return nil
}
