package rotatest_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/client/rotatest"
)

// TestCancel_confirms has a handler clean up for 3.6 s after its job was cancelled. The next job of its key starts as
// soon as the handler has returned: not earlier, and not only when the lease would have ended. The same holds for the
// job's own retry.
func TestCancel_confirms(t *testing.T) {
	rotatest.Run(t, func(c *rotatest.Cluster) {
		const cleans = 3600 * time.Millisecond
		ctx, cl := c.Context(), c.Client()
		if err := cl.Keys().SetRule(ctx, rota.KeyRule{Name: "disk", Concurrency: 1}); err != nil {
			t.Fatal(err)
		}
		w, err := client.NewWorker(cl, rota.WorkerSpec{ID: "w", Queues: []rota.QueueName{rota.DefaultQueue}, Slots: 4},
			c.Clock())
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		started, running := map[rota.JobID][]time.Time{}, 0
		w.Handle("work", func(ctx context.Context, job *client.Job) (client.Result, error) {
			mu.Lock()
			id := job.ID()
			started[id] = append(started[id], time.Now())
			first := id == "a" && len(started[id]) == 1
			if running++; running > 1 {
				t.Errorf("%d handlers run in parallel", running)
			}
			mu.Unlock()
			if first {
				<-ctx.Done()
				time.Sleep(cleans)
			}
			mu.Lock()
			running--
			mu.Unlock()
			return client.Result{}, nil
		})
		stop, cancel := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- w.Run(stop) }()
		for _, id := range []rota.JobID{"a", "b"} {
			spec := rota.NewJobSpec("work", nil)
			spec.ID, spec.Keys = id, []string{"disk:1"}
			if _, err := cl.Submit(ctx, spec); err != nil {
				t.Fatal(err)
			}
			c.Advance(time.Second)
		}
		if _, err := cl.Cancel(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		at := time.Now()
		if _, err := cl.Retry(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		c.Advance(10 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if len(started["a"]) != 2 || len(started["b"]) != 1 {
			t.Fatalf("a started %d times, b %d times", len(started["a"]), len(started["b"]))
		}
		for id, when := range map[rota.JobID]time.Time{"a": started["a"][1], "b": started["b"][0]} {
			if after := when.Sub(at); after < cleans || after > cleans+time.Second {
				t.Errorf("%s started %s after the cancellation, the handler cleans up for %s", id, after, cleans)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
