package sched

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/rotasched/rota"
)

// Requirements is a class (SPEC §1): the set of requirements, in one queue, that determines which workers could ever
// fit.
type Requirements struct {
	Queue rota.QueueName
	// Type is part of the class because a worker handles only some types (SPEC §16.2), and can be barred from one type
	// but serve others (SPEC §16.1).
	Type rota.JobType
	// Requires, RegionsAllow and RegionsDeny are sorted, without duplicates.
	Requires     []string
	RegionsAllow []string
	RegionsDeny  []string
	// Limits are sorted by name.
	Limits []Limit
	// Worker pins the job to one worker; empty pins to none.
	Worker rota.WorkerID
	// CPUMilli, MemoryBytes and IOBytesPerS are used while leased; 0 needs none. Units (at least 1) are used up from
	// the worker's units_per_period and not returned.
	CPUMilli    int64
	MemoryBytes int64
	IOBytesPerS int64
	Units       int64
	// Isolated requires a worker without any other lease while the job runs (SPEC §9.7).
	Isolated bool
}

// Limit is the minimum of a named quantity, such as depth or width, that a worker must offer.
type Limit struct {
	Name string
	Need int64
}

// ClassID identifies an interned class within one process. It never enters replicated state: another replica may number
// classes differently.
type ClassID int32

// RequirementsOf returns a job's class. The lists are copies. An empty queue means the default queue.
func RequirementsOf(spec *rota.JobSpec) Requirements {
	queue := spec.Queue
	if queue == "" {
		queue = rota.DefaultQueue
	}
	return Requirements{
		Queue:        queue,
		Type:         spec.Type,
		Requires:     sortedSet(spec.Requires),
		RegionsAllow: sortedSet(spec.RegionsAllow),
		RegionsDeny:  sortedSet(spec.RegionsDeny),
		Worker:       spec.Worker,
		CPUMilli:     spec.CPUMilli,
		MemoryBytes:  spec.MemoryBytes,
		IOBytesPerS:  spec.IOBytesPerS,
		Units:        max(spec.Units, 1),
		Limits:       sortedLimits(spec.Limits),
	}
}

// SameRequirements reports whether two jobs are of one class, by equal lists only: false may be wrong.
func SameRequirements(a, b *rota.JobSpec) bool {
	return a.Queue == b.Queue && a.Type == b.Type && a.Worker == b.Worker && a.CPUMilli == b.CPUMilli &&
		a.MemoryBytes == b.MemoryBytes && a.IOBytesPerS == b.IOBytesPerS && a.Units == b.Units &&
		slices.Equal(a.Requires, b.Requires) && slices.Equal(a.RegionsAllow, b.RegionsAllow) &&
		slices.Equal(a.RegionsDeny, b.RegionsDeny) && maps.Equal(a.Limits, b.Limits)
}

func sortedLimits(limits map[string]int64) []Limit {
	if len(limits) == 0 {
		return nil
	}
	out := make([]Limit, 0, len(limits))
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		out = append(out, Limit{name, limits[name]})
	}
	return out
}

func sortedSet[K ~string](list []K) []K {
	if len(list) == 0 {
		return nil
	}
	out := slices.Clone(list)
	slices.Sort(out)
	return slices.Compact(out)
}

// Key returns a canonical text of the class: two classes have the same key exactly when they are equal. Each part is
// preceded by its length.
func (r *Requirements) Key() string {
	key := make([]byte, 0, 96)
	key = appendPart(key, string(r.Queue))
	key = appendPart(key, string(r.Type))
	key = appendPart(key, string(r.Worker))
	key = binary.AppendUvarint(key, uint64(r.CPUMilli))
	key = binary.AppendUvarint(key, uint64(r.MemoryBytes))
	key = binary.AppendUvarint(key, uint64(r.IOBytesPerS))
	key = binary.AppendUvarint(key, uint64(r.Units))
	key = appendList(key, r.Requires)
	key = appendList(key, r.RegionsAllow)
	key = appendList(key, r.RegionsDeny)
	for _, l := range r.Limits {
		key = appendPart(key, l.Name)
		key = binary.AppendVarint(key, l.Need)
	}
	if r.Isolated { // one byte: every limit is longer
		key = append(key, 1)
	}
	return string(key)
}

func appendPart(key []byte, part string) []byte {
	return append(binary.AppendUvarint(key, uint64(len(part))), part...)
}

func appendList(key []byte, list []string) []byte {
	key = binary.AppendUvarint(key, uint64(len(list)))
	for _, part := range list {
		key = appendPart(key, part)
	}
	return key
}

// misfit returns why a worker that serves the queue could never fit the class, reputation aside; Fit if it could.
func (r *Requirements) misfit(spec *rota.WorkerSpec) Unfit {
	if r.Worker != "" && r.Worker != spec.ID {
		return NotThePinnedWorker
	}
	if !spec.Handles(r.Type) {
		return TypeNotHandled
	}
	if len(r.RegionsAllow) > 0 && !slices.Contains(r.RegionsAllow, spec.Region) ||
		slices.Contains(r.RegionsDeny, spec.Region) {
		return RegionDenied
	}
	for _, capability := range r.Requires {
		if !slices.Contains(spec.Capabilities, capability) {
			return CapabilityMissing
		}
	}
	for _, l := range r.Limits {
		if l.Need > spec.Limits[l.Name] { // A limit that the worker does not state counts as 0.
			return LimitExceeded
		}
	}
	switch {
	case r.CPUMilli > 0 && spec.CPUMilli < r.CPUMilli:
		return CPUFull
	case r.MemoryBytes > 0 && spec.MemoryBytes < r.MemoryBytes:
		return MemoryFull
	case r.IOBytesPerS > 0 && spec.IOBytesPerS < r.IOBytesPerS:
		return IOFull
	}
	return Fit
}

// free reports whether every worker that serves the queue and handles the type fits, reputation aside.
func (r *Requirements) free() bool {
	return len(r.Requires)+len(r.RegionsAllow)+len(r.RegionsDeny)+len(r.Limits) == 0 && r.Worker == "" &&
		r.CPUMilli <= 0 && r.MemoryBytes <= 0 && r.IOBytesPerS <= 0
}

// Unfit names the rule of SPEC §6.1 that keeps a worker from a job.
type Unfit uint8

// The rules that this package checks, in the order in which Fits returns the first that fails. Fit means that none
// fails.
const (
	Fit Unfit = iota
	NoSuchWorker
	NotActive
	AttestationMissing
	AttestationExpired
	StakeTooLow
	CoolingDown
	TypeDenylisted
	HealthTooLow
	NotServingTheQueue
	NotThePinnedWorker
	TypeNotHandled
	RegionDenied
	CapabilityMissing
	LimitExceeded
	NoFreeSlot
	UnitsExhausted
	CPUFull
	MemoryFull
	IOFull
	HeldForAnotherJob
	TenantWindowFull // used by the state machine only
	Disconnected
	TenantNotGranted
	NoSlotOffered
	RunsAlone
)

var unfitNames = [...]string{
	"FIT", "NO_SUCH_WORKER", "NOT_ACTIVE", "ATTESTATION_MISSING", "ATTESTATION_EXPIRED", "STAKE_TOO_LOW",
	"COOLING_DOWN", "TYPE_DENYLISTED", "HEALTH_TOO_LOW", "NOT_SERVING_THE_QUEUE", "NOT_THE_PINNED_WORKER",
	"TYPE_NOT_HANDLED",
	"REGION_DENIED", "CAPABILITY_MISSING", "LIMIT_EXCEEDED", "NO_FREE_SLOT", "UNITS_EXHAUSTED", "CPU_FULL",
	"MEMORY_FULL", "IO_FULL", "HELD_FOR_ANOTHER_JOB", "TENANT_WINDOW_FULL", "DISCONNECTED",
	"TENANT_NOT_GRANTED", "NO_SLOT_OFFERED", "RUNS_ALONE",
}

// String returns the rule's name in SPEC §6.1.
func (u Unfit) String() string {
	if int(u) >= len(unfitNames) {
		return "UNKNOWN"
	}
	return unfitNames[u]
}
