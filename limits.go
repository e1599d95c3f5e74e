package rota

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The limits on submissions, each with its reason. They are fixed in the binary. The state machine uses them too, so
// that they change only with a rules version.
const (
	// MaxIDBytes limits every id (SPEC §4.2).
	MaxIDBytes = 64
	// MaxPriority is the least urgent priority; 0 is the most urgent.
	MaxPriority = 10
	// DefaultPriority is the priority of a submission without one.
	DefaultPriority = 5
	// MaxPayloadBytes is the default and the most of payload_max_bytes, of an
	// output too (SPEC §4.2): one payload stays half of the largest log entry.
	MaxPayloadBytes = 256 << 10
	// MaxLabels limits the number of labels and requirements of a job and of capabilities of a worker (SPEC §4.2);
	// MaxLabelBytes limits each key and value.
	MaxLabels     = 32
	MaxLabelBytes = 128
	// MaxLimits is the maximum number of limits of a job and of a worker, MaxDataKeys that of a job's data keys.
	MaxLimits   = 16
	MaxDataKeys = 32
	// MaxUniqueKeep is the longest time that a completed job holds its key: a month of payments.
	MaxUniqueKeep = 30 * 24 * time.Hour
	// UniqueExtendMax is the default maximum time by which merged submissions delay a job, so that it eventually runs,
	// however many there are.
	UniqueExtendMax = time.Hour
	// MaxKeys limits the number of keys of a job: a round checks every one of them. MaxKeyBytes limits a key, name and
	// value together, as it is stored in a row for as long as jobs have it.
	MaxKeys     = 4
	MaxKeyBytes = 128
	// MaxKeyConcurrency and MaxKeyRate limit the rule of a key: a higher limit would have no effect on its jobs.
	MaxKeyConcurrency = 1_000_000
	MaxKeyRate        = 1_000_000
	// MaxKeyOutcomes limits the outcomes that a key's breaker remembers to the bits of a word, MaxKeyProbes the probes
	// of an open key to a small test.
	MaxKeyOutcomes = 64
	MaxKeyProbes   = 1_000
	// MaxCosts limits the costs of a job: each is stored with it, and each rule of its keys looks for its own. MaxCost is
	// the greatest amount of one, 10¹² units in millionths: its product with the period of a rate has 87 bits.
	MaxCosts = 8
	MaxCost  = 1_000_000_000_000 * CostUnit
	// MaxHeaders and MaxHeadersBytes limit the headers of a job, names and values together: enough for a traceparent, a
	// tracestate of 512 bytes and some baggage. Each pending job has its own headers.
	MaxHeaders      = 16
	MaxHeadersBytes = 2 << 10
	// MaxRegions limits each of a job's region lists.
	MaxRegions = 32
	// MaxQueuesPerWorker is the maximum number of queues of one worker.
	MaxQueuesPerWorker = 256
	// MaxSlots and MaxPrefetch limit a worker; higher values are more likely to be typos.
	MaxSlots    = 10_000
	MaxPrefetch = 10_000
	// MaxCPUMilli (a million cores), MaxMemoryBytes (an exbibyte) and MaxIOBytesPerS
	// (a pebibyte a second) keep sums of capacities far from overflow.
	MaxCPUMilli    = 1_000_000_000
	MaxMemoryBytes = 1 << 60
	MaxIOBytesPerS = 1 << 50
	// MaxFee and MaxSizeBytes keep the market's 128-bit products exact.
	MaxFee       = 1 << 60
	MaxSizeBytes = 1 << 60
	// MaxUnits limits the units of a job; sums of them stay far from overflow.
	MaxUnits = 1 << 40
	// MaxDuration limits every duration that a user sets: ten years.
	MaxDuration = 10 * 365 * 24 * time.Hour
	// MaxTypesHandled limits the number of job types that a worker registers: with ids of maximum length they use 64
	// KiB of its entry.
	MaxTypesHandled = 1_000
	// MaxWorkflowNodes and MaxWorkflowEdges limit a workflow (SPEC §11.1). MaxWorkflowBytes limits the size of its
	// nodes' specs, as a workflow keeps them for retries until it is deleted.
	MaxWorkflowNodes = 100_000
	MaxWorkflowEdges = 1_000_000
	MaxWorkflowBytes = 64 << 20
	// MaxSignalBytes limits the payload of a signal to a gate (SPEC §23.1): it is kept in the state until the gate is
	// released. MaxGateTimeout limits how long a gate waits.
	MaxSignalBytes = 64 << 10
	MaxGateTimeout = 366 * 24 * time.Hour
	// MaxChildren limits the number of nodes that a node adds to its workflow on completion (SPEC §23.2), in addition
	// to 128 KiB.
	MaxChildren = 500
	// MaxScheduleName limits the name of a schedule: with a date or a trigger's id appended, it is the id of a run.
	// MaxScheduleDates limits the number of given dates, MaxCronBytes the length of an expression, MaxCatchUp the
	// number of late dates handled at a time.
	MaxScheduleName  = 32
	MaxScheduleDates = 1_000
	MaxCronBytes     = 1_024
	MaxCatchUp       = 100
	// MaxBatchID limits the length of a batch's id: with @done appended, it is the id of a job. MaxBatchSize is more
	// than a cluster holds at a time.
	MaxBatchID   = 32
	MaxBatchSize = 1_000_000_000
	// MaxWebhookName limits the name of a webhook: with @ and the id of an event appended, it is the id of a delivery.
	// MaxWebhookURL and MaxWebhookFilter limit its texts, which every leader reads.
	MaxWebhookName   = 24
	MaxWebhookURL    = 2_048
	MaxWebhookFilter = 1_024
	// LeastEvery is the shortest period of a schedule, LeastCatchUp how late a date may be in any
	// case: leaders look each second, and change in a few.
	LeastEvery   = time.Second
	LeastCatchUp = 10 * time.Second
	// MaxNodeIDBytes limits a node's id within its workflow: ids of real workflow engines reach 124 bytes.
	MaxNodeIDBytes = 200
)

// The limits of durations that users set, in milliseconds.
const (
	// SilenceEnds is when a silent worker's leases end, from its last sign (SPEC §3.10).
	SilenceEnds Clock = 40_000
	// GraceLeast is the smallest lease_grace_on_disconnect_ms other than 0: a worker needs 2 s between beats, 2.5 s to
	// notice a missing answer, and some time for another connection (SPEC §16.7).
	GraceLeast Clock = 10_000
	// MaxKeyPeriod limits the period of a key's rate to a day; MaxKeyBurst limits the time in which a full burst is
	// refilled to ten days. So sums of them stay far from overflow.
	MaxKeyPeriod Clock = 24 * 3600 * 1000
	MaxKeyBurst  Clock = 10 * MaxKeyPeriod
	// MaxKeyBackoff limits how much longer a key is open after failed probes, so that 30 s become 16 minutes at most.
	MaxKeyBackoff = 32
	// MaxKeyOpen limits how long the breaker of a key stays open at first; MaxKeyPause how far ahead a pause may end.
	MaxKeyOpen  Clock = 24 * 3600 * 1000
	MaxKeyPause Clock = 365 * MaxKeyOpen
	// GCHorizonLeast is the smallest gc_horizon: clients and workers repeat unanswered calls for at most 40 s, and get
	// the first outcome from the tombstone (SPEC §9.4). The largest is MaxDuration: the number of tombstones is limited
	// regardless of the horizon.
	GCHorizonLeast = 60_000
	// MaxAttempts limits attempt_max, of a queue and of a job.
	MaxAttempts = 1_000
	// MaxRoundPairs limits batch_size, and thereby the size of one entry: about 400 KiB. Rules before version 2 allow
	// 1,000.
	MaxRoundPairs = 5_000
	// MaxWorkerLosses limits worker_losses_max: a job keeps the session of each worker that was lost while running it.
	MaxWorkerLosses = 100
	// MaxRuntimeLeast is the least max_runtime but 0: a worker stops a second before
	// it, and a decline in its last two seconds is an overrun (SPEC §20.2), so a shorter one
	// leaves no time to work in.
	MaxRuntimeLeast Clock = 3_000
)

// ParseDuration parses a duration in human-readable form: the units of time.ParseDuration, and d, a day of 24 hours,
// which comes first, as in 1d12h or 0.5d. It checks no limits.
func ParseDuration(text string) (time.Duration, error) {
	bare, negative := strings.CutPrefix(text, "-")
	if !negative {
		bare = strings.TrimPrefix(bare, "+")
	}
	refusal := Refusef(KindInvalid, "duration", "invalid duration %q: use a value such as 300ms, 30s, 5m, 2h or 1d12h",
		shorten(text))
	if _, err := strconv.ParseInt(bare, 10, 64); err == nil && strings.Trim(bare, "0") != "" {
		return 0, Refusef(KindInvalid, "duration", "%q has no unit: write %sms or %ss", text, text, text)
	}
	if strings.ContainsAny(bare, "+-") {
		return 0, refusal
	}
	total := time.Duration(0)
	days, rest, has := strings.Cut(bare, "d")
	if has {
		hours, err := time.ParseDuration(days + "h")
		if err != nil || hours > maxDays || strings.Trim(days, "0123456789.") != "" {
			return 0, refusal
		}
		total = 24 * hours
	} else {
		rest = bare
	}
	if rest != "" || !has {
		d, err := time.ParseDuration(rest)
		if err != nil || total > 0 && d > 1<<62-total {
			return 0, refusal
		}
		total += d
	}
	if negative {
		total = -total
	}
	return total, nil
}

// maxDays is the largest number of days, expressed in hours, that fits in a time.Duration with room for the rest.
const maxDays = time.Duration(1<<62) / 24

// decimals is how many a ratio of a scale has.
func decimals(scale int64) int { return len(strconv.FormatInt(scale, 10)) - 1 }

// parseRatio parses a decimal fraction, such as 1, 0.9 or .25, times a power of ten. It rejects a result that is not a
// whole number, and text without a digit.
func parseRatio(text string, scale int64) (int64, error) {
	whole, part, _ := strings.Cut(text, ".")
	part = strings.TrimRight(part, "0")
	places := decimals(scale)
	bad := fmt.Errorf("%q is not a ratio with at most %d decimals", text, places)
	if len(part) > places || !strings.ContainsAny(text, "0123456789") {
		return 0, bad
	}
	digits := whole + part + strings.Repeat("0", places-len(part))
	if strings.Trim(digits, "0123456789") != "" {
		return 0, bad
	}
	return strconv.ParseInt(digits, 10, 64)
}

// ratioText writes a ratio as parseRatio reads it.
func ratioText(v, scale int64) string {
	text := strconv.FormatInt(v/scale, 10)
	if part := v % scale; part != 0 {
		text += "." + strings.TrimRight(fmt.Sprintf("%0*d", decimals(scale), part), "0")
	}
	return text
}
