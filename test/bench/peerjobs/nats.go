package main

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	streamName   = "BENCH"
	subject      = "bench.jobs"
	consumerName = "workers"
	replicas     = 3
)

// natsPeer is a replicated work queue of NATS JetStream, which workers read through one shared consumer.
type natsPeer struct {
	*load
	conn *nats.Conn
	js   jetstream.JetStream
}

func (p *natsPeer) connect() (*nats.Conn, jetstream.JetStream, error) {
	var urls []string
	for _, one := range strings.Split(p.addr, ",") {
		urls = append(urls, "nats://"+one)
	}
	conn, err := nats.Connect(strings.Join(urls, ","), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
		nats.ReconnectWait(100*time.Millisecond))
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(2*p.producers*p.batch))
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, js, nil
}

func (p *natsPeer) ready(ctx context.Context) (err error) {
	if p.conn == nil {
		if p.conn, p.js, err = p.connect(); err != nil {
			return err
		}
	}
	if err := p.js.DeleteStream(ctx, streamName); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	stream, err := p.js.CreateStream(ctx, jetstream.StreamConfig{Name: streamName, Subjects: []string{subject},
		Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage, Replicas: replicas})
	if err != nil {
		return err
	}
	_, err = stream.CreateConsumer(ctx, jetstream.ConsumerConfig{Durable: consumerName,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Minute, MaxAckPending: 4 * p.workers * p.slots})
	return err
}

func (p *natsPeer) hire(ctx context.Context, b *book) (stop func(), err error) {
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

func (p *natsPeer) hireOne(ctx context.Context, b *book) (end func(), err error) {
	conn, js, err := p.connect()
	if err != nil {
		return nil, err
	}
	c, err := js.Consumer(ctx, streamName, consumerName)
	if err != nil {
		conn.Close()
		return nil, err
	}
	messages, err := c.Messages(jetstream.PullMaxMessages(2 * p.slots))
	if err != nil {
		conn.Close()
		return nil, err
	}
	var working sync.WaitGroup
	working.Go(func() { p.work(b, messages, &working) })
	return func() {
		messages.Stop()
		working.Wait()
		conn.Close()
	}, nil
}

// work receives messages until there are none left; each is one job in a slot.
func (p *natsPeer) work(b *book, messages jetstream.MessagesContext, working *sync.WaitGroup) {
	slots := make(chan struct{}, p.slots)
	for {
		m, err := messages.Next()
		if errors.Is(err, jetstream.ErrMsgIteratorClosed) {
			return
		}
		if err != nil {
			b.errors.Add(1)
			continue
		}
		slots <- struct{}{}
		working.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(context.Background(), maxCall)
			defer cancel()
			if err := m.DoubleAck(ctx); err != nil {
				b.errors.Add(1) // it comes again
				return
			}
			attempt := 1
			if meta, err := m.Metadata(); err == nil {
				attempt = int(meta.NumDelivered)
			}
			b.end(number(m.Data()), attempt)
		})
	}
}

func (p *natsPeer) submit(ctx context.Context, b *book, from, to int) error {
	confirmed := make([]jetstream.PubAckFuture, 0, to-from)
	for i := from; i < to; i++ {
		future, err := p.js.PublishMsgAsync(&nats.Msg{Subject: subject, Data: p.body(i)})
		if err != nil {
			return err
		}
		confirmed = append(confirmed, future)
	}
	for k, future := range confirmed {
		select {
		case <-future.Ok():
			b.accept(from + k)
		case err := <-future.Err():
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (p *natsPeer) close() {
	if p.conn != nil {
		p.conn.Close()
	}
}
