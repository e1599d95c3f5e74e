package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// schedulesPlan is the number of schedules that fire each minute, and the number of minutes.
type schedulesPlan struct{ n, minutes int }

// measureSchedules compares the CPU time of the servers while n schedules fire each minute with that of as many jobs
// that a client submits at the same times: the difference is the cost of schedules beyond their jobs. Both are after a
// minute in which nothing happens.
func (p *plan) measureSchedules(ctx context.Context) error {
	m, err := p.look(ctx)
	if err != nil {
		return err
	}
	var b strings.Builder
	err = p.cluster(ctx, p.rota, nil, func(s *servers) error {
		c, err := s.Dial()
		if err != nil {
			return err
		}
		defer c.Close()
		w, err := client.NewWorker(c, rota.WorkerSpec{Queues: []rota.QueueName{rota.DefaultQueue}, Slots: 256,
			Prefetch: 256})
		if err != nil {
			return err
		}
		w.Handle("dated", func(context.Context, *client.Job) (client.Result, error) { return client.Result{}, nil })
		working, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- w.Run(working) }()
		err = p.runSchedules(ctx, s, c, &b)
		stop()
		return cmp.Or(err, <-done)
	})
	if err != nil {
		return err
	}
	return p.publish("schedules", b.String()+"\n"+m.markdown())
}

func (p *plan) runSchedules(ctx context.Context, s *servers, c *client.Client, b *strings.Builder) error {
	n, minutes := p.schedules.n, p.schedules.minutes
	job := rota.NewJobSpec("dated", nil)
	idle, err := p.minutes(ctx, s, "nothing happens", 1, func(context.Context) error { return nil })
	if err != nil {
		return err
	}
	plain, err := p.minutes(ctx, s, "jobs are submitted", minutes,
		func(ctx context.Context) error { return submitAll(ctx, c, job, n) })
	if err != nil {
		return err
	}
	g, some := errgroup.WithContext(ctx)
	g.SetLimit(64)
	for i := range n {
		g.Go(func() error {
			spec := rota.NewScheduleSpec(rota.ScheduleName(fmt.Sprintf("each-minute-%d", i)), job)
			spec.Cron = "* * * * *"
			_, err := c.Schedules().Set(some, spec)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("set %d schedules: %w", n, err)
	}
	before, err := runsOf(ctx, c)
	if err != nil {
		return err
	}
	fired, err := p.minutes(ctx, s, "schedules fire", minutes, func(context.Context) error { return nil })
	if err != nil {
		return err
	}
	after, err := runsOf(ctx, c)
	if err != nil {
		return err
	}
	if got := after - before; got < uint64(n*minutes) { // a minute's beginning lies between the readings as well
		return fmt.Errorf("%d schedules ran %d jobs in %d minutes", n, got, minutes)
	}
	fmt.Fprintf(b, "| CPU of the three servers, %% of a core | %d minutes each |\n|---|---|\n", minutes)
	fmt.Fprintf(b, "| nothing happens | %.1f |\n| %d jobs a minute are submitted, in batches | %.1f |\n| %d schedules fire each minute | %.1f |\n", idle, n, plain, n, fired)
	fmt.Fprintf(b, "| schedules beyond their jobs | %+.1f |\n", fired-plain)
	return nil
}

// runsOf returns the number of runs of all schedules so far.
func runsOf(ctx context.Context, c *client.Client) (runs uint64, err error) {
	for s, err := range c.Schedules().List(ctx) {
		if err != nil {
			return 0, err
		}
		runs += s.Runs
	}
	return runs, nil
}

// minutes returns the share of a core that the servers use over some minutes, each from its half to the next one's; do
// runs as each begins.
func (p *plan) minutes(ctx context.Context, s *servers, what string, n int,
	do func(context.Context) error) (share float64, err error) {
	p.say("%s for %d minutes", what, n)
	from := time.Now().Truncate(time.Minute).Add(30 * time.Second)
	if time.Until(from) < 0 {
		from = from.Add(time.Minute)
	}
	if err := until(ctx, from); err != nil {
		return 0, err
	}
	before, err := s.cpu()
	for i := 0; i < n && err == nil; i++ {
		if err = until(ctx, from.Add(time.Duration(i)*time.Minute+30*time.Second)); err == nil {
			err = do(ctx)
		}
	}
	if err == nil {
		err = until(ctx, from.Add(time.Duration(n)*time.Minute))
	}
	if err != nil {
		return 0, err
	}
	after, err := s.cpu()
	return (after - before) / (float64(n) * 60) * 100, err
}

func until(ctx context.Context, at time.Time) error {
	select {
	case <-time.After(time.Until(at)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// submitAll submits n jobs in batches.
func submitAll(ctx context.Context, c *client.Client, job rota.JobSpec, n int) error {
	for n > 0 {
		batch := make([]rota.JobSpec, min(n, 500))
		for i := range batch {
			batch[i] = job
		}
		if _, err := c.Submit(ctx, batch...); err != nil {
			return err
		}
		n -= len(batch)
	}
	return nil
}

// cpu returns the CPU time, user and system, of all servers so far, in seconds.
func (s *servers) cpu() (sum float64, err error) {
	for _, n := range s.Nodes {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.Life().PID()))
		t, bad := timesOf(string(stat))
		if err = errors.Join(err, bad); err != nil {
			return 0, err
		}
		sum += t.ticks / ticksPerSecond
	}
	return sum, nil
}
