package e2e

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// TestWorkerTypes is SPEC §16.2 on processes: a job of a type that no worker handles waits and reports why, the slots
// of workers that do not handle it stay usable, and the first worker that handles it receives it, by --types or by the
// handlers of the library.
func TestWorkerTypes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	cl := c.dial(t)
	execQueue(t, c, "typed")
	may := filepath.Join(t.TempDir(), "may-end")
	c.worker(t, "--queues", "typed", "--slots", "2", "--id", "picky", "--types", "shout,echo",
		"--exec", "while [ ! -e "+may+" ]; do sleep 0.1; done; echo $ROTA_JOB_TYPE")
	submit := func(id, typ string, more ...string) {
		t.Helper()
		c.rota(t, append([]string{"job", "submit", "--queue", "typed", "--id", id, "--type", typ}, more...)...).want(t,
			0)
	}
	// Jobs that no worker handles come first and are the most urgent.
	for _, id := range []string{"crop-1", "crop-2"} {
		submit(id, "crop", "--priority", "0")
	}
	submit("shrink-1", "shrink", "--priority", "0")
	submit("shout-1", "shout")
	submit("echo-1", "echo")
	for _, id := range []string{"shout-1", "echo-1"} { // both at once: its two slots
		c.awaitState(t, cl, id, 30*time.Second, rota.JobRunning)
	}
	for _, id := range []string{"crop-1", "crop-2", "shrink-1"} {
		x := c.why(t, id)
		if whyNames(t, x, "TYPE_NOT_HANDLED", 1); x.State != rota.JobQueued || len(x.Reasons) != 1 {
			t.Errorf("job %s is explained as %+v", id, x)
		}
	}
	contains(t, "the table", c.rota(t, "job", "why", "crop-1").want(t, 0).stdout, "TYPE_NOT_HANDLED", "of type crop",
		"it would run if",
		"rota worker run --types")
	contains(t, "the list of workers", c.rota(t, "worker", "list", "-o", "wide").want(t, 0).stdout, "TYPES",
		"echo,shout")

	// A worker that handles it receives it, while the other's slots are full.
	c.worker(t, "--queues", "typed", "--id", "cropper", "--types", "crop", "--exec", "echo $ROTA_JOB_TYPE")
	c.ranOnce(t, cl, "cropper", "crop-1", "crop-2")
	whyNames(t, c.why(t, "shrink-1"), "TYPE_NOT_HANDLED", 2)

	// The library sends the types of its handlers.
	w, err := client.NewWorker(c.dial(t), rota.WorkerSpec{ID: "shrinker", Queues: []rota.QueueName{"typed"}, Slots: 1})
	check(t, err)
	client.Define[struct{}, string]("shrink").Handle(w, func(context.Context, *client.Job, struct{}) (string, error) {
		return "shrunk", nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = w.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	c.ranOnce(t, cl, "shrinker", "shrink-1")
	shown := decode[rota.Worker](t, c.rota(t, "worker", "show", "shrinker", "-o", "json"))
	if !slices.Equal(shown.Types, []rota.JobType{"shrink"}) {
		t.Errorf("the library's worker handles %v", shown.Types)
	}

	writeFile(t, may, "")
	c.ranOnce(t, cl, "picky", "shout-1", "echo-1")
	c.verified(t, 1)
}

// ranOnce waits until jobs are COMPLETED, and requires each to have run only at one worker, which declined none.
func (c *nodes) ranOnce(t testing.TB, cl *client.Client, worker rota.WorkerID, ids ...string) {
	t.Helper()
	for _, id := range ids {
		job := c.awaitState(t, cl, id, 30*time.Second, rota.JobCompleted)
		if len(job.Attempts) != 1 || job.Attempts[0].Worker != worker {
			t.Errorf("job %s has attempts %+v, want one at worker %s", id, job.Attempts, worker)
		}
	}
}
