package loadgen

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// Patience is how long there may be no progress before open jobs count as lost: longer than a lease of the standard
// preset and a failover together.
const Patience = 3 * time.Minute

// Load is one measurement: its workers, its jobs and their schedule.
type Load struct {
	// Kind is the beginning of the run's name.
	Kind    string
	Jobs    int
	Workers Workers
	// At returns when job i is due, from the start, and never decreases: the loop is open. Without it every producer
	// has one batch in flight.
	At   func(i int) time.Duration
	Spec func(i int, id rota.JobID) rota.JobSpec
	// Producers and Batch bound the calls in flight and the jobs in one.
	Producers, Batch int
	// Drop gives up refused jobs; with Heedless it ignores delays that the cluster asked for.
	Drop, Heedless bool
	// Patience ends the wait for jobs without any progress.
	Patience time.Duration
	// Admins are the admin ports of the servers whose CPU time counts; Profile is a file for a CPU profile of this
	// process.
	Admins  []string
	Profile string
	// Meanwhile, if not nil, runs in parallel with the submitters.
	Meanwhile func(ctx context.Context, l *Ledger) error
}

// run is a load being measured.
type run struct {
	lab      *Lab
	ledger   *Ledger
	patience time.Duration

	submitted time.Duration
	meter     cpuMeter
	cpu       cpuSpent
	unseen    int64
	lost      int64
}

// Run measures a load: it returns when the cluster is through with all jobs, or the rest is lost.
func (l *Lab) Run(ctx context.Context, load Load) (*Report, *Ledger, error) {
	name := newRun(load.Kind)
	ledger := newLedger(name, load.Jobs)
	pool, err := l.start(ctx, name, load.Workers, ledger)
	if err != nil {
		return nil, nil, err
	}
	defer pool.stop()
	to := l.Client
	if load.Heedless {
		if to, err = l.Dial(l.Addrs, client.WithoutRestraint()); err != nil {
			return nil, nil, err
		}
		defer func() { _ = to.Close() }()
	}
	r := &run{lab: l, ledger: ledger, patience: load.Patience, meter: cpuMeter{admins: load.Admins, tls: l.AdminTLS}}
	p := &producers{to: to, ledger: ledger, count: load.Producers, batch: load.Batch, drop: load.Drop, at: load.At,
		spec: func(i int) rota.JobSpec { return load.Spec(i, ledger.id(i)) }}
	// Reading the servers' metrics takes a while: do it before the schedule begins.
	before, err := r.meter.read(ctx)
	if err != nil {
		return nil, nil, err
	}
	stop, err := profileCPU(load.Profile)
	if err != nil {
		return nil, nil, err
	}
	ledger.begin = time.Now()
	hide := l.Watch(load.Kind, int64(load.Jobs), ledger.Completed)
	group, inner := errgroup.WithContext(ctx)
	group.Go(func() error { return r.measure(inner, p, before) })
	if load.Meanwhile != nil {
		group.Go(func() error { return load.Meanwhile(inner, ledger) })
	}
	err = group.Wait()
	hide()
	pool.stop()
	if err := errors.Join(err, stop()); err != nil {
		l.left(ledger)
		return nil, nil, err
	}
	return r.report(), ledger, nil
}

// measure submits all jobs and waits until the cluster is through with them.
func (r *run) measure(ctx context.Context, p *producers, before cpuReading) error {
	if err := p.run(ctx); err != nil {
		return err
	}
	r.submitted = time.Since(r.ledger.begin)
	if err := r.drain(ctx); err != nil {
		return err
	}
	r.cpu = r.meter.since(ctx, before)
	return ctx.Err()
}

const (
	// drainTick is how often the ledger is checked while the rest runs.
	drainTick = 20 * time.Millisecond
	// askAfter is the time without progress after which the cluster is asked about open jobs: askCount jobs at a time,
	// atOnce calls in flight, each bounded by maxAsk.
	askAfter = 5 * time.Second
	askCount = 1_000
	atOnce   = 16
	maxAsk   = 30 * time.Second
)

// drain waits until every accepted job is accounted for. Without progress for a while it asks the cluster; after
// r.patience the rest is lost.
func (r *run) drain(ctx context.Context) error {
	tick := time.NewTicker(drainTick)
	defer tick.Stop()
	seen, heard, asked := r.ledger.completed.Load(), time.Now(), time.Now()
	for r.ledger.completed.Load() < r.ledger.accepted.Load()-r.lost {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if n := r.ledger.completed.Load(); n != seen {
			seen, heard = n, time.Now()
			continue
		}
		if time.Since(heard) > askAfter && time.Since(asked) > askAfter {
			if err := r.ask(ctx); err != nil {
				r.lab.Talk("asking for open jobs: %v", err)
				r.ledger.errors.Add(1)
			}
			asked = time.Now()
		}
		if time.Since(heard) > r.patience {
			r.lost += int64(len(r.ledger.open(0))) - r.lost
			r.lab.Talk("gave up after %s without any completion: %d jobs are open", r.patience, r.lost)
			return nil
		}
	}
	return nil
}

// ask asks the cluster about jobs that are open in the ledger.
func (r *run) ask(ctx context.Context) error {
	var group errgroup.Group
	group.SetLimit(atOnce)
	open := r.ledger.open(askCount)
	gone := make([]bool, len(open))
	unseen := make([]bool, len(open))
	for k, i := range open {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, maxAsk)
			defer cancel()
			job, err := r.lab.Client.Job(ctx, r.ledger.id(i))
			switch {
			case rota.KindOf(err) == rota.KindNotFound:
				gone[k] = true
				return nil
			case err != nil:
				return err
			}
			gone[k] = job.State.Terminal() && job.State != rota.JobCompleted
			unseen[k] = job.State == rota.JobCompleted
			return nil
		})
	}
	err := group.Wait()
	r.lost = 0
	for k, i := range open {
		if gone[k] {
			r.lost++
		}
		if unseen[k] && r.ledger.settle(i) {
			r.unseen++
		}
	}
	return err
}
