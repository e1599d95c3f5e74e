package words

import (
	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
)

// BatchSpecToWire converts the specification of a batch.
func BatchSpecToWire(s *rota.BatchSpec) *rotav1.OpenBatchRequest {
	return &rotav1.OpenBatchRequest{Id: string(s.ID), Size: s.Size, Callback: JobSpecToWire(&s.Callback)}
}

// BatchSpecFromWire is the inverse of BatchSpecToWire.
func BatchSpecFromWire(w *rotav1.OpenBatchRequest) rota.BatchSpec {
	return rota.BatchSpec{ID: rota.BatchID(w.GetId()), Size: w.GetSize(), Callback: JobSpecFromWire(w.GetCallback())}
}

// BatchToWire converts a batch's current state.
func BatchToWire(b *rota.Batch) *rotav1.Batch {
	return &rotav1.Batch{Id: string(b.ID), State: b.State.String(), Tenant: string(b.Tenant), Queue: string(b.Queue),
		Type: string(b.Type), Size: b.Size,
		Total: b.Total, Live: b.Live, Completed: b.Completed, Dead: b.Dead, Expired: b.Expired, Cancelled: b.Cancelled,
		OpenedMs: int64(b.Opened.Date), OpenedClockMs: int64(b.Opened.Clock), SealedMs: int64(b.Sealed.Date),
		SealedClockMs: int64(b.Sealed.Clock),
		FinishedMs:    int64(b.Finished.Date), FinishedClockMs: int64(b.Finished.Clock), SealsMs: int64(b.SealsAt),
		Why: clean(b.Why), Callback: string(b.Callback), By: string(b.By)}
}

// BatchFromWire is the inverse of BatchToWire.
func BatchFromWire(w *rotav1.Batch) (rota.Batch, error) {
	state, err := batchStates.value(w.GetState())
	b := rota.Batch{ID: rota.BatchID(w.GetId()), State: state, Tenant: rota.TenantID(w.GetTenant()),
		Queue: rota.QueueName(w.GetQueue()),
		Type:  rota.JobType(w.GetType()), Size: w.GetSize(), Opened: moment(w.GetOpenedMs(), w.GetOpenedClockMs()),
		Sealed:   moment(w.GetSealedMs(), w.GetSealedClockMs()),
		Finished: moment(w.GetFinishedMs(), w.GetFinishedClockMs()),
		SealsAt:  rota.Date(w.GetSealsMs()), Why: w.GetWhy(), Callback: rota.JobID(w.GetCallback()),
		By: rota.Principal(w.GetBy())}
	b.BatchCounts = rota.BatchCounts{Total: w.GetTotal(), Live: w.GetLive(), Completed: w.GetCompleted(),
		Dead: w.GetDead(), Expired: w.GetExpired(),
		Cancelled: w.GetCancelled()}
	return b, err
}

// BatchesFromWire converts a list of batches.
func BatchesFromWire(w []*rotav1.Batch) ([]rota.Batch, error) { return tryEach(w, BatchFromWire) }
