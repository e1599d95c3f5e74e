package sched

import (
	"encoding/binary"
	"slices"

	"github.com/rotasched/rota"
)

// Requirements is a class (SPEC §1): a queue's set of requirements, which
// decides what workers could ever fit.
type Requirements struct {
	Queue rota.QueueName
	// Requires, RegionsAllow and RegionsDeny are sorted, without duplicates.
	Requires     []string
	RegionsAllow []string
	RegionsDeny  []string
	// Worker pins to one worker; empty does not.
	Worker rota.WorkerID
	// CPUMilli and MemoryBytes are taken while leased; 0 needs none.
	CPUMilli    int64
	MemoryBytes int64
}

// ClassID names an interned class in one process. It never enters replicated
// state: another replica may number classes differently.
type ClassID int32

// RequirementsOf reads a job's class. The lists are copies. An empty queue is
// the default queue.
func RequirementsOf(spec *rota.JobSpec) Requirements {
	queue := spec.Queue
	if queue == "" {
		queue = rota.DefaultQueue
	}
	return Requirements{
		Queue:        queue,
		Requires:     sortedSet(spec.Requires),
		RegionsAllow: sortedSet(spec.RegionsAllow),
		RegionsDeny:  sortedSet(spec.RegionsDeny),
		Worker:       spec.Worker,
		CPUMilli:     spec.CPUMilli,
		MemoryBytes:  spec.MemoryBytes,
	}
}

func sortedSet(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	out := slices.Clone(list)
	slices.Sort(out)
	return slices.Compact(out)
}

// Key is a canonical text of the class: two classes have the same key exactly
// when they are equal. Every part carries its length.
func (r *Requirements) Key() string {
	key := make([]byte, 0, 64)
	key = appendPart(key, string(r.Queue))
	key = appendPart(key, string(r.Worker))
	key = binary.AppendUvarint(key, uint64(r.CPUMilli))
	key = binary.AppendUvarint(key, uint64(r.MemoryBytes))
	key = appendList(key, r.Requires)
	key = appendList(key, r.RegionsAllow)
	key = appendList(key, r.RegionsDeny)
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

// misfit says why a worker could never fit the class, Fit if it could. It reads
// what only registration and status change.
func (r *Requirements) misfit(spec *rota.WorkerSpec, active bool) Unfit {
	switch {
	case !active:
		return NotActive
	case !slices.Contains(spec.Queues, r.Queue):
		return NotServingTheQueue
	case r.Worker != "" && r.Worker != spec.ID:
		return NotThePinnedWorker
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
	switch {
	case r.CPUMilli > 0 && spec.CPUMilli < r.CPUMilli:
		return CPUFull
	case r.MemoryBytes > 0 && spec.MemoryBytes < r.MemoryBytes:
		return MemoryFull
	}
	return Fit
}

// Unfit names the rule of SPEC §6.1 by which a worker may not take a job.
type Unfit uint8

// The rules that this package checks. Fit is none of them.
const (
	Fit Unfit = iota
	NoSuchWorker
	NotActive
	NotServingTheQueue
	NotThePinnedWorker
	RegionDenied
	CapabilityMissing
	NoFreeSlot
	CPUFull
	MemoryFull
)

var unfitNames = [...]string{
	"FIT", "NO_SUCH_WORKER", "NOT_ACTIVE", "NOT_SERVING_THE_QUEUE", "NOT_THE_PINNED_WORKER", "REGION_DENIED",
	"CAPABILITY_MISSING", "NO_FREE_SLOT", "CPU_FULL", "MEMORY_FULL",
}

// String names the rule as SPEC §6.1 does.
func (u Unfit) String() string {
	if int(u) >= len(unfitNames) {
		return "UNKNOWN"
	}
	return unfitNames[u]
}
