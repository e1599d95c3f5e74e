package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/limits"
)

// puppet is a worker of the client library whose handlers wait for the test's instruction on each job.
type puppet struct {
	t     testing.TB
	id    rota.WorkerID
	taken chan *client.Job
	leave func() // ends the worker; handlers that still wait return their jobs

	mu sync.Mutex
	// turns are the last leases of the jobs; reported are all, by lease: the next lease of a job may begin before the
	// report of the previous one was confirmed.
	turns    map[rota.JobID]turn
	reported map[rota.LeaseID]chan error
}

// turn is one lease of a job: the value for its handler to return, and the cluster's answer to it.
type turn struct{ word, reported chan error }

// puppet registers a worker of a queue and waits until it is connected.
func (c *nodes) puppet(t testing.TB, id string, queue rota.QueueName, slots int32, change ...any) *puppet {
	t.Helper()
	p := &puppet{t: t, id: rota.WorkerID(id), taken: make(chan *client.Job, 1000), turns: make(map[rota.JobID]turn),
		reported: make(map[rota.LeaseID]chan error)}
	spec := rota.WorkerSpec{ID: p.id, Queues: []rota.QueueName{queue}, Slots: slots}
	connected := make(chan struct{}, 16)
	opts := []client.WorkerOption{client.WithDrainTimeout(50 * time.Millisecond), client.WithObserver(client.Observer{
		Connected: func(client.ConnectionEvent) { connected <- struct{}{} },
		Reported:  func(e client.HandlerEvent) { p.told(e.Lease, e.Err) },
	})}
	for _, one := range change {
		switch f := one.(type) {
		case func(*rota.WorkerSpec):
			f(&spec)
		case client.WorkerOption:
			opts = append(opts, f)
		default:
			t.Fatalf("a puppet is not a %T", one)
		}
	}
	w, err := client.NewWorker(c.dial(t), spec, opts...)
	check(t, err)
	w.Handle("", client.Define[struct{}, struct{}]("").Handler(p.perform))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = w.Run(ctx) }()
	p.leave = func() { cancel(); <-ended }
	t.Cleanup(p.leave)
	select {
	case <-connected:
	case <-time.After(30 * time.Second):
		t.Fatalf("worker %s is not connected", id)
	}
	return p
}

// perform is the handler: it passes the job to the test and follows its instruction.
func (p *puppet) perform(ctx context.Context, job *client.Job, _ struct{}) (struct{}, error) {
	own := turn{make(chan error, 1), make(chan error, 1)}
	p.mu.Lock()
	p.turns[job.ID()], p.reported[job.Lease()] = own, own.reported
	p.mu.Unlock()
	p.taken <- job
	select {
	case err := <-own.word:
		return struct{}{}, err
	case <-ctx.Done():
		return struct{}{}, context.Cause(ctx)
	}
}

func (p *puppet) told(lease rota.LeaseID, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if to := p.reported[lease]; to != nil {
		select {
		case to <- err:
		default:
		}
	}
}

// takes returns the next job that was assigned to the worker.
func (p *puppet) takes() *client.Job {
	p.t.Helper()
	select {
	case job := <-p.taken:
		return job
	case <-time.After(30 * time.Second):
		p.t.Fatalf("worker %s receives no job", p.id)
		return nil
	}
}

// serves requires the next job to be this one.
func (p *puppet) serves(id rota.JobID) *client.Job {
	p.t.Helper()
	job := p.takes()
	if job.ID() != id {
		p.t.Fatalf("worker %s receives job %s, want %s", p.id, job.ID(), id)
	}
	return job
}

// ends makes the handler of a job return, and waits until the cluster accepted the report.
func (p *puppet) ends(id rota.JobID, outcome error) {
	p.t.Helper()
	check(p.t, p.answered(id, outcome))
}

// answered makes the handler of a job return, and returns the cluster's answer.
func (p *puppet) answered(id rota.JobID, outcome error) error {
	p.t.Helper()
	p.mu.Lock()
	own, known := p.turns[id]
	p.mu.Unlock()
	if !known {
		p.t.Fatalf("worker %s has no job %s", p.id, id)
	}
	own.word <- outcome
	select {
	case err := <-own.reported:
		return err
	case <-time.After(30 * time.Second):
		p.t.Fatalf("the end of job %s at worker %s is not accepted", id, p.id)
		return nil
	}
}

// policyQueue makes a queue of a preset with some keys changed.
func (c *nodes) policyQueue(t testing.TB, name, preset string, pairs ...string) rota.QueueName {
	t.Helper()
	args := []string{"queue", "set", name, "--preset", preset}
	for _, pair := range pairs {
		args = append(args, "--set", pair)
	}
	c.rota(t, args...).want(t, 0)
	return rota.QueueName(name)
}

// within returns a context with the time limit for a call of the client library.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// policyJob returns a job of a queue.
func policyJob(id string, queue rota.QueueName, change ...func(*rota.JobSpec)) rota.JobSpec {
	s := rota.NewJobSpec("work", nil)
	s.ID, s.Queue = rota.JobID(id), queue
	for _, f := range change {
		f(&s)
	}
	return s
}

// submitAll submits jobs in one call, each of which must be accepted.
func submitAll(t testing.TB, cl *client.Client, jobs ...rota.JobSpec) []rota.Submitted {
	t.Helper()
	var all []rota.Submitted
	for part := range slices.Chunk(jobs, limits.MaxBatchJobs) {
		outcomes, err := cl.Submit(within(t), part...)
		check(t, err)
		all = append(all, outcomes...)
	}
	return all
}

// jobOf reads the current state of a job.
func jobOf(t testing.TB, cl *client.Client, id rota.JobID) rota.Job {
	t.Helper()
	job, err := cl.Job(within(t), id)
	check(t, err)
	return job
}

// clockAt returns the cluster clock after the entry at an index, and the explanation of a job at that point.
func clockAt(t testing.TB, cl *client.Client, id rota.JobID, index rota.Index) rota.Explanation {
	t.Helper()
	x, err := cl.WhyAt(within(t), id, rota.WhyQuery{At: index})
	check(t, err)
	if x.Index != index {
		t.Fatalf("job %s is explained at index %d, want %d", id, x.Index, index)
	}
	return x
}

// hashOf is H of SPEC §7.1.
func hashOf(parts ...[]byte) [sha256.Size]byte {
	var all []byte
	for _, part := range parts {
		all = binary.BigEndian.AppendUint32(all, uint32(len(part)))
		all = append(all, part...)
	}
	return sha256.Sum256(all)
}

func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// backoffOf is the delay of SPEC §9.2 after the failed attempt n, for queues whose
// numbers leave 128 bits unused.
func backoffOf(job rota.JobID, n int32, p *rota.QueuePolicy) int64 {
	v := min(p.BackoffCapMs, p.BackoffBaseMs)
	for range n {
		v = min(p.BackoffCapMs, v*p.BackoffFactorPermille/1000)
	}
	sum := hashOf([]byte("AICF|retry"), []byte(job), number(uint64(n)))
	jitter := int64(binary.BigEndian.Uint64(sum[:8])%200_001) - 100_000
	d := v * (1_000_000 + jitter) / 1_000_000
	return (d + p.BackoffUnitMs/2) / p.BackoffUnitMs * p.BackoffUnitMs
}

// weightOf is W of SPEC §5.3.
func weightOf(success, fail, expectedMs, emaMs float64) float64 {
	yield := (success + 2) / (success + fail + 4)
	ratio := 1.0
	if expectedMs > 0 {
		ratio = expectedMs / math.Max(1, emaMs)
	}
	c := math.Min(1, (success+fail)/50)
	blended := float64(c*float64(ratio*yield)) + float64((1-c)*1)
	return math.Max(0.1, math.Min(1.5, blended))
}

// scoreOf is the score of SPEC §5.3.
func scoreOf(base float64, waitMs rota.Clock, weight float64, sizeBytes int64) float64 {
	aged := float64(base * math.Min(3, 1+float64(waitMs)/1000/600))
	return float64(aged * (weight / math.Sqrt(math.Max(0.1, float64(sizeBytes)/(1<<20)))))
}

// baseOf is the base of a priority's tier (SPEC §5.0, §5.3).
func baseOf(priority int32) float64 {
	switch {
	case priority == 0:
		return 100
	case priority <= 3:
		return 10
	case priority <= 6:
		return 2
	case priority <= 8:
		return 1
	}
	return 0.5
}

// placedBy checks an adaptive decision against the formulas: the job's score at the height of the decision, to the bit.
// It returns the cluster clock there.
func placedBy(t testing.TB, cl *client.Client, id rota.JobID, attempt int, weight float64) (rota.Attempt, rota.Clock) {
	t.Helper()
	var a rota.Attempt
	var job rota.Job
	eventually(t, 20*time.Second, fmt.Sprintf("attempt %d of job %s is on record", attempt, id), func() error {
		job = jobOf(t, cl, id)
		if job.Lease != nil && int(job.Lease.Attempt) == attempt {
			a = rota.Attempt{Worker: job.Lease.Worker, Lease: job.Lease.ID, Started: job.Lease.Started,
				Decision: job.Lease.Decision}
			return nil
		}
		for _, one := range job.Attempts {
			if int(one.Number) == attempt {
				a = one
				return nil
			}
		}
		return errors.New("it is not")
	})
	then := clockAt(t, cl, id, a.Decision.Height).Clock
	size := job.SizeBytes
	if size == 0 {
		size = int64(len(job.Payload))
	}
	want := scoreOf(baseOf(job.Priority), then-job.Enqueued.Clock, weight, size)
	if got := math.Float64frombits(uint64(a.Decision.Score)); got != want {
		t.Errorf("job %s, attempt %d: score %v, want %v for weight %v after %d ms", id, attempt, got, want, weight,
			then-job.Enqueued.Clock)
	}
	return a, then
}
