package e2e

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/limits"
)

// stream is a permanent stream of jobs that are better than one job: `pending` jobs are in the queue at any time, and
// one worker runs them.
type stream struct {
	t     *testing.T
	c     *nodes
	cl    *client.Client
	queue rota.QueueName
	spec  func(id string) rota.JobSpec
	slots int

	serial  atomic.Int64
	tokens  chan struct{}
	commits atomic.Int64 // the longest call of a submitter, in ms
	leases  atomic.Int64 // granted so far
	peasant chan rota.Lease
	before  atomic.Int64 // leases granted when the peasant got its own

	stopOnce sync.Once
	stop     func()
}

const (
	streamPending = 150
	streamSlots   = 4
	streamWork    = 3 * time.Millisecond
)

// flow starts the stream's worker. Its jobs start to come with fill.
func flow(t *testing.T, c *nodes, queue rota.QueueName, spec func(id string) rota.JobSpec) *stream {
	t.Helper()
	s := &stream{t: t, c: c, cl: c.dial(t), queue: queue, spec: spec, slots: streamSlots,
		tokens: make(chan struct{}, streamPending), peasant: make(chan rota.Lease, 1)}
	w, err := client.NewWorker(s.cl, rota.WorkerSpec{ID: rota.WorkerID("w-" + string(queue)),
		Queues: []rota.QueueName{queue}, Slots: streamSlots}, client.WithDrainTimeout(time.Second))
	check(t, err)
	w.Handle("", func(_ context.Context, job *client.Job) (client.Result, error) {
		n := s.leases.Add(1)
		if job.Type() == "peasant" {
			s.before.Store(n - 1)
			s.peasant <- job.Assignment().Lease
			return client.Result{}, nil
		}
		time.Sleep(streamWork) // the work
		s.tokens <- struct{}{}
		return client.Result{}, nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	var lives sync.WaitGroup
	lives.Go(func() { _ = w.Run(ctx) })
	lives.Go(func() { s.submit(ctx) })
	s.stop = func() { s.stopOnce.Do(func() { cancel(); lives.Wait() }) }
	t.Cleanup(s.stop)
	return s
}

// fill submits the first jobs of the stream.
func (s *stream) fill() {
	s.t.Helper()
	var jobs []rota.JobSpec
	for range streamPending {
		jobs = append(jobs, s.next())
	}
	began := time.Now()
	submitAll(s.t, s.cl, jobs...)
	s.called(began)
}

func (s *stream) next() rota.JobSpec { return s.spec(fmt.Sprintf("%s-%06d", s.queue, s.serial.Add(1))) }

func (s *stream) called(began time.Time) {
	s.commits.Store(max(s.commits.Load(), time.Since(began).Milliseconds()+1))
}

// submit replaces each job that ends with a new one.
func (s *stream) submit(ctx context.Context) {
	for {
		var jobs []rota.JobSpec
		select {
		case <-s.tokens:
			jobs = append(jobs, s.next())
		case <-ctx.Done():
			return
		}
		for more := true; more; {
			select {
			case <-s.tokens:
				jobs = append(jobs, s.next())
			default:
				more = false
			}
		}
		began := time.Now()
		if _, err := s.cl.Submit(ctx, jobs...); err != nil && ctx.Err() == nil {
			s.t.Errorf("the stream's submitter: %v", err)
			return
		}
		s.called(began)
	}
}

// seen is the result of a stream's account for the one job among it.
type seen struct {
	older, precede int        // unfinished jobs older than it, and all that precede it
	overtakers     []string   // placed before it, though it precedes them
	longest        rota.Clock // lease
	delta          rota.Clock // δ of SPEC §5.5
}

// account reads all jobs of the stream. Those that were enqueued up to `window` after the job precede it.
func (s *stream) account(p rota.Job, placed, window rota.Clock) seen {
	s.t.Helper()
	interval := decode[rota.Queue](s.t, s.c.rota(s.t, "queue", "show", string(s.queue), "-o",
		"json")).Policy.DispatchIntervalMs
	a := seen{delta: rota.Clock(interval + 2*s.commits.Load())}
	for job, err := range s.cl.Jobs(within(s.t), rota.JobFilter{Queue: s.queue}) {
		check(s.t, err)
		a.take(&job, &p, placed, window)
	}
	return a
}

func (a *seen) take(j, p *rota.Job, placed, window rota.Clock) {
	if j.ID == p.ID {
		return
	}
	for _, one := range j.Attempts {
		if !one.Ended.IsZero() {
			a.longest = max(a.longest, one.Ended.Clock-one.Started.Clock)
		}
	}
	if !j.Finished.IsZero() && j.Finished.Clock <= p.Enqueued.Clock {
		return
	}
	if j.Enqueued.Clock <= p.Enqueued.Clock {
		a.older++
	}
	if j.Enqueued.Clock <= p.Enqueued.Clock+window {
		a.precede++
	} else if !j.FirstLease.IsZero() && j.FirstLease.Clock < placed {
		a.overtakers = append(a.overtakers, fmt.Sprintf("%s, enqueued %d ms later", j.ID,
			j.Enqueued.Clock-p.Enqueued.Clock))
	}
}

// first is the bound of SPEC §5.5 for `fifo`, `aging` and `market`, second the one for `adaptive`.
func (a seen) first(slots int) rota.Clock {
	return rota.Clock((a.precede+slots-1)/slots+1) * (a.longest + a.delta)
}

func (a seen) second(slots int) rota.Clock {
	return rota.Clock((20*(a.older+1)+slots-1)/slots+1) * (a.longest + a.delta)
}

// TestStarvation lets a job of the lowest priority under a permanent stream of higher ones run within the bound that
// its ranking promises (SPEC §5.5), computed from the queue's parameters and the stream; and starve beyond it where the
// turn of the oldest is off.
func TestStarvation(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	t.Run("fifo", func(t *testing.T) {
		starve(t, c, "fifo", 0, []string{"ranking=fifo"}, func(*rota.JobSpec) {})
	})
	t.Run("aging", func(t *testing.T) {
		const factor = 100
		starve(t, c, "aging", rota.MaxPriority*factor, []string{"ranking=aging",
			fmt.Sprint("aging_factor=", factor, "ms")},
			func(s *rota.JobSpec) { s.Priority = 0 })
	})
	t.Run("market", func(t *testing.T) {
		// nf = fee/(fee + fee_half), a fifth: the stream is w_fee·nf ahead, and age makes
		// up w_age/age_horizon of it in a ms.
		const fee, half, wFee, wAge, horizon = 250_000, 1_000_000, 550_000, 250_000, 1_000
		ahead := int64(wFee * (fee * 1_000_000_000 / (fee + half)) / 1_000_000)
		window := ahead*horizon/(wAge*1_000) + 1
		starve(t, c, "market", rota.Clock(window), []string{"ranking=market", "starvation_interleave=0",
			fmt.Sprint("age_horizon=", horizon, "ms")}, func(s *rota.JobSpec) { s.Fee = fee })
	})
	t.Run("adaptive", func(t *testing.T) { starveAdaptive(t, c) })
	c.verified(t, 3)
}

// starve runs a stream of one of the rankings whose order of two jobs never
// changes, alone: neither fair share nor the turn of the oldest helps.
func starve(t *testing.T, c *nodes, name string, window rota.Clock, set []string, better func(*rota.JobSpec)) {
	set = append(set, "fair_share=off", "oldest_every=0", "attempt_max=1", "renewals_max=0")
	q := c.policyQueue(t, name, "standard", set...)
	spec := func(id string) rota.JobSpec {
		return policyJob(id, q, priority(rota.MaxPriority), func(s *rota.JobSpec) { s.SizeBytes = 1 }, better)
	}
	s := flow(t, c, q, spec)
	s.fill()
	submitAll(t, s.cl, policyJob(name+"-peasant", q, priority(rota.MaxPriority), ofType("peasant"), sized(1)))
	lease := s.arrives(60 * time.Second)
	s.stop()
	p := jobOf(t, s.cl, rota.JobID(name+"-peasant"))
	a := s.account(p, lease.Started.Clock, window)
	waited, bound := lease.Started.Clock-p.Enqueued.Clock, a.first(s.slots)
	t.Logf("%s: waited %d ms behind %d jobs (%d of them older, %d placed in all before it); the bound is %d ms (L %d, delta %d)",
		name, waited, a.precede, a.older, s.before.Load(), bound, a.longest, a.delta)
	if waited > bound {
		t.Errorf("it waited %d ms, the bound is %d", waited, bound)
	}
	if len(a.overtakers) > 0 {
		t.Errorf("%d jobs were placed before it though it precedes them: %v", len(a.overtakers),
			a.overtakers[:min(5, len(a.overtakers))])
	}
	if waited < window/2 {
		t.Errorf("it waited %d ms: the stream was not dense enough", waited)
	}
}

// arrives waits until the worker receives the one job.
func (s *stream) arrives(most time.Duration) rota.Lease {
	s.t.Helper()
	select {
	case l := <-s.peasant:
		return l
	case <-time.After(most):
		s.t.Fatalf("queue %s: the job is not placed after %s, %d others were", s.queue, most, s.leases.Load())
		return rota.Lease{}
	}
}

// starveAdaptive shows the turn of the oldest, and that without it the same stream
// starves the job beyond the same bound.
func starveAdaptive(t *testing.T, c *nodes) {
	begin := func(name, every string) (*stream, rota.JobID) {
		q := c.policyQueue(t, name, "dfps", "oldest_every="+every, "attempt_max=1", "renewals_max=0", "paused=true")
		s := flow(t, c, q, func(id string) rota.JobSpec { return policyJob(id, q, priority(0)) })
		id := rota.JobID(name + "-peasant")
		submitAll(t, s.cl, policyJob(string(id), q, priority(rota.MaxPriority), ofType("peasant")))
		s.fill()
		c.rota(t, "queue", "resume", string(q)).want(t, 0)
		return s, id
	}
	s, id := begin("adaptive", "20")
	lease := s.arrives(60 * time.Second)
	s.stop()
	p := jobOf(t, s.cl, id)
	a := s.account(p, lease.Started.Clock, 0)
	resumed := s.resumed(p)
	waited, bound := lease.Started.Clock-resumed, a.second(s.slots)
	t.Logf("adaptive: waited %d ms from the queue's resumption, %d jobs placed before it; the bound is %d ms (L %d, delta %d)",
		waited, s.before.Load(), bound, a.longest, a.delta)
	if waited > bound {
		t.Errorf("it waited %d ms, the bound is %d", waited, bound)
	}
	if most := int64(20*(a.older+1) + s.slots); s.before.Load() > most {
		t.Errorf("%d leases went before it, want at most %d", s.before.Load(), most)
	}
	if lease.Decision.Reasoning.Rule != rota.ReasoningByTurnOfTheOldest {
		t.Errorf("it was placed by %+v", lease.Decision.Reasoning)
	}

	s, id = begin("adaptive-off", "0")
	p = jobOf(t, s.cl, id)
	eventually(t, 60*time.Second, "the job waits for longer than the bound", func() error {
		x, err := s.cl.Why(within(t), id)
		if err != nil {
			return err
		}
		if x.State != rota.JobQueued {
			t.Fatalf("with oldest_every=0 it is %s: the stream starves no job, and the test shows nothing", x.State)
		}
		a = s.account(p, x.Clock, 0)
		if most := int64(20*(a.older+1) + s.slots); s.leases.Load() <= most {
			return fmt.Errorf("%d leases went before it, want at most %d", s.leases.Load(), most)
		}
		if waited := x.Clock - s.resumed(p); a.longest == 0 || waited <= a.second(s.slots) {
			return fmt.Errorf("it waited %d ms, the bound is %d", waited, a.second(s.slots))
		}
		return nil
	})
	t.Logf("adaptive without the turn: QUEUED beyond %d ms, after %d leases of others", a.second(s.slots),
		s.leases.Load())
	s.stop()
}

// resumed returns when the first job of a stream was placed: the bound assumes no pause.
func (s *stream) resumed(p rota.Job) rota.Clock {
	s.t.Helper()
	first := rota.Clock(1 << 62)
	for j, err := range s.cl.Jobs(within(s.t), rota.JobFilter{Queue: s.queue, Limit: limits.MaxPage}) {
		check(s.t, err)
		if !j.FirstLease.IsZero() {
			first = min(first, j.FirstLease.Clock)
		}
	}
	return max(p.Enqueued.Clock, first)
}
