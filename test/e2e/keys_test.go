package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// witness is a handler that records its jobs: which in which order, and whether another one ran meanwhile.
type witness struct {
	mu sync.Mutex
	// order lists each job's first attempt, holds the jobs running now.
	order []rota.JobID
	holds map[rota.JobID]bool
	both  []string
}

// handle works for a moment; the first attempt of every fourth job fails.
func (w *witness) handle(ctx context.Context, job *client.Job) (client.Result, error) {
	w.mu.Lock()
	if !slices.Contains(w.order, job.ID()) {
		w.order = append(w.order, job.ID())
	}
	for other := range w.holds {
		w.both = append(w.both, fmt.Sprintf("%s next to %s", job.ID(), other))
	}
	w.holds[job.ID()] = true
	n := len(w.order)
	w.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-time.After(30 * time.Millisecond):
	}
	w.mu.Lock()
	delete(w.holds, job.ID())
	w.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return client.Result{}, context.Cause(ctx)
	case n%4 == 0 && job.Attempt() == 0:
		return client.Result{}, errors.New("this time")
	}
	return client.Result{}, nil
}

// TestKeys_leaderKilled: leaders are killed while jobs share a key of concurrency 1, and others are in a sequence. No
// two of either run at once, and the sequence goes in the order of submission, including failed attempts.
func TestKeys_leaderKilled(t *testing.T) {
	t.Parallel()
	const jobs = 40
	c := newCluster(t, 3)
	c.rota(t, "queue", "set", "default", "--set", "backoff_base=50ms").want(t, 0)
	c.rota(t, "key", "set", "one", "--concurrency", "1").want(t, 0)
	c.rota(t, "key", "set", "line", "--sequence", "block").want(t, 0)
	cl := c.dial(t)
	seen := map[rota.JobType]*witness{"one": {holds: map[rota.JobID]bool{}}, "line": {holds: map[rota.JobID]bool{}}}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	t.Cleanup(func() { cancel(); all.Wait() })
	for i := range 3 {
		w, err := client.NewWorker(c.dial(t), rota.WorkerSpec{ID: rota.WorkerID(fmt.Sprint("w", i)), Slots: 8,
			Queues: []rota.QueueName{rota.DefaultQueue}})
		check(t, err)
		for typ, s := range seen {
			w.Handle(typ, s.handle)
		}
		all.Go(func() { _ = w.Run(ctx) })
	}
	var want []rota.JobID
	for i := range jobs {
		for _, name := range []string{"one", "line"} {
			spec := rota.NewJobSpec(rota.JobType(name), nil)
			spec.ID, spec.Keys = rota.JobID(fmt.Sprint(name, i)), []string{name + ":1"}
			spec.Priority = int32(i % 11) // a sequence knows none
			_, err := cl.Submit(ctx, spec)
			check(t, err)
		}
		want = append(want, rota.JobID(fmt.Sprint("line", i)))
		if i == jobs/3 || i == 2*jobs/3 {
			leader := c.leader(t)
			leader.Kill()
			leader.start(t)
		}
	}
	for i := range jobs {
		for _, name := range []string{"one", "line"} {
			c.awaitState(t, cl, fmt.Sprint(name, i), 90*time.Second, rota.JobCompleted)
		}
	}
	for typ, s := range seen {
		if len(s.both) > 0 {
			t.Errorf("key %s:1 had two running: %v", typ, s.both)
		}
	}
	if got := seen["line"].order; !slices.Equal(got, want) {
		t.Errorf("the order of the sequence is %v", got)
	}
	c.verified(t, 3)
}

// TestKeys_blocked: a sequence whose head dies stops, across the death of a leader, until an
// operator skips the head.
func TestKeys_blocked(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.rota(t, "key", "set", "line", "--sequence", "block").want(t, 0)
	for _, id := range []string{"a", "b"} {
		c.rota(t, "job", "submit", "--type", "x", "--id", id, "--key", "line:1", "--ttl",
			map[string]string{"a": "100ms", "b": "0"}[id]).want(t, 0)
	}
	cl := c.dial(t)
	c.awaitState(t, cl, "a", 30*time.Second, rota.JobExpired)
	leader := c.leader(t)
	leader.Kill()
	leader.start(t)
	c.worker(t, "--id", "w", "--queues", "default")
	eventually(t, 60*time.Second, "the key is blocked", func() error {
		states, err := cl.Keys().State(t.Context(), rota.DefaultTenant, "line:1")
		if err == nil && (len(states) != 1 || states[0].Blocker != "a" || states[0].Jobs != 1 || states[0].Open != 0) {
			err = fmt.Errorf("it is %+v", states)
		}
		return err
	})
	contains(t, "the reason", c.rota(t, "job", "why", "b").want(t, 0).stdout, "SEQUENCE_BLOCKED")
	c.rota(t, "key", "skip", "line:1", "--job", "a", "--tenant", "default").want(t, 0)
	c.awaitState(t, cl, "b", 30*time.Second, rota.JobCompleted)
	c.verified(t, 3)
}
