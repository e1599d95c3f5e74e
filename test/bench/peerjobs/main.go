package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// load is the measured load; its flags are those of `rota bench jobs`.
type load struct {
	jobs, producers, batch, workers, slots, payload int
	rate                                            float64
	addr                                            string
	patience                                        time.Duration
}

// peer is a queue that is measured. A job's payload begins with its number.
type peer interface {
	// ready makes an empty queue, as soon as its servers answer.
	ready(ctx context.Context) error
	// hire starts the workers, which report ends to the book; stop ends them.
	hire(ctx context.Context, b *book) (stop func(), err error)
	// submit stores jobs from…to−1 durably, and reports each to the book.
	submit(ctx context.Context, b *book, from, to int) error
	close()
}

// peers are the queues that this command knows.
var peers = map[string]func(*load) peer{
	"nats":       func(l *load) peer { return &natsPeer{load: l} },
	"river":      func(l *load) peer { return &riverPeer{load: l} },
	"asynq":      func(l *load) peer { return &asynqPeer{load: l} },
	"beanstalkd": func(l *load) peer { return &beanstalkdPeer{load: l} },
}

func main() {
	var l load
	var name string
	flag.StringVar(&name, "peer", "nats", "the queue: "+strings.Join(slices.Sorted(maps.Keys(peers)), ", "))
	flag.IntVar(&l.jobs, "jobs", 10_000, "how many jobs")
	flag.Float64Var(&l.rate, "rate", 0, "jobs a second, open loop (default: as fast as it goes)")
	flag.IntVar(&l.producers, "producers", 16, "batches in flight at most")
	flag.IntVar(&l.batch, "batch", 100, "jobs that are sent before their confirmations are awaited")
	flag.IntVar(&l.workers, "workers", 4, "workers, each with its own connections")
	flag.IntVar(&l.slots, "slots", 64, "jobs that a worker has in hand")
	flag.IntVar(&l.payload, "payload", 256, "bytes of payload in each job")
	flag.StringVar(&l.addr, "addr", "127.0.0.1:4222", "host:port of the servers, separated by commas")
	flag.DurationVar(&l.patience, "patience", time.Minute,
		"how long nothing may be heard before open jobs count as lost")
	flag.Parse()
	of, known := peers[name]
	if !known || l.jobs < 1 || l.producers < 1 || l.batch < 1 || l.workers < 1 || l.slots < 1 ||
		l.payload < numberBytes || l.rate < 0 {
		fmt.Fprintf(os.Stderr, "peerjobs: -peer is one of its list, -payload at least %d, -rate at least 0, all other numbers at least 1\n",
			numberBytes)
		os.Exit(2)
	}
	r, err := l.measure(context.Background(), of(&l))
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(r)
	}
	if err == nil && (r.Lost != 0 || r.Duplicated != 0) {
		err = fmt.Errorf("%d jobs were lost and %d done twice", r.Lost, r.Duplicated)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "peerjobs:", err)
		os.Exit(1)
	}
}

// numberBytes of a payload are the job's number.
const numberBytes = 8

const (
	// maxReady bounds the start of servers.
	maxReady = 30 * time.Second
	// maxCall bounds one call.
	maxCall = 30 * time.Second
)

// body is the payload of a job.
func (l *load) body(i int) []byte {
	b := make([]byte, l.payload)
	binary.BigEndian.PutUint64(b, uint64(i))
	return b
}

// number returns the job number in a payload; for a payload without one it returns a number of no job.
func number(payload []byte) uint64 {
	if len(payload) < numberBytes {
		return 1<<64 - 1
	}
	return binary.BigEndian.Uint64(payload)
}

// measure empties a queue that it filled and reports the result.
func (l *load) measure(ctx context.Context, p peer) (report, error) {
	b := &book{jobs: make([]job, l.jobs)}
	defer p.close()
	if err := eventually(ctx, p.ready); err != nil {
		return report{}, err
	}
	stop, err := p.hire(ctx, b)
	if err != nil {
		return report{}, err
	}
	defer stop()
	cpu := processCPU()
	b.begin = time.Now()
	if err := l.submit(ctx, b, p); err != nil {
		return report{}, err
	}
	b.await(l.patience)
	stop()
	return b.report(processCPU() - cpu), nil
}

// eventually retries until it works, at most for the time that servers may take to start.
func eventually(ctx context.Context, try func(context.Context) error) error {
	for begin := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		once, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := try(once)
		cancel()
		if err == nil || time.Since(begin) > maxReady {
			return err
		}
	}
}

// submit stores all jobs and returns when each is confirmed. As with rota's bench each producer has one batch in
// flight; at a rate a batch holds the jobs that are due.
func (l *load) submit(ctx context.Context, b *book, p peer) error {
	var mu sync.Mutex
	next := 0
	take := func() (from, to int) {
		mu.Lock()
		defer mu.Unlock()
		from, most := next, min(next+l.batch, l.jobs)
		if l.rate == 0 {
			next = most
			for i := from; i < most; i++ {
				b.jobs[i].due.Store(b.now())
			}
			return from, most
		}
		if from == most {
			return from, from
		}
		at := func(i int) time.Duration { return time.Duration(float64(i) / l.rate * float64(time.Second)) }
		time.Sleep(at(from) - time.Since(b.begin))
		now := time.Since(b.begin)
		for to = from; to < most && (to == from || at(to) <= now); to++ {
			b.jobs[to].due.Store(int64(at(to)) + 1)
		}
		next = to
		return from, to
	}
	errs := make([]error, l.producers)
	var group sync.WaitGroup
	for producer := range l.producers {
		group.Go(func() {
			for {
				from, to := take()
				if from == to {
					return
				}
				if errs[producer] = p.submit(ctx, b, from, to); errs[producer] != nil {
					return
				}
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}
