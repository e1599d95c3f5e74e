package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// riverPeer is River on PostgreSQL. A job has ended when River reports so by an event, after the row records it.
type riverPeer struct {
	*load
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
}

// riverFetch is how soon a client asks again: River's own benchmark uses this value, while the default of 100 ms would
// bound a client's throughput.
const riverFetch = 2 * time.Millisecond

// riverArgs are the arguments of a River job.
type riverArgs struct {
	Body []byte `json:"body"`
}

func (riverArgs) Kind() string { return "bench" }

type riverWorker struct {
	river.WorkerDefaults[riverArgs]
}

func (riverWorker) Work(context.Context, *river.Job[riverArgs]) error { return nil }

func (p *riverPeer) ready(ctx context.Context) (err error) {
	if p.pool == nil {
		if p.pool, err = p.connect(ctx, 2*p.producers); err != nil {
			return err
		}
	}
	driver := riverpgxv5.New(p.pool)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if _, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	if _, err = p.pool.Exec(ctx, "TRUNCATE river_job"); err != nil {
		return err
	}
	p.client, err = river.NewClient(driver, &river.Config{Logger: slog.New(slog.DiscardHandler)})
	return err
}

func (p *riverPeer) connect(ctx context.Context, most int) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig("postgres://rota@" + p.addr + "/postgres?sslmode=disable")
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(most)
	return pgxpool.NewWithConfig(ctx, config)
}

func (p *riverPeer) hire(ctx context.Context, b *book) (stop func(), err error) {
	var ends []func()
	stop = sync.OnceFunc(func() {
		for _, end := range ends {
			end()
		}
	})
	for range p.workers {
		end, err := p.hireOne(ctx, b)
		if err != nil {
			stop()
			return nil, err
		}
		ends = append(ends, end)
	}
	return stop, nil
}

func (p *riverPeer) hireOne(ctx context.Context, b *book) (end func(), err error) {
	pool, err := p.connect(ctx, 8)
	if err != nil {
		return nil, err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, riverWorker{})
	c, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: slog.New(slog.DiscardHandler),
		Workers:       workers,
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: p.slots}},
		FetchCooldown: riverFetch, FetchPollInterval: 10 * riverFetch})
	if err != nil {
		pool.Close()
		return nil, err
	}
	events, cancel := c.SubscribeConfig(&river.SubscribeConfig{ChanSize: p.jobs,
		Kinds: []river.EventKind{river.EventKindJobCompleted,
			river.EventKindJobFailed}})
	if err := c.Start(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		for e := range events {
			var args riverArgs
			if err := json.Unmarshal(e.Job.EncodedArgs, &args); err != nil || e.Kind != river.EventKindJobCompleted {
				b.errors.Add(1)
				continue
			}
			b.end(number(args.Body), e.Job.Attempt)
		}
	})
	return func() {
		ctx, stop := context.WithTimeout(context.Background(), maxCall)
		defer stop()
		if err := c.Stop(ctx); err != nil && !errors.Is(err, context.Canceled) {
			b.errors.Add(1)
		}
		cancel()
		reading.Wait()
		pool.Close()
	}, nil
}

func (p *riverPeer) submit(ctx context.Context, b *book, from, to int) error {
	rows := make([]river.InsertManyParams, 0, to-from)
	for i := from; i < to; i++ {
		rows = append(rows, river.InsertManyParams{Args: riverArgs{Body: p.body(i)}})
	}
	if _, err := p.client.InsertManyFast(ctx, rows); err != nil {
		return err
	}
	for i := from; i < to; i++ {
		b.accept(i)
	}
	return nil
}

func (p *riverPeer) close() {
	if p.pool != nil {
		p.pool.Close()
	}
}
