package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/limits"
)

// TestFIFOOrder lets one worker of one slot run the jobs that one call submits through any node, and those of one file
// of several batches: in the order of submission (SPEC §16.4), with ids in the opposite order, and with jobs that wait
// at the worker.
func TestFIFOOrder(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	for _, one := range []struct {
		name, preset string
		prefetch     int32
		jobs         int
		file         bool
	}{
		{"one_call_through_a_follower", "dag", 0, 60, false},
		{"one_call_with_prefetch", "dag", 4, 60, false},
		{"file_of_batches", "standard", 4, limits.MaxBatchJobs + 100, true},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			q := c.policyQueue(t, strings.ReplaceAll(one.name, "_", "-"), one.preset, "ranking=fifo")
			var ids []string
			var jobs []rota.JobSpec
			for i := range one.jobs {
				ids = append(ids, fmt.Sprintf("%s-%05d", q, one.jobs-i))
				jobs = append(jobs, policyJob(ids[i], q))
			}
			if one.file {
				var text strings.Builder
				for _, id := range ids {
					fmt.Fprintf(&text, "{\"id\":%q,\"queue\":%q,\"type\":\"work\"}\n", id, q)
				}
				c.rota(t, "job", "submit", "--file", writeFile(t, filepath.Join(t.TempDir(), "jobs"),
					text.String())).want(t, 0)
			} else {
				submitAll(t, c.dial(t, c.followers(t)[0]), jobs...)
			}
			if got := c.workedOff(t, q, one.prefetch, one.jobs); !slices.Equal(got, ids) {
				at := 0
				for at < len(got) && got[at] == ids[at] {
					at++
				}
				t.Fatalf("number %d of %d ran out of order: %v, submitted %v", at, len(ids), clip(fmt.Sprint(got[at:])),
					clip(fmt.Sprint(ids[at:])))
			}
		})
	}
}

// workedOff lets one worker of one slot run the given number of jobs of a queue, and returns them in the order in which
// they began.
func (c *nodes) workedOff(t *testing.T, q rota.QueueName, prefetch int32, jobs int) (order []string) {
	t.Helper()
	w, err := client.NewWorker(c.dial(t), rota.WorkerSpec{ID: rota.WorkerID("w-" + string(q)),
		Queues: []rota.QueueName{q}, Slots: 1, Prefetch: prefetch})
	check(t, err)
	var mu sync.Mutex
	all := make(chan struct{})
	w.Handle("", func(_ context.Context, job *client.Job) (client.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		if order = append(order, string(job.ID())); len(order) == jobs {
			close(all)
		}
		return client.Result{}, nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	var life sync.WaitGroup
	life.Go(func() { _ = w.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		life.Wait()
	})
	select {
	case <-all:
	case <-time.After(2 * time.Minute):
		t.Error("not all ran in two minutes")
	}
	mu.Lock()
	defer mu.Unlock()
	return slices.Clone(order)
}
