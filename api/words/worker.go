package words

import (
	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
)

// WorkerSpecToWire converts a worker's description of itself.
func WorkerSpecToWire(s *rota.WorkerSpec) *rotav1.WorkerSpec {
	return &rotav1.WorkerSpec{
		Id: string(s.ID), Queues: ids[rota.QueueName, string](s.Queues), Slots: s.Slots, Prefetch: s.Prefetch,
		Region: s.Region, Zone: s.Zone, Capabilities: s.Capabilities, CpuMilli: s.CPUMilli,
		MemoryBytes: s.MemoryBytes, IoBytesPerS: s.IOBytesPerS, Stake: s.Stake, Limits: s.Limits,
		Types: ids[rota.JobType, string](s.Types),
	}
}

// WorkerSpecFromWire is the inverse of WorkerSpecToWire; nil becomes a worker without a name, which CheckShape rejects.
func WorkerSpecFromWire(w *rotav1.WorkerSpec) rota.WorkerSpec {
	return rota.WorkerSpec{
		ID: rota.WorkerID(w.GetId()), Queues: ids[string, rota.QueueName](w.GetQueues()), Slots: w.GetSlots(),
		Prefetch: w.GetPrefetch(), Region: w.GetRegion(), Zone: w.GetZone(), Capabilities: w.GetCapabilities(),
		CPUMilli: w.GetCpuMilli(), MemoryBytes: w.GetMemoryBytes(), IOBytesPerS: w.GetIoBytesPerS(),
		Stake: w.GetStake(), Limits: w.GetLimits(),
		Types: ids[string, rota.JobType](w.GetTypes()),
	}
}

// WorkerToWire converts a worker's full state.
func WorkerToWire(r *rota.Worker) *rotav1.Worker {
	return &rotav1.Worker{
		Spec: WorkerSpecToWire(&r.WorkerSpec), Status: workerStatuses.text(r.Status), Session: uint64(r.Session),
		StatusSinceMs: int64(r.StatusSince.Date), StatusSinceClockMs: int64(r.StatusSince.Clock),
		SilentSinceMs: int64(r.SilentSince.Date), SilentSinceClockMs: int64(r.SilentSince.Clock), OpenLeases: r.Open,
		DisconnectedSinceMs:      int64(r.DisconnectedSince.Date),
		DisconnectedSinceClockMs: int64(r.DisconnectedSince.Clock),
		CpuMilliTaken:            r.CPUMilliTaken, MemoryBytesTaken: r.MemoryTaken,
		IoBytesPerSTaken: r.IOTaken, Health: r.Health,
		AssignedTotal: r.Assigned, CompletedTotal: r.Completed, FailedTotal: r.Failed,
		Leases: each(r.Leases, LeaseToWire), Load: r.Load, Slashed: r.Slashed, InvalidProofs: r.InvalidProofs,
		AttestedStake: r.AttestedStake, Polls: r.Polls, Offered: r.Offered,
		JailedUntilMs: int64(r.JailedUntil.Date), JailedUntilClockMs: int64(r.JailedUntil.Clock),
		AttestedUntilMs: int64(r.AttestedUntil), Cooling: each(r.Cooling, typeUntilToWire),
		Denied: each(r.Denied, typeUntilToWire), Units: each(r.Units, unitsUsedToWire),
	}
}

// WorkerFromWire is the inverse of WorkerToWire.
func WorkerFromWire(w *rotav1.Worker) (rota.Worker, error) {
	r := rota.Worker{
		WorkerSpec: WorkerSpecFromWire(w.GetSpec()), Session: rota.Session(w.GetSession()),
		StatusSince:       moment(w.GetStatusSinceMs(), w.GetStatusSinceClockMs()),
		SilentSince:       moment(w.GetSilentSinceMs(), w.GetSilentSinceClockMs()),
		DisconnectedSince: moment(w.GetDisconnectedSinceMs(), w.GetDisconnectedSinceClockMs()),
		Open:              w.GetOpenLeases(), CPUMilliTaken: w.GetCpuMilliTaken(), MemoryTaken: w.GetMemoryBytesTaken(),
		IOTaken: w.GetIoBytesPerSTaken(),
		Health:  w.GetHealth(), Assigned: w.GetAssignedTotal(), Completed: w.GetCompletedTotal(),
		Failed: w.GetFailedTotal(), Load: w.GetLoad(), Slashed: w.GetSlashed(), InvalidProofs: w.GetInvalidProofs(),
		JailedUntil:   moment(w.GetJailedUntilMs(), w.GetJailedUntilClockMs()),
		AttestedUntil: rota.Date(w.GetAttestedUntilMs()), AttestedStake: w.GetAttestedStake(), Polls: w.GetPolls(),
		Offered: w.GetOffered(), Units: each(w.GetUnits(), unitsUsedFromWire),
	}
	var err error
	if r.Status, err = workerStatuses.value(w.GetStatus()); err != nil {
		return r, err
	}
	if r.Cooling, err = typesUntilFromWire(w.GetCooling()); err != nil {
		return r, err
	}
	if r.Denied, err = typesUntilFromWire(w.GetDenied()); err != nil {
		return r, err
	}
	if len(w.GetLeases()) > 0 {
		r.Leases, err = tryEach(w.GetLeases(), LeaseFromWire)
	}
	return r, err
}

func typeUntilToWire(t *rota.TypeUntil) *rotav1.TypeUntil {
	return &rotav1.TypeUntil{Type: string(t.Type), UntilMs: int64(t.Until.Date), UntilClockMs: int64(t.Until.Clock),
		Cause: reasons.text(t.Cause)}
}

func typesUntilFromWire(list []*rotav1.TypeUntil) ([]rota.TypeUntil, error) {
	if len(list) == 0 {
		return nil, nil
	}
	return tryEach(list, typeUntilFromWire)
}

func typeUntilFromWire(w *rotav1.TypeUntil) (rota.TypeUntil, error) {
	cause, err := reasons.value(w.GetCause())
	return rota.TypeUntil{Type: rota.JobType(w.GetType()), Until: moment(w.GetUntilMs(), w.GetUntilClockMs()),
		Cause: cause}, err
}

func unitsUsedToWire(u *rota.UnitsUsed) *rotav1.UnitsUsed {
	return &rotav1.UnitsUsed{Queue: string(u.Queue), SinceMs: int64(u.Since.Date), SinceClockMs: int64(u.Since.Clock),
		UntilMs: int64(u.Until.Date), UntilClockMs: int64(u.Until.Clock), Used: u.Used}
}

func unitsUsedFromWire(w **rotav1.UnitsUsed) rota.UnitsUsed {
	return rota.UnitsUsed{Queue: rota.QueueName((*w).GetQueue()),
		Since: moment((*w).GetSinceMs(), (*w).GetSinceClockMs()),
		Until: moment((*w).GetUntilMs(), (*w).GetUntilClockMs()), Used: (*w).GetUsed()}
}

// AttestationToWire converts a worker's attestation; nil stays nil.
func AttestationToWire(a *rota.Attestation) *rotav1.Attestation {
	if a == nil {
		return nil
	}
	return &rotav1.Attestation{ClusterId: string(a.Cluster), Worker: string(a.Worker), ExpiresMs: int64(a.Expires),
		Stake: a.Stake, Key: a.Key, Signature: a.Signature}
}

// AttestationFromWire is the inverse of AttestationToWire; it checks nothing.
func AttestationFromWire(w *rotav1.Attestation) *rota.Attestation {
	if w == nil {
		return nil
	}
	return &rota.Attestation{Cluster: rota.ClusterID(w.GetClusterId()), Worker: rota.WorkerID(w.GetWorker()),
		Expires: rota.Date(w.GetExpiresMs()), Stake: w.GetStake(), Key: w.GetKey(), Signature: w.GetSignature()}
}

// WorkersFromWire converts a list of workers.
func WorkersFromWire(w []*rotav1.Worker) ([]rota.Worker, error) { return tryEach(w, WorkerFromWire) }
