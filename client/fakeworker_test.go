package client

import (
	"context"
	"crypto/sha256"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// runningWorker is a welcomed worker in Run.
type runningWorker struct {
	*Worker
	cancel context.CancelFunc
	result chan error
}

func (f *fakeCluster) worker(spec rota.WorkerSpec, h Handler, opts ...WorkerOption) *runningWorker {
	f.t.Helper()
	if spec.Slots == 0 {
		spec.Slots = 1
	}
	spec.Queues = []rota.QueueName{"default"}
	start := time.Now()
	opts = append(opts, WithClock(func() time.Duration { return time.Since(start) + time.Hour }))
	w, err := NewWorker(f.client, spec, opts...)
	if err != nil {
		f.t.Fatal(err)
	}
	if h != nil {
		w.Handle("", h)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &runningWorker{w, cancel, make(chan error, 1)}
	go func() { r.result <- w.Run(ctx) }()
	return r
}

// stopped waits for Run to return nil, answering the commands that it still sends.
func (r *runningWorker) stopped(t *testing.T, s *fakeStream) {
	t.Helper()
	r.cancel()
	for {
		select {
		case b := <-s.commands:
			s.answer(b, peer.LeaseAnswer{})
		case err := <-r.result:
			if err != nil {
				t.Fatalf("Run returned %v", err)
			}
			return
		case <-time.After(time.Minute):
			t.Fatal("Run does not return")
		}
	}
}

// leaseOf makes a lease of 60 s that started at clock 100 s.
func leaseOf(job rota.JobID) *rota.Assignment {
	spec := rota.NewJobSpec("work", []byte("payload of "+job))
	spec.ID, spec.Tenant = job, rota.DefaultTenant
	return &rota.Assignment{
		Lease: rota.Lease{
			ID: sha256.Sum256([]byte(job)), Job: job, Token: rota.Token{Incarnation: 1, Counter: 7},
			State:   rota.LeaseActive,
			Started: rota.Moment{Clock: 100_000}, AckBy: rota.Moment{Clock: 105_000},
			RenewBy: rota.Moment{Clock: 136_000}, Deadline: rota.Moment{Clock: 160_000},
		},
		Spec: spec, RenewEvery: 36 * time.Second, LeaseFor: time.Minute, RenewalsMax: -1,
	}
}

// script is a handler whose runs the test ends.
type script struct {
	started chan *scripted
}

type scripted struct {
	job  *Job
	ctx  context.Context
	done chan error
}

func newScript() *script { return &script{make(chan *scripted, 100)} }

func (s *script) handle(ctx context.Context, job *Job) (Result, error) {
	run := &scripted{job, ctx, make(chan error, 1)}
	s.started <- run
	err := <-run.done
	return Result{Output: []byte("out")}, err
}

func (s *script) none(t *testing.T) {
	t.Helper()
	synctest.Wait()
	select {
	case r := <-s.started:
		t.Fatalf("the handler of %s started", r.job.ID())
	default:
	}
}

var errBoom = errors.New("boom")
