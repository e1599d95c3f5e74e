package words

import (
	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
)

// ExplanationToWire converts the answer of `job why`.
func ExplanationToWire(x *rota.Explanation) *rotav1.Explanation {
	w := &rotav1.Explanation{Job: string(x.Job), State: jobStates.text(x.State), Index: uint64(x.Index),
		ClockMs: int64(x.Clock), DateMs: int64(x.Date), Rank: x.Rank, Before: x.Before, Score: (*int64)(x.Score),
		UniqueHolder: string(x.UniqueHolder), WouldRunIf: x.WouldRun, Reasons: each(x.Reasons, whyToWire),
		Decisions: each(x.Decisions, placedToWire)}
	if x.Decision != nil {
		w.Decision = placedToWire(x.Decision)
	}
	return w
}

// ExplanationFromWire is the inverse of ExplanationToWire.
func ExplanationFromWire(w *rotav1.Explanation) (x rota.Explanation, err error) {
	x = rota.Explanation{Job: rota.JobID(w.GetJob()), Index: rota.Index(w.GetIndex()),
		Clock: rota.Clock(w.GetClockMs()),
		Date:  rota.Date(w.GetDateMs()), Rank: w.GetRank(), Before: w.GetBefore(), Score: (*rota.Score)(w.Score),
		UniqueHolder: rota.JobID(w.GetUniqueHolder()), WouldRun: w.GetWouldRunIf(),
		Reasons: each(w.GetReasons(), whyFromWire)}
	if x.State, err = jobStates.value(w.GetState()); err != nil {
		return x, err
	}
	for _, d := range w.GetDecisions() {
		placed, err := placedFromWire(d)
		if err != nil {
			return x, err
		}
		x.Decisions = append(x.Decisions, placed)
	}
	if w.GetDecision() != nil {
		placed, err := placedFromWire(w.GetDecision())
		if err != nil {
			return x, err
		}
		x.Decision = &placed
	}
	return x, nil
}

func placedToWire(d *rota.PlacedDecision) *rotav1.PlacedDecision {
	return &rotav1.PlacedDecision{Decision: decisionToWire(&d.Decision), Worker: string(d.Worker), Attempt: d.Attempt,
		Note: clean(d.Note), Others: each(d.Others, func(o *rota.OtherWorker) *rotav1.OtherWorker {
			return &rotav1.OtherWorker{Worker: string(o.Worker), Reason: o.Reason}
		})}
}

func placedFromWire(w *rotav1.PlacedDecision) (rota.PlacedDecision, error) {
	d, err := decisionFromWire(w.GetDecision())
	return rota.PlacedDecision{Decision: d, Worker: rota.WorkerID(w.GetWorker()), Attempt: w.GetAttempt(),
		Note: w.GetNote(),
		Others: each(w.GetOthers(), func(o **rotav1.OtherWorker) rota.OtherWorker {
			return rota.OtherWorker{Worker: rota.WorkerID((*o).GetWorker()), Reason: (*o).GetReason()}
		})}, err
}

func whyToWire(y *rota.Why) *rotav1.WhyReason {
	return &rotav1.WhyReason{Reason: y.Reason, Workers: y.Workers, WorkerIds: ids[rota.WorkerID, string](y.WorkerIDs),
		Detail: clean(y.Detail)}
}

func whyFromWire(y **rotav1.WhyReason) rota.Why {
	return rota.Why{Reason: (*y).GetReason(), Workers: (*y).GetWorkers(),
		WorkerIDs: ids[string, rota.WorkerID]((*y).GetWorkerIds()), Detail: (*y).GetDetail()}
}

// ETAToWire converts the answer of `job eta`.
func ETAToWire(x *rota.ETA) *rotav1.JobEta {
	return &rotav1.JobEta{Job: string(x.Job), State: jobStates.text(x.State), Index: uint64(x.Index),
		ClockMs: int64(x.Clock), DateMs: int64(x.Date),
		StartedMs: int64(x.Started), ExpectedStartMs: int64(x.Expected), EarliestStartMs: int64(x.Earliest),
		LatestStartMs: int64(x.Latest),
		HangsOn: each(x.HangsOn, func(h *rota.HangsOn) *rotav1.EtaHangsOn {
			return &rotav1.EtaHangsOn{Tenant: string(h.Tenant), Jobs: h.Jobs, Running: h.Running,
				Worker: string(h.Worker)}
		}),
		Basis: x.Basis, Reasons: each(x.Reasons, whyToWire), WouldRunIf: x.WouldRun}
}

// ETAFromWire is the inverse of ETAToWire.
func ETAFromWire(w *rotav1.JobEta) (x rota.ETA, err error) {
	x = rota.ETA{Job: rota.JobID(w.GetJob()), Index: rota.Index(w.GetIndex()), Clock: rota.Clock(w.GetClockMs()),
		Date:    rota.Date(w.GetDateMs()),
		Started: rota.Date(w.GetStartedMs()), Expected: rota.Date(w.GetExpectedStartMs()),
		Earliest: rota.Date(w.GetEarliestStartMs()),
		Latest:   rota.Date(w.GetLatestStartMs()), Basis: w.GetBasis(), WouldRun: w.GetWouldRunIf(),
		Reasons: each(w.GetReasons(), whyFromWire),
		HangsOn: each(w.GetHangsOn(), func(h **rotav1.EtaHangsOn) rota.HangsOn {
			return rota.HangsOn{Tenant: rota.TenantID((*h).GetTenant()), Jobs: (*h).GetJobs(),
				Running: (*h).GetRunning(), Worker: rota.WorkerID((*h).GetWorker())}
		})}
	x.State, err = jobStates.value(w.GetState())
	return x, err
}

// PastToWire converts the cost of a query of the past.
func PastToWire(p *rota.Past) *rotav1.PastResponse {
	return &rotav1.PastResponse{Index: uint64(p.Index), From: uint64(p.From), Entries: uint64(p.Entries)}
}

// PastFromWire is the inverse of PastToWire.
func PastFromWire(w *rotav1.PastResponse) rota.Past {
	return rota.Past{Index: rota.Index(w.GetIndex()), From: rota.Index(w.GetFrom()), Entries: int64(w.GetEntries())}
}
