package transport

import (
	"context"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// workersService serves Workers; Work is in worker.go.
type workersService struct {
	rotav1.UnimplementedWorkersServer
	server *Server
	core   WorkerCore
}

// List reads the workers by id, whole or in pages.
func (s *workersService) List(ctx context.Context,
	req *rotav1.ListWorkersRequest) (*rotav1.ListWorkersResponse, error) {
	rows, at, next, err := wholeList(ctx, req, s.core.Workers, func(w *rota.Worker) string { return string(w.ID) },
		words.WorkerToWire)
	if err != nil {
		return nil, err
	}
	return &rotav1.ListWorkersResponse{Workers: rows, At: at, NextCursor: next}, nil
}

// Get reads one worker with its leases.
func (s *workersService) Get(ctx context.Context, req *rotav1.GetWorkerRequest) (*rotav1.GetWorkerResponse, error) {
	if err := rota.CheckID("id", req.GetId()); err != nil {
		return nil, err
	}
	worker, at, err := s.core.Worker(ctx, rota.WorkerID(req.GetId()), words.ReadFromWire(req.GetRead()))
	if err != nil {
		return nil, err
	}
	return &rotav1.GetWorkerResponse{Worker: words.WorkerToWire(&worker), At: words.ReadAtToWire(at)}, nil
}

// Drain stops new leases for a worker.
func (s *workersService) Drain(ctx context.Context, req *rotav1.DrainWorkerRequest) (*rotav1.Worker, error) {
	return setStatus(ctx, req.GetId(), s.core.DrainWorker)
}

// Suspend cancels a worker's leases and gives it no new ones.
func (s *workersService) Suspend(ctx context.Context,
	req *rotav1.SuspendWorkerRequest) (*rotav1.Worker, error) {
	return setStatus(ctx, req.GetId(), s.core.SuspendWorker)
}

// Resume makes a worker ACTIVE again.
func (s *workersService) Resume(ctx context.Context, req *rotav1.ResumeWorkerRequest) (*rotav1.Worker, error) {
	return setStatus(ctx, req.GetId(), s.core.ResumeWorker)
}

// Retire ends a worker permanently.
func (s *workersService) Retire(ctx context.Context, req *rotav1.RetireWorkerRequest) (*rotav1.Worker, error) {
	return setStatus(ctx, req.GetId(), s.core.RetireWorker)
}

// Gone ends the leases of a worker that died.
func (s *workersService) Gone(ctx context.Context, req *rotav1.WorkerGoneRequest) (*rotav1.WorkerGoneResponse, error) {
	if err := rota.CheckID("id", req.GetId()); err != nil {
		return nil, err
	}
	if err := checkSecret("secret", req.GetSecret()); err != nil {
		return nil, err
	}
	session := rota.Session(req.GetSession())
	if err := s.core.WorkerGone(ctx, rota.WorkerID(req.GetId()), session, req.GetSecret()); err != nil {
		return nil, err
	}
	return &rotav1.WorkerGoneResponse{}, nil
}

// checkSecret rejects a secret that no worker can have registered with (SPEC §6.4).
func checkSecret(field string, secret []byte) error {
	if n := len(secret); n < minSecret || n > maxSecret {
		return rota.Refusef(rota.KindInvalid, field, "%s: got %d bytes, want %d to %d", field, n, minSecret, maxSecret)
	}
	return nil
}

func setStatus(ctx context.Context, id string,
	do func(context.Context, rota.WorkerID) (rota.Worker, error)) (*rotav1.Worker, error) {
	if err := rota.CheckID("id", id); err != nil {
		return nil, err
	}
	return reply(words.WorkerToWire)(do(ctx, rota.WorkerID(id)))
}

// Delete forgets a worker that is gone.
func (s *workersService) Delete(ctx context.Context,
	req *rotav1.DeleteWorkerRequest) (*rotav1.DeleteWorkerResponse, error) {
	if err := rota.CheckID("id", req.GetId()); err != nil {
		return nil, err
	}
	return &rotav1.DeleteWorkerResponse{}, s.core.DeleteWorker(ctx, rota.WorkerID(req.GetId()))
}
