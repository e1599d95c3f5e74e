package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// cutOff is a worker of the library behind wires, whose handler works until its context ends.
type cutOff struct {
	id       rota.WorkerID
	started  chan *client.Job
	ended    chan error               // the causes of its handlers' ends
	reported chan client.HandlerEvent // the cluster's answers to its outcomes
	done     chan struct{}            // closed: handlers return successfully
}

func (all wires) worker(t testing.TB, id string, queue rota.QueueName) *cutOff {
	t.Helper()
	k := &cutOff{id: rota.WorkerID(id), started: make(chan *client.Job, 10), ended: make(chan error, 10),
		reported: make(chan client.HandlerEvent, 10), done: make(chan struct{})}
	w, err := client.NewWorker(all.dial(t), rota.WorkerSpec{ID: k.id, Queues: []rota.QueueName{queue}, Slots: 1},
		client.WithSecret(handSecret(id)), client.WithDrainTimeout(50*time.Millisecond),
		client.WithObserver(client.Observer{Reported: func(e client.HandlerEvent) { k.reported <- e }}))
	check(t, err)
	w.Handle("", func(ctx context.Context, job *client.Job) (client.Result, error) {
		k.started <- job
		select {
		case <-k.done:
			return client.Result{}, nil
		case <-ctx.Done():
			k.ended <- context.Cause(ctx)
			return client.Result{}, context.Cause(ctx)
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() { defer close(over); _ = w.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-over })
	return k
}

// TestGraceOnDisconnect is SPEC §16.7 on processes: two workers lose every node, by wires that are cut on the nodes'
// side. The one under lease_grace_on_disconnect_ms ends its running jobs by itself, then its lease ends that long after
// its stream broke, another worker receives the job, and the first one's completion is refused. The other, without the
// key, keeps its lease.
func TestGraceOnDisconnect(t *testing.T) {
	t.Parallel()
	const grace = 10_000
	c := newCluster(t, 3)
	cl := c.dial(t)
	// Long leases, so that their deadlines have no effect.
	graced := c.policyQueue(t, "graced", "standard", "lease_grace_on_disconnect=10s", "lease_ms=600000",
		"backoff_base=100ms", "backoff_cap=100ms")
	plain := c.policyQueue(t, "plain", "standard", "lease_ms=600000")
	all := c.wires(t)
	first, keeps := all.worker(t, "first", graced), all.worker(t, "keeps", plain)
	submitAll(t, cl, policyJob("graced-1", graced), policyJob("plain-1", plain))
	var lease rota.LeaseID
	for _, k := range []*cutOff{first, keeps} {
		select {
		case job := <-k.started:
			c.awaitState(t, cl, string(job.ID()), 30*time.Second, rota.JobRunning)
			if k == first {
				lease = job.Lease()
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("worker %s receives no job", k.id)
		}
	}
	spare := c.puppet(t, "spare", graced, 1)
	all.cut()
	spare.serves("graced-1")
	select {
	case err := <-first.ended:
		contains(t, "why the first handler's context ended", err.Error(), "no beat was heard")
	default:
		t.Error("the job runs again while its first handler works on it")
	}
	job := jobOf(t, cl, "graced-1")
	if len(job.Attempts) != 1 || job.Attempts[0].Lease != lease || job.Attempts[0].End != rota.ReasonWorkerLost ||
		job.Attempt != 0 {
		t.Fatalf("attempt %d after %+v", job.Attempt, job.Attempts)
	}
	shown := decode[rota.Worker](t, c.rota(t, "worker", "show", "first", "-o", "json"))
	if since, end := shown.DisconnectedSince.Clock, job.Attempts[0].Ended.Clock; since == 0 || end < since+grace {
		t.Errorf("its stream broke at %d, its lease ended at %d", since, end)
	}
	// By its own id and secret, and so in its own session.
	c.hand(t, c.all[0], "first", graced, 1).refused(rota.KindStale, rota.VerbComplete,
		rota.Lease{ID: lease, Job: "graced-1"})
	spare.ends("graced-1", nil)
	c.awaitState(t, cl, "graced-1", 30*time.Second, rota.JobCompleted)

	// The wires carry again before silence has ended the other lease.
	select {
	case err := <-keeps.ended:
		t.Fatalf("the handler without a grace was ended: %v", err)
	default:
	}
	all.heal()
	close(keeps.done)
	for _, k := range []*cutOff{first, keeps} {
		select {
		case e := <-k.reported:
			if stale := rota.KindOf(e.Err) == rota.KindStale; stale != (k == first) {
				t.Errorf("worker %s: %s of job %s is answered %v", k.id, e.Verb, e.Job, e.Err)
			}
		case <-time.After(60 * time.Second):
			t.Fatalf("worker %s: no answer to its outcome", k.id)
		}
	}
	if job := jobOf(t, cl, "plain-1"); job.State != rota.JobCompleted || len(job.Attempts) != 1 ||
		job.Attempts[0].Worker != "keeps" {
		t.Errorf("job plain-1 is %s after %+v", job.State, job.Attempts)
	}
	contains(t, "events", c.all[0].tailed(t, c), `"kind":"workerDisconnected"`)
	c.verified(t, 3)
}
