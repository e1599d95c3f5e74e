package client_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// The same id is the same job: a repeated submission finds it.
func ExampleClient_Submit() {
	c, ctx, done := connect("submit")
	defer done()
	job := rota.NewJobSpec("resize", []byte(`{"width":640}`))
	job.ID, job.Queue = "photo-4711", "submit"
	for range 2 {
		out, err := c.Submit(ctx, job)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(out[0].ID, out[0].State, out[0].Existed)
	}
	// Output:
	// photo-4711 QUEUED false
	// photo-4711 QUEUED true
}

// Refused jobs are reported by an error that holds each refusal; the other jobs are accepted.
func ExampleRefusedError() {
	c, ctx, done := connect()
	defer done()
	good, bad := rota.NewJobSpec("resize", nil), rota.NewJobSpec("resize", nil)
	good.ID, bad.ID, bad.Priority = "refused-good", "refused-bad", 11
	_, err := c.Submit(ctx, good, bad)
	var refused *client.RefusedError
	if errors.As(err, &refused) {
		fmt.Println(len(refused.Jobs), "of", refused.Of, "refused:", refused.Jobs[0].ID,
			errors.Is(err, rota.ErrInvalid))
	}
	// Output: 1 of 2 refused: refused-bad true
}

// A job is delayed until its time, and expires if it is not done within its TTL.
func ExampleClient_Submit_delayed() {
	c, ctx, done := connect()
	defer done()
	job := rota.NewJobSpec("remind", nil)
	job.ID, job.Delay, job.TTL = "tomorrow", 24*time.Hour, 48*time.Hour
	out, err := c.Submit(ctx, job)
	fmt.Println(out[0].State, err)
	// Output: DELAYED <nil>
}

// A loop over the jobs of a queue, newest first, reads as many pages as it needs.
func ExampleClient_Jobs() {
	c, ctx, done := connect("list")
	defer done()
	for _, id := range []rota.JobID{"list-1", "list-2", "list-3"} {
		job := rota.NewJobSpec("resize", nil)
		job.ID, job.Queue = id, "list"
		if _, err := c.Submit(ctx, job); err != nil {
			fmt.Println(err)
			return
		}
	}
	for job, err := range c.Jobs(ctx, rota.JobFilter{Queue: "list", State: rota.JobQueued}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(job.ID)
	}
	// Output:
	// list-3
	// list-2
	// list-1
}

// Dead jobs with the same error are counted together.
func ExampleClient_CountJobs() {
	c, ctx, done := connect("count")
	defer done()
	defer work(c, "count", "resize", func(_ context.Context, job *client.Job) (client.Result, error) {
		return client.Result{}, client.NoRetry(fmt.Errorf("picture %s does not exist", job.Payload()))
	})()
	for _, id := range []rota.JobID{"count-1", "count-2"} {
		job := rota.NewJobSpec("resize", []byte(id[len("count-"):]))
		job.ID, job.Queue = id, "count"
		if _, err := c.Submit(ctx, job); err != nil {
			fmt.Println(err)
			return
		}
		for _, err := range c.Wait(ctx, id) {
			if err != nil {
				fmt.Println(err)
				return
			}
		}
	}
	counted, err := c.CountJobs(ctx, rota.JobFilter{Where: "queue=count state=DEAD", GroupBy: "fingerprint"})
	fmt.Println(counted.Count, len(counted.Groups), counted.Groups[0].Error, counted.Complete, err)
	// Output: 2 1 picture 2 does not exist true <nil>
}

// A read sees every earlier change; a stale read may lag behind and does not ask the leader.
func ExampleClient_Job() {
	c, ctx, done := connect()
	defer done()
	job := rota.NewJobSpec("resize", nil)
	job.ID = "read-1"
	out, err := c.Submit(ctx, job)
	if err != nil {
		fmt.Println(err)
		return
	}
	var at rota.ReadAt
	read, err := c.Job(ctx, "read-1", client.AtLeast(out[0].Index), client.Seen(&at))
	fmt.Println(read.State, at.Index >= out[0].Index, err)
	_, err = c.Job(ctx, "read-2", client.Stale())
	fmt.Println(errors.Is(err, rota.ErrNotFound))
	// Output:
	// QUEUED true <nil>
	// true
}

// The events of a job show its life in the order in which it happened.
func ExampleClient_Events() {
	c, ctx, done := connect()
	defer done()
	job := rota.NewJobSpec("resize", nil)
	job.ID = "told"
	if _, err := c.Submit(ctx, job); err != nil {
		fmt.Println(err)
		return
	}
	if _, err := c.Cancel(ctx, "told"); err != nil {
		fmt.Println(err)
		return
	}
	for e, err := range c.Events(ctx, rota.EventFilter{Job: "told"}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(e.Kind, e.Job)
	}
	// Output:
	// jobEnqueued told
	// jobCancelled told
}

// Collect makes a slice of a listing.
func ExampleCollect() {
	c, ctx, done := connect()
	defer done()
	if _, err := c.SetQueue(ctx, "collected", "", nil); err != nil {
		fmt.Println(err)
		return
	}
	queues, err := client.Collect(c.Queues(ctx))
	fmt.Println(len(queues) > 0, err)
	// Output: true <nil>
}

// Why returns the reasons why a job waits.
func ExampleClient_Why() {
	c, ctx, done := connect("nobody-serves-it")
	defer done()
	job := rota.NewJobSpec("resize", nil)
	job.ID, job.Queue = "stuck", "nobody-serves-it"
	if _, err := c.Submit(ctx, job); err != nil {
		fmt.Println(err)
		return
	}
	x, err := c.Why(ctx, "stuck")
	fmt.Println(x.State, err)
	// Output: QUEUED <nil>
}

// A pending job can be changed.
func ExampleClient_ChangeJob() {
	c, ctx, done := connect()
	defer done()
	job := rota.NewJobSpec("resize", nil)
	job.ID = "changed"
	if _, err := c.Submit(ctx, job); err != nil {
		fmt.Println(err)
		return
	}
	urgent := int32(0)
	if _, err := c.ChangeJob(ctx, rota.JobChange{ID: "changed", Priority: &urgent}); err != nil {
		fmt.Println(err)
		return
	}
	changed, err := c.Job(ctx, "changed")
	fmt.Println(changed.Priority, err)
	// Output: 0 <nil>
}

// Retrying a cancelled job queues it again.
func ExampleClient_Retry() {
	c, ctx, done := connect()
	defer done()
	job := rota.NewJobSpec("resize", nil)
	job.ID = "again"
	if _, err := c.Submit(ctx, job); err != nil {
		fmt.Println(err)
		return
	}
	for _, call := range []func(context.Context, ...rota.JobID) ([]rota.JobOutcome, error){c.Cancel, c.Retry} {
		out, err := call(ctx, "again")
		fmt.Println(out[0].State, out[0].Err, err)
	}
	// Output:
	// CANCELLED <nil> <nil>
	// QUEUED <nil> <nil>
}

// A queue has a policy: a preset, and keys that differ from it.
func ExampleClient_SetQueue() {
	c, ctx, done := connect()
	defer done()
	q, err := c.SetQueue(ctx, "images", "", []rota.Setting{{Key: "attempt_max", Value: "3"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(q.Name)
	_, err = c.SetQueue(ctx, "images", "", []rota.Setting{{Key: "atempt_max", Value: "3"}})
	fmt.Println(errors.Is(err, rota.ErrInvalid))
	// Output:
	// images
	// true
}

// A call ends with its context, and its error wraps the context's error.
func ExampleDial() {
	c, err := client.Dial([]string{"127.0.0.1:1"}) // nothing listens there
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, err = c.Job(ctx, "photo-4711")
	fmt.Println(errors.Is(err, rota.ErrUnavailable), errors.Is(err, context.DeadlineExceeded))
	// Output: true true
}

// A report is created once all parts of an import have ended, in whatever state.
func ExampleBatches() {
	c, ctx, done := connect()
	defer done()
	batches := client.BatchesOf(c)
	batch, err := batches.Open(ctx, rota.BatchSpec{ID: "import-7", Callback: rota.NewJobSpec("report", nil)})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range 2 {
		part := rota.NewJobSpec("import", nil)
		part.ID, part.Batch = rota.JobID(fmt.Sprint("part-", i)), batch.ID
		if _, err := c.Submit(ctx, part); err != nil {
			fmt.Println(err)
			return
		}
		if _, err := c.Cancel(ctx, part.ID); err != nil { // no worker imports here
			fmt.Println(err)
			return
		}
	}
	if _, err := batches.Seal(ctx, batch.ID); err != nil {
		fmt.Println(err)
		return
	}
	batch, err = batches.Wait(ctx, batch.ID)
	fmt.Println(batch.State, batch.Total, batch.Cancelled, batch.Callback, err)
	// Output: FINISHED 2 2 import-7@done <nil>
}

// A job runs each night, even when its hour is skipped by daylight saving time.
func ExampleSchedules_Set() {
	c, ctx, done := connect()
	defer done()
	nightly := rota.NewScheduleSpec("nightly", rota.NewJobSpec("report", nil))
	nightly.Cron, nightly.TZ = "30 2 * * *", "Europe/Berlin"
	s, err := c.Schedules().Set(ctx, nightly)
	fmt.Println(s.Name, s.State, s.Cron, err)
	// Output: nightly ACTIVE 30 2 * * * <nil>
}

// All dead mails of one team run again; Preview first returns how many there are.
func ExamplePlans_Start() {
	c, ctx, done := connect()
	defer done()
	again := rota.PlanSpec{ID: "mend-mails", Verb: rota.PlanRetry, Filter: "state=DEAD type=mail label.team=film"}
	plans := client.PlansOf(c)
	would, err := plans.Preview(ctx, again)
	fmt.Println(would.Count, would.Complete, err)
	if _, err := plans.Start(ctx, again); err != nil {
		fmt.Println(err)
		return
	}
	p, err := plans.Wait(ctx, again.ID)
	fmt.Println(p.State, p.Done, p.Refused, err)
	// Output:
	// 0 true <nil>
	// DONE 0 0 <nil>
}
