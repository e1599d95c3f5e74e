package client_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// run submits one job to a queue and returns how it ended.
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

// A typed handler takes and returns values: the payload and the output are their JSON.
func ExampleTyped() {
	c, ctx, done := connect("typed")
	defer done()
	type photo struct {
		Width int `json:"width"`
	}
	defer work(c, "typed", "resize", client.Typed(func(_ context.Context, _ *client.Job, in photo) (string, error) {
		return fmt.Sprintf("resized to %d", in.Width), nil
	}))()
	ended := run(ctx, c, "typed", `{"width":640}`)
	fmt.Println(ended.State, string(ended.Output))
	// Output: COMPLETED "resized to 640"
}

// A wait returns each job as it ends.
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

// An error that another attempt would not mend ends the job.
func ExampleNoRetry() {
	c, ctx, done := connect("hopeless")
	defer done()
	defer work(c, "hopeless", "resize", func(context.Context, *client.Job) (client.Result, error) {
		return client.Result{}, client.NoRetry(errors.New("this is no picture"))
	})()
	ended := run(ctx, c, "hopeless", "")
	fmt.Println(ended.State, len(ended.Attempts), ended.Error)
	// Output: DEAD 1 this is no picture
}

// The token of an attempt is larger than those of all before it: whoever writes elsewhere
// passes it on, so that an older attempt that wakes up late can be refused.
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
