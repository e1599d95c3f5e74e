package rota

import "time"

// The limits of what users submit, each with its reason. They are fixed in the binary.
// The state machine reads them too, so that they change only behind a rules version.
const (
	// MaxIDBytes bounds every id (SPEC §4.2).
	MaxIDBytes = 64
	// MaxPriority is the least urgent priority; 0 is the most urgent.
	MaxPriority = 10
	// DefaultPriority is what a submission without one gets.
	DefaultPriority = 5
	// MaxPayloadBytes is the default and the most of payload_max_bytes, of an
	// output too (SPEC §4.2): one payload stays half of the largest log entry.
	MaxPayloadBytes = 256 << 10
	// MaxLabels bounds labels and requirements of a job, capabilities of a
	// worker (SPEC §4.2); MaxLabelBytes bounds each key and value.
	MaxLabels     = 32
	MaxLabelBytes = 128
	// MaxLimits bounds the limits of a job and of a worker, MaxDataKeys a job's.
	MaxLimits   = 16
	MaxDataKeys = 32
	// MaxUniqueKeep is the longest that a completed job holds its key: a month of payments.
	MaxUniqueKeep = 30 * 24 * time.Hour
	// UniqueExtendMax is the usual most of what merged submissions delay a job: it runs at
	// last, however often they come.
	UniqueExtendMax = time.Hour
	// MaxKeys bounds the keys of a job: a round asks every one of them. MaxKeyBytes bounds
	// a key, name and value together, as it stands in a row for as long as jobs have it.
	MaxKeys     = 4
	MaxKeyBytes = 128
	// MaxKeyConcurrency and MaxKeyRate bound a rule of a key: beyond them none of its jobs
	// would ever notice it.
	MaxKeyConcurrency = 1_000_000
	MaxKeyRate        = 1_000_000
	// MaxHeaders and MaxHeadersBytes bound the headers of a job, names and values together: a
	// traceparent, a tracestate of 512 bytes and some baggage. Each pending job has its own.
	MaxHeaders      = 16
	MaxHeadersBytes = 2 << 10
	// MaxRegions bounds each of a job's region lists.
	MaxRegions = 32
	// MaxQueuesPerWorker bounds what one worker listens to.
	MaxQueuesPerWorker = 256
	// MaxSlots and MaxPrefetch bound a worker; beyond them a typo is likelier.
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
	// MaxUnits bounds the units of a job; sums of them stay far from overflow.
	MaxUnits = 1 << 40
	// MaxDuration bounds every duration that a user sets: ten years.
	MaxDuration = 10 * 365 * 24 * time.Hour
	// MaxTypesHandled bounds the job types that a worker registers: with ids of the
	// longest they take 64 KiB of its entry.
	MaxTypesHandled = 1_000
	// MaxWorkflowNodes and MaxWorkflowEdges bound a workflow (SPEC §11.1);
	// MaxWorkflowBytes what its nodes' specs hold, as a workflow keeps them until it
	// is forgotten, for its retries.
	MaxWorkflowNodes = 100_000
	MaxWorkflowEdges = 1_000_000
	MaxWorkflowBytes = 64 << 20
	// MaxSignalBytes bounds what a signal brings to a gate (SPEC §23.1): it waits in the state
	// where the gate is not released yet. MaxGateTimeout bounds how long a gate waits.
	MaxSignalBytes = 64 << 10
	MaxGateTimeout = 366 * 24 * time.Hour
	// MaxChildren bounds what a node adds to its workflow as it completes (SPEC §23.2), beside
	// 128 KiB.
	MaxChildren = 500
	// MaxScheduleName bounds the name of a schedule: with a date or a trigger's id behind it, it is
	// the id of a run. MaxScheduleDates bounds given dates, MaxCronBytes an expression,
	// MaxCatchUp the late dates that are taken at a time.
	MaxScheduleName  = 32
	MaxScheduleDates = 1_000
	MaxCronBytes     = 1_024
	MaxCatchUp       = 100
	// MaxBatchID bounds the id of a batch: with @done behind it, it is the id of a job.
	// MaxBatchSize is beyond what a cluster holds at a time.
	MaxBatchID   = 32
	MaxBatchSize = 1_000_000_000
	// MaxWebhookName bounds the name of a webhook: with @ and the id of an event behind it, it is the
	// id of a delivery. MaxWebhookURL and MaxWebhookFilter bound its texts, which every leader reads.
	MaxWebhookName   = 24
	MaxWebhookURL    = 2_048
	MaxWebhookFilter = 1_024
	// LeastEvery is the shortest period of a schedule, LeastCatchUp how late a date may be in any
	// case: leaders look each second, and change in a few.
	LeastEvery   = time.Second
	LeastCatchUp = 10 * time.Second
	// MaxNodeIDBytes bounds a node's id within its workflow: those of real workflow
	// engines reach 124 bytes.
	MaxNodeIDBytes = 200
)

// The limits of durations that users set, in milliseconds.
const (
	// SilenceEnds is when a silent worker's leases end, from its last sign (SPEC §3.10).
	SilenceEnds Clock = 40_000
	// GraceLeast is the least lease_grace_on_disconnect_ms other than 0: a worker needs
	// 2 s between beats, 2.5 s to notice that one has no answer, and some for another
	// connection (SPEC §16.7).
	GraceLeast Clock = 10_000
	// MaxKeyPeriod bounds the period of a key's rate, a day; MaxKeyBurst how long a full
	// burst takes to come back, ten days: so sums of them stay far from overflow.
	MaxKeyPeriod Clock = 24 * 3600 * 1000
	MaxKeyBurst  Clock = 10 * MaxKeyPeriod
	// GCHorizonLeast is the least gc_horizon: clients and workers repeat for at most 40 s
	// what was not answered, and learn the first outcome from the tombstone (SPEC §9.4).
	// The most is MaxDuration: the number of tombstones is bounded, whatever the horizon.
	GCHorizonLeast = 60_000
	// MaxAttempts bounds attempt_max, of a queue and of a job.
	MaxAttempts = 1_000
	// MaxRoundPairs bounds batch_size, and so what one entry decides: about 400 KiB. Rules before version 2 take 1,000.
	MaxRoundPairs = 5_000
	// MaxWorkerLosses bounds worker_losses_max: a job keeps the session of each worker that was lost under it.
	MaxWorkerLosses = 100
	// MaxRuntimeLeast is the least max_runtime but 0: a worker stops a second before
	// it, and a decline in its last two seconds is an overrun (SPEC §20.2), so a shorter one
	// leaves no time to work in.
	MaxRuntimeLeast Clock = 3_000
)
