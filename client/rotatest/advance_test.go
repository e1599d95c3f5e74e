package rotatest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/client/rotatest"
)

// maxEntries bounds the log entries of a day in which only a backoff and dates are due: at least one a minute is
// needed, where the sweeps of a cluster that stays awake are 345,600.
const maxEntries = 3_000

// TestAdvance lets a day pass: jobs due by the clock, or on dates, run when they should.
func TestAdvance(t *testing.T) {
	began := time.Now()
	rotatest.Run(t, func(c *rotatest.Cluster) {
		ctx := c.Context()
		schedule := rota.NewScheduleSpec("digest", rota.NewJobSpec("digest", nil))
		schedule.Overlap = rota.OverlapAllow
		schedule.Every = 6 * time.Hour
		_, err := c.Client().Schedules().Set(ctx, schedule)
		later, lerr := welcome.Submit(ctx, c.Client(), mail{"later"}, client.At(time.Now().Add(20*time.Hour)))
		never, nerr := client.Define[mail, string]("rare").Submit(ctx, c.Client(), mail{"never"},
			client.TTL(12*time.Hour))
		if err = errors.Join(err, lerr, nerr, signUp(ctx, c.Client(), "ann")); err != nil {
			t.Fatal(err)
		}
		if _, err := rotatest.Work(c, welcome, func(context.Context, *client.Job, mail) (string, error) {
			return "", client.RetryAfter(24*time.Hour, errors.New("greylisted"))
		}); err == nil {
			t.Fatal("the first attempt failed with no error")
		}
		before := status(t, c).AppliedIndex
		failed := time.Now()
		c.Advance(19 * time.Hour)
		isState(t, c, later.ID(), rota.JobDelayed)
		isState(t, c, never.ID(), rota.JobExpired)
		c.Advance(time.Until(failed.Add(24*time.Hour - time.Minute)))
		isState(t, c, later.ID(), rota.JobQueued)
		isState(t, c, "welcome-ann", rota.JobDelayed)
		c.Advance(time.Minute)
		isState(t, c, "welcome-ann", rota.JobQueued)
		if n := status(t, c).AppliedIndex - before; n > maxEntries {
			t.Errorf("a day at rest took %d entries, want at most %d", n, maxEntries)
		}
		runs := 0
		for _, err := range c.Client().Jobs(ctx, rota.JobFilter{Type: "digest"}) {
			if err != nil {
				t.Fatal(err)
			}
			runs++
		}
		if runs != 4 {
			t.Errorf("the schedule ran %d times in a day, want every 6h, 4 times", runs)
		}
	}, rotatest.Nodes(3))
	t.Logf("took %s", time.Since(began))
}

// TestAdvance_isInterrupted checks that users and workers of the test keep running while time passes in strides.
func TestAdvance_isInterrupted(t *testing.T) {
	rotatest.Run(t, func(c *rotatest.Cluster) {
		ctx, stop := context.WithCancel(c.Context())
		w, err := client.NewWorker(c.Client(), rota.WorkerSpec{Queues: []rota.QueueName{rota.DefaultQueue}, Slots: 1},
			c.Clock())
		if err != nil {
			t.Fatal(err)
		}
		welcome.Handle(w, func(ctx context.Context, _ *client.Job, m mail) (string, error) {
			select {
			case <-time.After(5 * time.Minute): // far longer than a lease whose worker is silent
			case <-ctx.Done():
			}
			return "sent to " + m.To, context.Cause(ctx)
		})
		var all sync.WaitGroup
		began := time.Now()
		all.Go(func() {
			time.Sleep(20*time.Minute + 17*time.Second)
			if err := signUp(ctx, c.Client(), "bob"); err != nil {
				t.Error(err)
			}
			time.Sleep(10 * time.Minute)
			ctx, stop := context.WithTimeout(ctx, 6*time.Minute)
			defer stop()
			if err := w.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		c.Advance(time.Hour)
		job := isState(t, c, "welcome-bob", rota.JobCompleted)
		if len(job.Attempts) != 1 {
			t.Errorf("got %d attempts, want one", len(job.Attempts))
		}
		if at := job.Submitted.Time().Sub(began); at < 20*time.Minute || at > 21*time.Minute {
			t.Errorf("submitted after %s, want 20m17s", at)
		}
		stop()
		all.Wait()
	}, rotatest.Nodes(3))
}

func status(t *testing.T, c *rotatest.Cluster) rota.ClusterStatus {
	t.Helper()
	s, err := c.Client().Status(c.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func isState(t *testing.T, c *rotatest.Cluster, id rota.JobID, want rota.JobState) rota.Job {
	t.Helper()
	job, err := c.Client().Job(c.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if job.State != want {
		t.Errorf("job %s is %s, want %s", id, job.State, want)
	}
	return job
}
