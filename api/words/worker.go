package words

import (
	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
)

// WorkerSpecToWire carries what a worker says of itself.
func WorkerSpecToWire(s *rota.WorkerSpec) *rotav1.WorkerSpec {
	return &rotav1.WorkerSpec{
		Id: string(s.ID), Queues: ids[rota.QueueName, string](s.Queues), Slots: s.Slots, Prefetch: s.Prefetch,
		Region: s.Region, Zone: s.Zone, Capabilities: s.Capabilities, CpuMilli: s.CPUMilli,
		MemoryBytes: s.MemoryBytes, Stake: s.Stake,
	}
}

// WorkerSpecFromWire is the inverse of WorkerSpecToWire; nil is a worker
// without a name, which CheckShape refuses.
func WorkerSpecFromWire(w *rotav1.WorkerSpec) rota.WorkerSpec {
	return rota.WorkerSpec{
		ID: rota.WorkerID(w.GetId()), Queues: ids[string, rota.QueueName](w.GetQueues()), Slots: w.GetSlots(),
		Prefetch: w.GetPrefetch(), Region: w.GetRegion(), Zone: w.GetZone(), Capabilities: w.GetCapabilities(),
		CPUMilli: w.GetCpuMilli(), MemoryBytes: w.GetMemoryBytes(), Stake: w.GetStake(),
	}
}

// WorkerToWire carries everything that is known of a worker.
func WorkerToWire(r *rota.Worker) *rotav1.Worker {
	return &rotav1.Worker{
		Spec: WorkerSpecToWire(&r.WorkerSpec), Status: workerStatuses.text(r.Status), Session: uint64(r.Session),
		StatusSinceMs: int64(r.StatusSince), SilentSinceMs: int64(r.SilentSince), OpenLeases: r.Open,
		CpuMilliTaken: r.CPUMilliTaken, MemoryBytesTaken: r.MemoryTaken, Health: r.Health,
		AssignedTotal: r.Assigned, CompletedTotal: r.Completed, FailedTotal: r.Failed,
		Leases: each(r.Leases, LeaseToWire),
	}
}

// WorkerFromWire is the inverse of WorkerToWire.
func WorkerFromWire(w *rotav1.Worker) (rota.Worker, error) {
	r := rota.Worker{
		WorkerSpec: WorkerSpecFromWire(w.GetSpec()), Session: rota.Session(w.GetSession()),
		StatusSince: rota.Clock(w.GetStatusSinceMs()), SilentSince: rota.Clock(w.GetSilentSinceMs()),
		Open: w.GetOpenLeases(), CPUMilliTaken: w.GetCpuMilliTaken(), MemoryTaken: w.GetMemoryBytesTaken(),
		Health: w.GetHealth(), Assigned: w.GetAssignedTotal(), Completed: w.GetCompletedTotal(),
		Failed: w.GetFailedTotal(),
	}
	var err error
	if r.Status, err = workerStatuses.value(w.GetStatus()); err != nil {
		return r, err
	}
	if len(w.GetLeases()) > 0 {
		r.Leases, err = tryEach(w.GetLeases(), LeaseFromWire)
	}
	return r, err
}

// WorkersFromWire converts a list of workers.
func WorkersFromWire(w []*rotav1.Worker) ([]rota.Worker, error) { return tryEach(w, WorkerFromWire) }
