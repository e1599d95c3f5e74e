package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// run submits one job to a queue and returns it once it has ended.
func run(ctx context.Context, c *client.Client, queue rota.QueueName, payload string) rota.Job {
	job := rota.NewJobSpec("resize", []byte(payload))
	job.ID, job.Queue = rota.JobID("job-of-"+queue), queue
	if _, err := c.Submit(ctx, job); err != nil {
		return rota.Job{Error: err.Error()}
	}
	for ended, err := range c.Wait(ctx, job.ID) {
		if err != nil {
			return rota.Job{Error: err.Error()}
		}
		return ended
	}
	return rota.Job{}
}

// Producers and workers share a definition: both use the Go types of the payload and the output.
func ExampleDefine() {
	type photo struct {
		Width int `json:"width"`
	}
	var resize = client.Define[photo, string]("resize", client.Queue("typed"), client.MaxRuntime(2*time.Minute))

	c, ctx, done := connect("typed")
	defer done()
	w, err := client.NewWorker(c, rota.WorkerSpec{Queues: []rota.QueueName{"typed"}, Slots: 8})
	if err != nil {
		fmt.Println(err)
		return
	}
	resize.Handle(w, func(_ context.Context, _ *client.Job, in photo) (string, error) {
		if in.Width <= 0 {
			return "", client.NoRetry(fmt.Errorf("width must be at least 1, got %d", in.Width))
		}
		return fmt.Sprintf("resized to %d", in.Width), nil
	})
	defer start(w)()

	h, err := resize.Submit(ctx, c, photo{640}, client.ID("typed-4711"), client.Labels{"team": "web"})
	if err != nil { // a refused job is an error
		fmt.Println(err)
		return
	}
	fmt.Println(h.Wait(ctx))

	h, err = resize.Submit(ctx, c, photo{-1}, client.ID("typed-4712"))
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = h.Wait(ctx)
	var failed *client.JobError
	fmt.Println(errors.As(err, &failed), failed.Job.State, failed.Job.Error)
	// Output:
	// resized to 640 <nil>
	// true DEAD width must be at least 1, got -1
}

// Jobs of several definitions are submitted together; a handle is made from an id.
func ExampleDefinition_Job() {
	c, ctx, done := connect("several")
	defer done()
	resize := client.Define[int, string]("resize", client.Queue("several"))
	mail := client.Define[string, struct{}]("mail", client.Queue("several"), client.Key("user", "ann"))
	small, err := resize.Job(640, client.ID("several-1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	hello, err := mail.Job("hello", client.ID("several-2"), client.After(time.Hour))
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := c.Submit(ctx, small, hello)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(out[0].State, out[1].State)
	fmt.Println(resize.Of(c, out[0].ID).Cancel(ctx))
	_, err = resize.Of(c, "several-1").Wait(ctx)
	fmt.Println(err)
	// Output:
	// QUEUED DELAYED
	// <nil>
	// job several-1 is CANCELLED
}

// Middleware wraps all handlers of a worker.
func ExampleUse() {
	c, ctx, done := connect("wrapped")
	defer done()
	timed := func(next client.Handler) client.Handler {
		return func(ctx context.Context, job *client.Job) (client.Result, error) {
			began := time.Now()
			result, err := next(ctx, job)
			client.Log(ctx).Info("done", "took", time.Since(began), "err", err) // kept as the attempt's log
			return result, err
		}
	}
	w, err := client.NewWorker(c, rota.WorkerSpec{Queues: []rota.QueueName{"wrapped"}, Slots: 1}, client.Use(timed))
	if err != nil {
		fmt.Println(err)
		return
	}
	w.Handle("resize", func(context.Context, *client.Job) (client.Result, error) { return client.Result{}, nil })
	defer start(w)()
	ended := run(ctx, c, "wrapped", "")
	log, err := client.JobLog(ctx, c, rota.LogOf{Job: ended.ID})
	fmt.Println(ended.State, len(log.Parts), strings.Contains(string(log.Parts[0].Text), "msg=done"), err)
	// Output: COMPLETED 1 true <nil>
}

// Wait returns each job as it ends.
func ExampleClient_Wait() {
	c, ctx, done := connect("wait")
	defer done()
	defer work(c, "wait", "resize", func(context.Context, *client.Job) (client.Result, error) {
		return client.Result{Output: []byte("done")}, nil
	})()
	job := rota.NewJobSpec("resize", nil)
	job.Queue = "wait"
	out, err := c.Submit(ctx, job)
	if err != nil {
		fmt.Println(err)
		return
	}
	for ended, err := range c.Wait(ctx, out[0].ID) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(ended.State, string(ended.Output))
	}
	// Output: COMPLETED done
}

// An error that another attempt would not fix ends the job.
func ExampleNoRetry() {
	c, ctx, done := connect("hopeless")
	defer done()
	defer work(c, "hopeless", "resize", func(context.Context, *client.Job) (client.Result, error) {
		return client.Result{}, client.NoRetry(errors.New("this is not a picture"))
	})()
	ended := run(ctx, c, "hopeless", "")
	fmt.Println(ended.State, len(ended.Attempts), ended.Error)
	// Output: DEAD 1 this is not a picture
}

// A handler whose job needs something else to happen first snoozes its attempt.
func ExampleSnooze() {
	c, ctx, done := connect("early")
	defer done()
	var printed atomic.Bool
	defer work(c, "early", "resize", func(context.Context, *client.Job) (client.Result, error) {
		if !printed.Swap(true) {
			return client.Result{}, client.Snooze(10 * time.Millisecond)
		}
		return client.Result{Output: []byte("sent")}, nil
	})()
	ended := run(ctx, c, "early", "")
	fmt.Println(ended.State, ended.Attempt, ended.Attempts[0].End)
	// Output: COMPLETED 0 SNOOZED
}

// A service that returns when to try again sets the delay of the next attempt.
func ExampleRetryAfter() {
	c, ctx, done := connect("busy")
	defer done()
	var asked atomic.Bool
	defer work(c, "busy", "resize", func(context.Context, *client.Job) (client.Result, error) {
		if !asked.Swap(true) {
			return client.Result{}, client.RetryAfter(10*time.Millisecond, errors.New("429 Too Many Requests"))
		}
		return client.Result{Output: []byte("sent")}, nil
	})()
	ended := run(ctx, c, "busy", "")
	fmt.Println(ended.State, ended.Attempt, ended.Attempts[0].Error)
	// Output: COMPLETED 1 429 Too Many Requests
}

// An attempt's token is larger than all earlier ones: pass it to other systems, so that they can reject an older
// attempt that wakes up late.
func ExampleJob_Token() {
	c, ctx, done := connect("fenced")
	defer done()
	var written rota.Token
	defer work(c, "fenced", "resize", func(_ context.Context, job *client.Job) (client.Result, error) {
		written = job.Token()
		return client.Result{}, nil
	})()
	ended := run(ctx, c, "fenced", "")
	fmt.Println(written == ended.Attempts[0].Token, written.IsZero())
	// Output: true false
}
