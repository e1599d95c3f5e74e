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
	// GCHorizonLeast is the least gc_horizon: clients and workers repeat for at most 40 s
	// what was not answered, and learn the first outcome from the tombstone (SPEC §9.4).
	// The most is MaxDuration: the number of tombstones is bounded, whatever the horizon.
	GCHorizonLeast = 60_000
	// MaxRuntimeLeast is the least max_runtime but 0: a worker stops a second before
	// it, and a decline in its last two seconds is an overrun (SPEC §20.2), so a shorter one
	// leaves no time to work in.
	MaxRuntimeLeast Clock = 3_000
)
