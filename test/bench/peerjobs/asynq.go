package main

import (
	"context"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"golang.org/x/sync/errgroup"
)

// asynqPeer is Asynq on Redis. It does not report when a job has been removed from the list: here it ends when its
// handler does, which is a round trip too early.
type asynqPeer struct {
	*load
	client *asynq.Client
}

const (
	asynqQueue = "default"
	asynqKind  = "bench"
	// asynqFetch is how soon a server that found nothing asks again; the default, one second, would dominate the
	// results of an open loop.
	asynqFetch = 2 * time.Millisecond
)

func (p *asynqPeer) redis() asynq.RedisClientOpt {
	return asynq.RedisClientOpt{Addr: p.addr, PoolSize: p.producers * 2, ReadTimeout: maxCall}
}

func (p *asynqPeer) ready(context.Context) error {
	inspector := asynq.NewInspector(p.redis())
	defer inspector.Close()
	queues, err := inspector.Queues()
	if err != nil {
		return err
	}
	for _, q := range queues {
		if err := inspector.DeleteQueue(q, true); err != nil {
			return err
		}
	}
	if p.client == nil {
		p.client = asynq.NewClient(p.redis())
	}
	return nil
}

func (p *asynqPeer) hire(_ context.Context, b *book) (stop func(), err error) {
	var servers []*asynq.Server
	stop = sync.OnceFunc(func() {
		for _, s := range servers {
			s.Shutdown()
		}
	})
	for range p.workers {
		s := asynq.NewServer(p.redis(), asynq.Config{Concurrency: p.slots, Queues: map[string]int{asynqQueue: 1},
			TaskCheckInterval: asynqFetch,
			LogLevel:          asynq.FatalLevel})
		err := s.Start(asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
			retried, _ := asynq.GetRetryCount(ctx)
			b.end(number(t.Payload()), retried+1)
			return nil
		}))
		if err != nil {
			stop()
			return nil, err
		}
		servers = append(servers, s)
	}
	return stop, nil
}

// submit has no batches to use: a batch is as many calls at once.
func (p *asynqPeer) submit(ctx context.Context, b *book, from, to int) error {
	group, ctx := errgroup.WithContext(ctx)
	for i := from; i < to; i++ {
		group.Go(func() error {
			_, err := p.client.EnqueueContext(ctx, asynq.NewTask(asynqKind, p.body(i)), asynq.Queue(asynqQueue))
			if err == nil {
				b.accept(i)
			}
			return err
		})
	}
	return group.Wait()
}

func (p *asynqPeer) close() {
	if p.client != nil {
		_ = p.client.Close()
	}
}
