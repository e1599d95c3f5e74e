package transport

import (
	"context"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// maxSettings bounds one change of a queue: every key a few times over.
const maxSettings = 256

// queuesService serves Queues.
type queuesService struct {
	rotav1.UnimplementedQueuesServer
	core QueueCore
}

// List reads the queues by name, whole or in pages.
func (s *queuesService) List(ctx context.Context,
	req *rotav1.ListQueuesRequest) (*rotav1.ListQueuesResponse, error) {
	rows, at, next, err := wholeList(ctx, req, s.core.Queues, func(q *rota.Queue) string { return string(q.Name) },
		words.QueueToWire)
	if err != nil {
		return nil, err
	}
	return &rotav1.ListQueuesResponse{Queues: rows, At: at, NextCursor: next}, nil
}

// Get reads one queue.
func (s *queuesService) Get(ctx context.Context, req *rotav1.GetQueueRequest) (*rotav1.GetQueueResponse, error) {
	if err := rota.CheckID("name", req.GetName()); err != nil {
		return nil, err
	}
	queue, at, err := s.core.Queue(ctx, rota.QueueName(req.GetName()), words.ReadFromWire(req.GetRead()))
	if err != nil {
		return nil, err
	}
	return &rotav1.GetQueueResponse{Queue: words.QueueToWire(&queue), At: words.ReadAtToWire(at)}, nil
}

// Set creates or changes a queue. A setting that no queue could have is rejected here, whatever the queue's policy is.
func (s *queuesService) Set(ctx context.Context, req *rotav1.SetQueueRequest) (*rotav1.Queue, error) {
	ctx, err := ifMatch(ctx, req.GetIfMatch())
	if err != nil {
		return nil, err
	}
	if err := rota.CheckID("name", req.GetName()); err != nil {
		return nil, err
	}
	if n := len(req.GetSet()); n > maxSettings {
		return nil, rota.TooMany("set", n, maxSettings)
	}
	if req.GetPreset() != "" {
		if _, err := rota.PresetPolicy(req.GetPreset()); err != nil {
			return nil, err
		}
	}
	set, scratch := words.SettingsFromWire(req.GetSet()), rota.StandardPolicy()
	for _, one := range set {
		if err := scratch.Try(one); err != nil {
			return nil, err
		}
	}
	if req.GetDryRun() {
		return reply(words.QueueToWire)(s.core.PreviewQueue(ctx, rota.QueueName(req.GetName()), req.GetPreset(), set))
	}
	return reply(words.QueueToWire)(s.core.SetQueue(ctx, rota.QueueName(req.GetName()), req.GetPreset(), set))
}

// Delete deletes a queue that nothing refers to, or takes one step of draining it to another queue.
func (s *queuesService) Delete(ctx context.Context,
	req *rotav1.DeleteQueueRequest) (*rotav1.DeleteQueueResponse, error) {
	ctx, err := ifMatch(ctx, req.GetIfMatch())
	if err != nil {
		return nil, err
	}
	if err := rota.CheckID("name", req.GetName()); err != nil {
		return nil, err
	}
	if req.GetDrainTo() != "" {
		if err := rota.CheckID("drain_to", req.GetDrainTo()); err != nil {
			return nil, err
		}
	}
	left, err := s.core.DeleteQueue(ctx, rota.QueueName(req.GetName()), rota.QueueName(req.GetDrainTo()))
	return &rotav1.DeleteQueueResponse{Left: left}, err
}
