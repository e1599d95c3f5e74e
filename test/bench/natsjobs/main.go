package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// load is what is measured; its flags are those of `rota bench jobs`.
type load struct {
	jobs, producers, batch, workers, slots, payload, replicas int
	rate                                                      float64
	addr                                                      string
	patience                                                  time.Duration
}

func main() {
	var l load
	flag.IntVar(&l.jobs, "jobs", 10_000, "how many jobs")
	flag.Float64Var(&l.rate, "rate", 0, "jobs a second, open loop (default: as fast as it goes)")
	flag.IntVar(&l.producers, "producers", 16, "batches in flight at most")
	flag.IntVar(&l.batch, "batch", 100, "messages published before their acknowledgements are awaited")
	flag.IntVar(&l.workers, "workers", 4, "workers, each with its own connection")
	flag.IntVar(&l.slots, "slots", 64, "jobs that a worker has in hand, and as many that wait there")
	flag.IntVar(&l.payload, "payload", 256, "bytes of payload in each job")
	flag.IntVar(&l.replicas, "replicas", 3, "replicas of the work queue")
	flag.StringVar(&l.addr, "addr", "127.0.0.1:4222", "host:port of the servers, separated by commas")
	flag.DurationVar(&l.patience, "patience", time.Minute, "how long nothing may be heard before open jobs count as lost")
	flag.Parse()
	if l.jobs < 1 || l.producers < 1 || l.batch < 1 || l.workers < 1 || l.slots < 1 || l.replicas < 1 || l.payload < numberBytes || l.rate < 0 {
		fmt.Fprintf(os.Stderr, "natsjobs: -payload is at least %d, -rate at least 0, all other numbers at least 1\n", numberBytes)
		os.Exit(2)
	}
	r, err := l.measure(context.Background())
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(r)
	}
	if err == nil && (r.Lost != 0 || r.Duplicated != 0) {
		err = fmt.Errorf("%d jobs were lost and %d done twice", r.Lost, r.Duplicated)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "natsjobs:", err)
		os.Exit(1)
	}
}

// numberBytes of a payload are the job's number.
const numberBytes = 8

const (
	streamName = "BENCH"
	subject    = "bench.jobs"
	// readyMost is how long servers may take to find a leader.
	readyMost = 30 * time.Second
	// callMost bounds one confirmed acknowledgement.
	callMost = 30 * time.Second
)

// job is when it was due, when its publication was confirmed and when its end was, in
// nanoseconds from the start; 0 for not yet.
type job struct{ due, accepted, done atomic.Int64 }

// book is what became of all jobs.
type book struct {
	begin                            time.Time
	jobs                             []job
	completed, twice, reruns, errors atomic.Int64
	lastAccepted, lastDone           atomic.Int64
}

func (b *book) now() int64 { return int64(time.Since(b.begin)) }

// report has the names that `rota bench jobs` gives its figures.
type report struct {
	Jobs          int     `json:"jobs"`
	Seconds       float64 `json:"seconds"`
	SubmitSeconds float64 `json:"submit_seconds"`
	JobsPerS      float64 `json:"jobs_per_s"`
	E2EP50Ms      float64 `json:"e2e_p50_ms"`
	E2EP99Ms      float64 `json:"e2e_p99_ms"`
	E2EMaxMs      float64 `json:"e2e_max_ms"`
	SubmitP50Ms   float64 `json:"submit_p50_ms"`
	SubmitP99Ms   float64 `json:"submit_p99_ms"`
	ProcessCPUUs  float64 `json:"process_cpu_us_per_job"`
	Accepted      int64   `json:"accepted"`
	Completed     int64   `json:"completed"`
	Reruns        int64   `json:"reruns"`
	Lost          int64   `json:"lost"`
	Duplicated    int64   `json:"duplicated"`
	Errors        int64   `json:"errors"`
}

// measure makes a work queue, empties it and tells how that went.
func (l *load) measure(ctx context.Context) (report, error) {
	b := &book{jobs: make([]job, l.jobs)}
	submitter, js, err := l.connect()
	if err != nil {
		return report{}, err
	}
	defer submitter.Close()
	consumer, err := l.queue(ctx, js)
	if err != nil {
		return report{}, err
	}
	stop, err := l.hire(ctx, b, consumer.CachedInfo().Name)
	if err != nil {
		return report{}, err
	}
	defer stop()
	cpu := processCPU()
	b.begin = time.Now()
	if err := l.submit(ctx, b, js); err != nil {
		return report{}, err
	}
	b.await(l.patience)
	stop()
	r := b.report(processCPU() - cpu)
	return r, js.DeleteStream(ctx, streamName)
}

func (l *load) connect() (*nats.Conn, jetstream.JetStream, error) {
	var urls []string
	for _, one := range strings.Split(l.addr, ",") {
		urls = append(urls, "nats://"+one)
	}
	conn, err := nats.Connect(strings.Join(urls, ","), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(2*l.producers*l.batch))
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, js, nil
}

// queue makes the work queue anew, and the consumer that all workers share.
func (l *load) queue(ctx context.Context, js jetstream.JetStream) (jetstream.Consumer, error) {
	begin := time.Now()
	for {
		consumer, err := l.tryQueue(ctx, js)
		if err == nil || time.Since(begin) > readyMost {
			return consumer, err
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func (l *load) tryQueue(ctx context.Context, js jetstream.JetStream) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := js.DeleteStream(ctx, streamName); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, err
	}
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: streamName, Subjects: []string{subject},
		Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage, Replicas: l.replicas})
	if err != nil {
		return nil, err
	}
	return stream.CreateConsumer(ctx, jetstream.ConsumerConfig{Durable: "workers", AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: time.Minute, MaxAckPending: 4 * l.workers * l.slots})
}

// hire starts the workers; stop ends them.
func (l *load) hire(ctx context.Context, b *book, consumer string) (stop func(), err error) {
	var ends []func()
	stop = sync.OnceFunc(func() {
		for _, end := range ends {
			end()
		}
	})
	for range l.workers {
		conn, js, err := l.connect()
		if err != nil {
			stop()
			return nil, err
		}
		c, err := js.Consumer(ctx, streamName, consumer)
		if err != nil {
			conn.Close()
			stop()
			return nil, err
		}
		messages, err := c.Messages(jetstream.PullMaxMessages(2 * l.slots))
		if err != nil {
			conn.Close()
			stop()
			return nil, err
		}
		var working sync.WaitGroup
		working.Go(func() { l.work(b, messages, &working) })
		ends = append(ends, func() {
			messages.Stop()
			working.Wait()
			conn.Close()
		})
	}
	return stop, nil
}

// work takes messages until there are no more; each is one job in a slot.
func (l *load) work(b *book, messages jetstream.MessagesContext, working *sync.WaitGroup) {
	slots := make(chan struct{}, l.slots)
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
			b.end(m)
		})
	}
}

// end acknowledges a job and waits until that is confirmed.
func (b *book) end(m jetstream.Msg) {
	ctx, cancel := context.WithTimeout(context.Background(), callMost)
	defer cancel()
	if meta, err := m.Metadata(); err == nil && meta.NumDelivered > 1 {
		b.reruns.Add(1)
	}
	if err := m.DoubleAck(ctx); err != nil {
		b.errors.Add(1) // it comes again
		return
	}
	now, i := b.now(), binary.BigEndian.Uint64(m.Data())
	if i >= uint64(len(b.jobs)) {
		b.errors.Add(1)
		return
	}
	if !b.jobs[i].done.CompareAndSwap(0, now) {
		b.twice.Add(1)
		return
	}
	b.lastDone.Store(now)
	b.completed.Add(1)
}

// submit publishes all jobs and returns when each is confirmed. As with rota's bench each
// producer has one batch in flight; at a rate a batch is what is due.
func (l *load) submit(ctx context.Context, b *book, js jetstream.JetStream) error {
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
	for p := range l.producers {
		group.Go(func() {
			for {
				from, to := take()
				if from == to {
					return
				}
				if errs[p] = l.publish(ctx, b, js, from, to); errs[p] != nil {
					return
				}
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// publish sends jobs from…to−1 and waits for their confirmations.
func (l *load) publish(ctx context.Context, b *book, js jetstream.JetStream, from, to int) error {
	confirmed := make([]jetstream.PubAckFuture, 0, to-from)
	for i := from; i < to; i++ {
		payload := make([]byte, l.payload)
		binary.BigEndian.PutUint64(payload, uint64(i))
		future, err := js.PublishMsgAsync(&nats.Msg{Subject: subject, Data: payload})
		if err != nil {
			return err
		}
		confirmed = append(confirmed, future)
	}
	for k, future := range confirmed {
		select {
		case <-future.Ok():
			now := b.now()
			b.jobs[from+k].accepted.Store(now)
			b.lastAccepted.Store(now)
		case err := <-future.Err():
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// await returns when all are done, or nothing was heard for so long.
func (b *book) await(patience time.Duration) {
	for last, since := int64(-1), time.Now(); int(b.completed.Load()) < len(b.jobs); time.Sleep(time.Millisecond) {
		if n := b.completed.Load(); n != last {
			last, since = n, time.Now()
		}
		if time.Since(since) > patience {
			return
		}
	}
}

func (b *book) report(cpu time.Duration) report {
	r := report{Jobs: len(b.jobs), Completed: b.completed.Load(), Duplicated: b.twice.Load(), Reruns: b.reruns.Load(),
		Errors: b.errors.Load(), Seconds: seconds(b.lastDone.Load()), SubmitSeconds: seconds(b.lastAccepted.Load())}
	var submits, ends []int64
	for i := range b.jobs {
		j := &b.jobs[i]
		if at := j.accepted.Load(); at > 0 {
			r.Accepted++
			submits = append(submits, at-j.due.Load())
		}
		if at := j.done.Load(); at > 0 {
			ends = append(ends, at-j.due.Load())
		}
	}
	r.Lost = r.Accepted - r.Completed
	r.JobsPerS = float64(r.Completed) / r.Seconds
	r.ProcessCPUUs = float64(cpu.Microseconds()) / float64(max(r.Completed, 1))
	r.SubmitP50Ms, r.SubmitP99Ms = at(submits, 50), at(submits, 99)
	r.E2EP50Ms, r.E2EP99Ms, r.E2EMaxMs = at(ends, 50), at(ends, 99), at(ends, 100)
	return r
}

func seconds(ns int64) float64 { return time.Duration(ns).Seconds() }

// at is a percentile in milliseconds; 0 of none.
func at(all []int64, percent int) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return float64(all[min(len(all)-1, len(all)*percent/100)]) / 1e6
}

// processCPU is the CPU time, user and system, of this process so far.
func processCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
