package transport

import (
	"context"
	"errors"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// batchesService serves Batches (SPEC §24).
type batchesService struct {
	rotav1.UnimplementedBatchesServer
	server *Server
	core   BatchCore
}

// batchOf checks the id in a call.
func batchOf(id string) (rota.BatchID, error) {
	return rota.BatchID(id), rota.BatchID(id).Check("id")
}

// Open opens a batch.
func (s *batchesService) Open(ctx context.Context, req *rotav1.OpenBatchRequest) (*rotav1.Batch, error) {
	spec := words.BatchSpecFromWire(req)
	if spec.Callback.Queue == "" {
		spec.Callback.Queue = rota.DefaultQueue
	}
	if spec.Callback.Tenant == "" {
		spec.Callback.Tenant = rota.DefaultTenant
	}
	if err := spec.CheckShape(rota.MaxPayloadBytes); err != nil {
		return nil, err
	}
	return reply(words.BatchToWire)(s.core.OpenBatch(ctx, spec))
}

// Seal closes a batch to further jobs.
func (s *batchesService) Seal(ctx context.Context, req *rotav1.SealBatchRequest) (*rotav1.Batch, error) {
	id, err := batchOf(req.GetId())
	if err != nil {
		return nil, err
	}
	return reply(words.BatchToWire)(s.core.SealBatch(ctx, id))
}

// Get reads one batch.
func (s *batchesService) Get(ctx context.Context, req *rotav1.GetBatchRequest) (*rotav1.GetBatchResponse, error) {
	id, err := batchOf(req.GetId())
	if err != nil {
		return nil, err
	}
	b, at, err := s.core.Batch(ctx, id, words.ReadFromWire(req.GetRead()))
	if err != nil {
		return nil, err
	}
	return &rotav1.GetBatchResponse{Batch: words.BatchToWire(&b), At: words.ReadAtToWire(at)}, nil
}

// List reads one page of batches by id. Rows are small: a whole page is below a message's bytes.
func (s *batchesService) List(ctx context.Context,
	req *rotav1.ListBatchesRequest) (*rotav1.ListBatchesResponse, error) {
	if err := checkLimit(req.GetLimit(), req.GetCursor()); err != nil {
		return nil, err
	}
	by, err := principalOf(req.GetBy())
	if err != nil {
		return nil, err
	}
	page, at, err := s.core.Batches(ctx, by, rota.BatchID(req.GetCursor()), int(req.GetLimit()),
		words.ReadFromWire(req.GetRead()))
	if err != nil {
		return nil, err
	}
	answer := &rotav1.ListBatchesResponse{At: words.ReadAtToWire(at), NextCursor: string(page.Next)}
	for i := range page.Batches {
		answer.Batches = append(answer.Batches, words.BatchToWire(&page.Batches[i]))
	}
	return answer, nil
}

// Wait returns once the batch has ended, as for a workflow.
func (s *batchesService) Wait(ctx context.Context, req *rotav1.WaitBatchRequest) (*rotav1.Batch, error) {
	id, err := batchOf(req.GetId())
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.server.untilDrain(ctx)
	defer cancel()
	b, err := s.core.AwaitBatch(ctx, id)
	switch {
	case err == nil:
		return words.BatchToWire(&b), nil
	case s.server.draining.Err() != nil:
		return nil, s.server.going()
	case ctx.Err() != nil && (errors.Is(err, context.DeadlineExceeded) || rota.KindOf(err) == rota.KindTimeout):
		return nil, rota.Refusef(rota.KindTimeout, req.GetId(), "batch %s has not ended yet: ask again", req.GetId())
	}
	return nil, err
}
