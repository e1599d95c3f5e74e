package transport

import (
	"context"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// explainService serves Explain.
type explainService struct {
	rotav1.UnimplementedExplainServer
	core WhyCore
}

// Why explains one job.
func (s *explainService) Why(ctx context.Context, req *rotav1.WhyRequest) (*rotav1.WhyResponse, error) {
	if err := rota.CheckJobRef("id", rota.JobID(req.GetId())); err != nil {
		return nil, err
	}
	x, at, err := s.core.Why(ctx, rota.JobID(req.GetId()), rota.WhyQuery{At: rota.Index(req.GetAt()),
		AtDate: rota.Date(req.GetAtDateMs()), Others: req.GetOthers()}, words.ReadFromWire(req.GetRead()))
	if err != nil {
		return nil, err
	}
	return &rotav1.WhyResponse{Explanation: words.ExplanationToWire(&x), At: words.ReadAtToWire(at)}, nil
}

// Eta forecasts when a job starts.
func (s *explainService) Eta(ctx context.Context, req *rotav1.EtaRequest) (*rotav1.EtaResponse, error) {
	if err := rota.CheckJobRef("id", rota.JobID(req.GetId())); err != nil {
		return nil, err
	}
	x, at, err := s.core.ETA(ctx, rota.JobID(req.GetId()), words.ReadFromWire(req.GetRead()))
	if err != nil {
		return nil, err
	}
	return &rotav1.EtaResponse{Eta: words.ETAToWire(&x), At: words.ReadAtToWire(at)}, nil
}

// Past returns what a query of a past state has to replay.
func (s *explainService) Past(ctx context.Context, req *rotav1.PastRequest) (*rotav1.PastResponse, error) {
	p, err := s.core.Past(ctx, rota.WhyQuery{At: rota.Index(req.GetAt()), AtDate: rota.Date(req.GetAtDateMs())})
	if err != nil {
		return nil, err
	}
	return words.PastToWire(&p), nil
}
