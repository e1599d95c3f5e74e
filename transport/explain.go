package transport

import (
	"context"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// explainService answers the service Explain.
type explainService struct {
	rotav1.UnimplementedExplainServer
	core Core
}

// Why explains one job.
func (s *explainService) Why(ctx context.Context, req *rotav1.WhyRequest) (*rotav1.Explanation, error) {
	if err := rota.CheckJobRef("id", rota.JobID(req.GetId())); err != nil {
		return nil, err
	}
	x, err := s.core.Why(ctx, rota.JobID(req.GetId()), rota.Index(req.GetAt()))
	if err != nil {
		return nil, err
	}
	return words.ExplanationToWire(&x), nil
}
