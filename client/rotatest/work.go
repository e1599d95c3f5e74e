package rotatest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// RequireSubmitted ends the test unless a job of the definition with a matching payload was submitted, and returns the
// newest such job. The job may have ended. A nil match accepts any payload.
func RequireSubmitted[In, Out any](c *Cluster, d client.Definition[In, Out], match func(in In) bool) rota.Job {
	c.t.Helper()
	others := 0
	for job, err := range c.client.Jobs(c.ctx, rota.JobFilter{Type: d.Type()}) {
		if err != nil {
			c.t.Fatalf("rotatest: list jobs: %v", err)
		}
		whole, err := c.client.Job(c.ctx, job.ID)
		if err != nil {
			c.t.Fatalf("rotatest: read job %s: %v", job.ID, err)
		}
		matched := false
		_, err = d.Handler(func(_ context.Context, _ *client.Job, in In) (out Out, _ error) {
			matched = match == nil || match(in)
			return out, nil
		})(c.ctx, client.NewJob(rota.Assignment{Spec: whole.JobSpec}, nil))
		if matched {
			return whole
		}
		if err != nil {
			c.t.Logf("rotatest: job %s: %v", job.ID, err)
		}
		others++
	}
	c.t.Fatalf("rotatest: no job of type %s was submitted that matches; %d others were", d.Type(), others)
	return rota.Job{}
}

// workWithin is how long Work waits for a job that is due.
const workWithin = time.Minute

// Work runs the next job of the definition with a handler, as a worker with one slot would, and returns the handler's
// results once the cluster has them. They decide what happens to the job: after an error it is tried again after its
// backoff; call Advance, then Work again. Work ends the test if no job is due within a minute.
func Work[In, Out any](c *Cluster, d client.Definition[In, Out],
	handle func(ctx context.Context, job *client.Job, in In) (Out, error)) (out Out, err error) {
	c.t.Helper()
	var queues []rota.QueueName
	for q, err := range c.client.Queues(c.ctx) {
		if err != nil {
			c.t.Fatalf("rotatest: list queues: %v", err)
		}
		queues = append(queues, q.Name)
	}
	w, werr := client.NewWorker(c.client, rota.WorkerSpec{Queues: queues, Slots: 1}, c.Clock())
	if werr != nil {
		c.t.Fatalf("rotatest: %v", werr)
	}
	ctx, stop := context.WithTimeout(c.ctx, workWithin)
	defer stop()
	var taken atomic.Bool
	d.Handle(w, func(job context.Context, j *client.Job, in In) (Out, error) {
		var none Out
		if !taken.CompareAndSwap(false, true) {
			return none, client.Decline(errors.New("Work runs one job"))
		}
		defer stop()
		out, err = none, errors.New("the handler panicked")
		out, err = handle(job, j, in)
		return out, err
	})
	if werr := w.Run(ctx); werr != nil {
		c.t.Fatalf("rotatest: the worker ended: %v", werr)
	}
	if !taken.Load() {
		c.t.Fatalf("rotatest: no job of type %s was due within %s: %s", d.Type(), workWithin, waiting(c, d.Type()))
	}
	return out, err
}

// waiting lists the jobs of a type that have not ended, for an error message.
func waiting(c *Cluster, typ rota.JobType) string {
	text := ""
	for job, err := range c.client.Jobs(c.ctx, rota.JobFilter{Type: typ}) {
		if err != nil || job.State.Terminal() {
			break
		}
		text += fmt.Sprintf("%s is %s, due %s; ", job.ID, job.State, job.Due.Date)
	}
	if text == "" {
		return "there is none that has not ended"
	}
	return text + "Advance lets time pass"
}
