package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/beanstalkd/go-beanstalk"
	"golang.org/x/sync/errgroup"
)

// beanstalkdPeer is beanstalkd, which has one connection for each running job. A job has ended when its deletion is
// confirmed.
type beanstalkdPeer struct {
	*load
	// producing are the connections of producers, used in turn.
	producing []*beanstalk.Conn
	turn      atomic.Uint64
}

const (
	beanstalkdPriority = 1024
	// beanstalkdLease is how long a worker may take.
	beanstalkdLease = time.Minute
	// beanstalkdWait is how long one call waits for a job; a worker ends no sooner.
	beanstalkdWait = time.Second
)

func (p *beanstalkdPeer) ready(context.Context) error {
	c, err := beanstalk.Dial("tcp", p.addr)
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		id, _, err := c.Reserve(0)
		if errors.Is(err, beanstalk.ErrTimeout) {
			break
		}
		if err == nil {
			err = c.Delete(id)
		}
		if err != nil {
			return err
		}
	}
	for len(p.producing) < p.producers {
		c, err := beanstalk.Dial("tcp", p.addr)
		if err != nil {
			return err
		}
		p.producing = append(p.producing, c)
	}
	return nil
}

func (p *beanstalkdPeer) hire(_ context.Context, b *book) (stop func(), err error) {
	working, quit := sync.WaitGroup{}, make(chan struct{})
	stop = sync.OnceFunc(func() {
		close(quit)
		working.Wait()
	})
	for range p.workers * p.slots {
		c, err := beanstalk.Dial("tcp", p.addr)
		if err != nil {
			stop()
			return nil, err
		}
		working.Go(func() {
			defer c.Close()
			for {
				select {
				case <-quit:
					return
				default:
					workOne(c, b)
				}
			}
		})
	}
	return stop, nil
}

// workOne reserves a job, if there is one soon, and ends it.
func workOne(c *beanstalk.Conn, b *book) {
	id, body, err := c.Reserve(beanstalkdWait)
	if errors.Is(err, beanstalk.ErrTimeout) {
		return
	}
	if err == nil {
		err = c.Delete(id)
	}
	if err != nil {
		b.errors.Add(1)
		time.Sleep(beanstalkdWait)
		return
	}
	b.end(number(body), 1)
}

// submit sends a batch over one connection without awaiting answers in between.
func (p *beanstalkdPeer) submit(ctx context.Context, b *book, from, to int) error {
	c := p.producing[p.turn.Add(1)%uint64(len(p.producing))]
	var group errgroup.Group
	for i := from; i < to; i++ {
		group.Go(func() error {
			_, err := c.Put(p.body(i), beanstalkdPriority, 0, beanstalkdLease)
			if err == nil {
				b.accept(i)
			}
			return err
		})
	}
	return errors.Join(group.Wait(), ctx.Err())
}

func (p *beanstalkdPeer) close() {
	for _, c := range p.producing {
		_ = c.Close()
	}
}
