package client_test

import (
	"context"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

func Example() {
	c, err := client.Dial([]string{"127.0.0.1:6470", "127.0.0.2:6470"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	jobs, err := c.Submit(ctx, rota.NewJobSpec("resize", []byte(`{"width":640}`)))
	if err != nil {
		fmt.Println(err)
		return
	}
	err = c.Wait(ctx, []rota.JobID{jobs[0].ID}, func(job rota.Job) error {
		fmt.Println(job.ID, job.State, string(job.Output))
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
}

func ExampleWorker() {
	type resize struct {
		Width int `json:"width"`
	}
	c, err := client.Dial([]string{"127.0.0.1:6470"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	spec := rota.WorkerSpec{Queues: []rota.QueueName{rota.DefaultQueue}, Slots: 8, Prefetch: 8}
	w, err := client.NewWorker(c, spec)
	if err != nil {
		fmt.Println(err)
		return
	}
	w.Handle("resize", client.Typed(func(ctx context.Context, job *client.Job, in resize) (string, error) {
		if in.Width <= 0 {
			return "", client.NoRetry(fmt.Errorf("width %d is refused: 1 or more is wanted", in.Width))
		}
		// Whatever is written elsewhere carries job.Token(), so that an older
		// attempt that wakes up late can be refused.
		return fmt.Sprintf("resized to %d under %s", in.Width, job.Token()), ctx.Err()
	}))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := w.Run(ctx); err != nil { // drains when ctx ends
		fmt.Println(err)
	}
}
