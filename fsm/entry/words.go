package entry

import (
	"maps"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/millis"
	"github.com/rotasched/rota/internal/peer"
)

// SpecOp returns the persisted form of a job's spec. Labels are sorted, so that equal specs have equal bytes.
func SpecOp(s *rota.JobSpec) *fsmpb.JobSpec {
	p := &fsmpb.JobSpec{}
	fillJobSpec(p, s)
	return p
}

// pairOps sorts pairs by key, so that equal pairs have equal bytes.
func pairOps(pairs map[string]string) (ops []*fsmpb.Label) {
	if len(pairs) == 0 {
		return nil
	}
	for _, k := range slices.Sorted(maps.Keys(pairs)) {
		ops = append(ops, &fsmpb.Label{Key: k, Value: pairs[k]})
	}
	return ops
}

// PairWords is the inverse of pairOps. It reads at most one more than any check accepts, so that a hostile entry cannot
// create a large map.
func PairWords(ops []*fsmpb.Label) map[string]string {
	if len(ops) == 0 {
		return nil
	}
	pairs := make(map[string]string, min(len(ops), rota.MaxLabels+1))
	for _, l := range ops[:min(len(ops), rota.MaxLabels+1)] {
		pairs[l.GetKey()] = l.GetValue()
	}
	return pairs
}

// SpecWords is the inverse of SpecOp. Slices are shared with p.
func SpecWords(p *fsmpb.JobSpec) *rota.JobSpec {
	s := new(rota.JobSpec)
	ReadSpec(s, p)
	return s
}

// ReadSpec is SpecWords into the caller's buffer.
func ReadSpec(s *rota.JobSpec, p *fsmpb.JobSpec) {
	*s = rota.JobSpec{}
	takeJobSpec(s, p)
}

// WorkerOp returns the persisted form of a worker's spec.
func WorkerOp(w *rota.WorkerSpec) *fsmpb.WorkerSpec {
	p := &fsmpb.WorkerSpec{Id: string(w.ID), Slots: w.Slots, Prefetch: w.Prefetch, Region: w.Region, Zone: w.Zone,
		Capabilities: w.Capabilities, CpuMilli: w.CPUMilli, MemoryBytes: w.MemoryBytes, IoBytesPerS: w.IOBytesPerS,
		Stake:  w.Stake,
		Limits: limitOps(w.Limits)}
	for _, q := range w.Queues {
		p.Queues = append(p.Queues, string(q))
	}
	for _, typ := range w.Types {
		p.Types = append(p.Types, string(typ))
	}
	return p
}

// WorkerWords is the inverse of WorkerOp. Types are sorted, each once.
func WorkerWords(p *fsmpb.WorkerSpec) *rota.WorkerSpec {
	w := &rota.WorkerSpec{ID: rota.WorkerID(p.GetId()), Slots: p.GetSlots(), Prefetch: p.GetPrefetch(),
		Region: p.GetRegion(), Zone: p.GetZone(), Capabilities: p.GetCapabilities(), CPUMilli: p.GetCpuMilli(),
		MemoryBytes: p.GetMemoryBytes(), IOBytesPerS: p.GetIoBytesPerS(), Stake: p.GetStake(),
		Limits: limitWords(p.GetLimits())}
	for _, q := range p.GetQueues() {
		w.Queues = append(w.Queues, rota.QueueName(q))
	}
	for _, typ := range p.GetTypes() {
		w.Types = append(w.Types, rota.JobType(typ))
	}
	slices.Sort(w.Types)
	w.Types = slices.Compact(w.Types)
	return w
}

// limitOps sorts limits by name, so that equal limits have equal bytes.
func limitOps(limits map[string]int64) (ops []*fsmpb.Limit) {
	if len(limits) == 0 {
		return nil
	}
	for _, k := range rota.Costs(limits).Names() {
		ops = append(ops, &fsmpb.Limit{Name: k, Value: limits[k]})
	}
	return ops
}

// CostOps returns the persisted form of costs.
func CostOps(costs rota.Costs) []*fsmpb.Limit { return limitOps(costs) }

// CostWords is the inverse of CostOps. It reads at most MaxLimits+1 costs.
func CostWords(ops []*fsmpb.Limit) rota.Costs { return limitWords(ops) }

// limitWords reads at most one more than CheckShape accepts, so that a hostile entry cannot create a large map.
func limitWords(ops []*fsmpb.Limit) map[string]int64 {
	if len(ops) == 0 {
		return nil
	}
	limits := make(map[string]int64, min(len(ops), rota.MaxLimits+1))
	for _, l := range ops[:min(len(ops), rota.MaxLimits+1)] {
		limits[l.GetName()] = l.GetValue()
	}
	return limits
}

// LeaseCommandOp returns the persisted form of a worker's command.
func LeaseCommandOp(c *peer.LeaseCommand) *fsmpb.Op {
	_, node, _ := rota.SplitNodeJobID(c.Job)
	return &fsmpb.Op{Op: &fsmpb.Op_Lease{Lease: &fsmpb.LeaseOp{
		Verb: uint32(c.Verb), Lease: c.Lease[:], Job: string(c.Job), Worker: string(c.Worker),
		Session: uint64(c.Session),
		Ordinal: c.Ordinal, Output: c.Output, OutputDigest: c.OutputDigest, Text: c.Text, Progress: c.Progress,
		Fail: uint32(c.Fail), AfterMs: millis.Of(c.After), Meta: pairOps(c.Meta), Children: growthBytes(c.Growth, node),
		Log: c.Log, Costs: CostOps(c.Costs), PauseKey: c.PauseKey,
	}}}
}
