package words

import (
	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/internal/peer"
)

// LogOfToWire converts the selection of a log.
func LogOfToWire(of *rota.LogOf, read *rotav1.Read) *rotav1.JobLogRequest {
	return &rotav1.JobLogRequest{Id: string(of.Job), Attempt: of.Attempt, LeaseId: leaseIDToWire(&of.Lease),
		After: of.After, Read: read}
}

// LogOfFromWire is the inverse of LogOfToWire.
func LogOfFromWire(w *rotav1.JobLogRequest) (rota.LogOf, error) {
	lease, err := LeaseIDFromWire(w.GetLeaseId())
	return rota.LogOf{Job: rota.JobID(w.GetId()), Attempt: w.Attempt, Lease: lease, After: w.GetAfter()}, err
}

// AttemptLogToWire converts an attempt's log.
func AttemptLogToWire(l *rota.AttemptLog, at rota.ReadAt) *rotav1.JobLogResponse {
	return &rotav1.JobLogResponse{Attempt: l.Attempt, LeaseId: leaseIDToWire(&l.Lease), Worker: string(l.Worker),
		Open: l.Open, Parts: LogPartsToWire(l.Parts), At: ReadAtToWire(at)}
}

// AttemptLogFromWire is the inverse of AttemptLogToWire.
func AttemptLogFromWire(job rota.JobID, w *rotav1.JobLogResponse) (rota.AttemptLog, error) {
	lease, err := LeaseIDFromWire(w.GetLeaseId())
	return rota.AttemptLog{Job: job, Attempt: w.GetAttempt(), Lease: lease, Worker: rota.WorkerID(w.GetWorker()),
		Open: w.GetOpen(), Parts: LogPartsFromWire(w.GetParts())}, err
}

// LogPartsToWire converts pieces of one log.
func LogPartsToWire(parts []rota.LogPart) []*rotav1.LogPart {
	return each(parts, func(p *rota.LogPart) *rotav1.LogPart {
		return &rotav1.LogPart{At: p.At, CutLines: p.CutLines, Text: p.Text}
	})
}

// LogPartsFromWire is the inverse of LogPartsToWire.
func LogPartsFromWire(w []*rotav1.LogPart) []rota.LogPart {
	parts := make([]rota.LogPart, len(w))
	for i, p := range w {
		parts[i] = rota.LogPart{At: p.GetAt(), CutLines: p.GetCutLines(), Text: p.GetText()}
	}
	return parts
}

// LoggedToWire converts a piece of an open attempt's log on its worker's stream.
func LoggedToWire(l *peer.Logged) *rotav1.LogPart {
	return &rotav1.LogPart{LeaseId: leaseIDToWire(&l.Lease), At: l.Part.At, CutLines: l.Part.CutLines,
		Text: l.Part.Text}
}

// LoggedFromWire is the inverse of LoggedToWire.
func LoggedFromWire(w *rotav1.LogPart) (peer.Logged, error) {
	lease, err := LeaseIDFromWire(w.GetLeaseId())
	return peer.Logged{Lease: lease, Part: rota.LogPart{At: w.GetAt(), CutLines: w.GetCutLines(), Text: w.GetText()}},
		err
}
