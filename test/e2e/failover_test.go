package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// longJob is a job whose handler runs for a while, at a separate worker.
type longJob struct {
	id     rota.JobID
	worker rota.WorkerID
}

// startLong lets one worker for each group of nodes hold one job for the given time. A worker knows only the nodes of
// its group.
func startLong(t testing.TB, c *nodes, queue string, takes time.Duration, groups ...[]*node) []longJob {
	t.Helper()
	c.rota(t, "queue", "set", queue, "--preset", "standard").want(t, 0)
	cl := c.dial(t)
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	t.Cleanup(func() { cancel(); all.Wait() })
	var jobs []longJob
	for i, group := range groups {
		id := rota.WorkerID(fmt.Sprintf("%s-w%d", queue, i))
		w, err := client.NewWorker(c.dial(t, group...), rota.WorkerSpec{ID: id, Slots: 1,
			Queues: []rota.QueueName{rota.QueueName(queue)}})
		check(t, err)
		w.Handle("", func(ctx context.Context, _ *client.Job) (client.Result, error) {
			select {
			case <-ctx.Done():
				return client.Result{}, context.Cause(ctx)
			case <-time.After(takes):
				return client.Result{}, nil
			}
		})
		all.Go(func() { _ = w.Run(ctx) })
		spec := rota.NewJobSpec("long", nil)
		spec.ID, spec.Queue, spec.Worker = rota.JobID(fmt.Sprintf("%s-%d", queue, i)), rota.QueueName(queue), id
		_, err = cl.Submit(ctx, spec)
		check(t, err)
		jobs = append(jobs, longJob{spec.ID, id})
	}
	for _, j := range jobs {
		c.awaitState(t, cl, string(j.id), 20*time.Second, rota.JobRunning)
	}
	return jobs
}

// endAtFirst checks that every long job completed at its first attempt.
func endAtFirst(t testing.TB, c *nodes, jobs []longJob, most time.Duration) {
	t.Helper()
	cl := c.dial(t)
	for _, j := range jobs {
		job := c.awaitState(t, cl, string(j.id), most, rota.JobCompleted, rota.JobDead, rota.JobCancelled,
			rota.JobExpired)
		if job.State != rota.JobCompleted || job.Attempt != 0 || len(job.Attempts) != 1 {
			t.Errorf("job %s is %s after %d attempts (%v), want COMPLETED at attempt 0", j.id, job.State,
				len(job.Attempts), job.Attempts)
		}
	}
}

// A killed leader costs a moment: no accepted job is lost, none runs at two workers at once, and its own workers keep
// their leases.
func TestLeaderKilled(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	leader := c.leader(t)
	// Each node has a worker that connected to it first; it knows the others too.
	var groups [][]*node
	for i := range c.all {
		groups = append(groups, append(append([]*node{}, c.all[i:]...), c.all[:i]...))
	}
	jobs := startLong(t, c, "long", 12*time.Second, groups...)
	l := startLoad(t, c, "load", 4, 3, 10*time.Millisecond)
	l.flows(t, 100)

	killed := time.Now()
	leader.Kill()
	l.flows(t, 100)
	gap := l.Gap(killed)
	t.Logf("longest time without a committed job after SIGKILL of the leader: %s", gap)
	if gap > 5*time.Second {
		t.Errorf("%s without a committed job after SIGKILL of the leader, want at most 5 s", gap)
	}
	if now := c.leader(t); now == leader {
		t.Errorf("the killed %s still counts as the leader", leader.ID)
	}

	leader.start(t)
	leader.awaitReady(t)
	l.flows(t, 50)
	endAtFirst(t, c, jobs, 30*time.Second)
	l.settle(c)
	c.verified(t, 3)
}

// A killed worker's job runs again at another one, by silence and long before its ten-minute lease ends: 40 s of
// silence, 10 s, and the retry's backoff.
func TestWorkerKilled(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.rota(t, "queue", "set", "ai", "--preset", "aicf-ai").want(t, 0)
	victim := c.worker(t, "--id", "victim", "--queues", "ai")
	id := "abandoned"
	c.rota(t, "job", "submit", "--queue", "ai", "--type", "x", "--id", id, "--simulate-ms", "3000").want(t, 0)
	cl := c.dial(t)
	c.awaitState(t, cl, id, 20*time.Second, rota.JobRunning)
	killed := time.Now()
	victim.Kill()
	c.worker(t, "--id", "heir", "--queues", "ai")

	const bound = 40*time.Second + 10*time.Second
	const backoff = 5500 * time.Millisecond // 5 s, up to a tenth more
	const slack = 5 * time.Second
	eventually(t, bound+backoff+slack-time.Since(killed), "the job runs again", func() error {
		job, err := cl.Job(t.Context(), rota.JobID(id))
		if err == nil && (job.State != rota.JobRunning || job.Lease == nil || job.Lease.Worker != "heir") {
			err = fmt.Errorf("it is %s, its lease %+v", job.State, job.Lease)
		}
		return err
	})
	job := c.job(t, id)
	again := time.Since(killed)
	t.Logf("the job of a killed worker ran again after %s", again)
	if again < 30*time.Second {
		t.Errorf("the job ran again after %s: a worker that is only slow may hold it for 30 s", again)
	}
	if job.Attempt != 0 || job.WorkerLosses != 1 {
		t.Errorf("attempt %d, %d losses: want one loss that uses up no attempt", job.Attempt, job.WorkerLosses)
	}
	job = c.awaitState(t, cl, id, 20*time.Second, rota.JobCompleted)
	if len(job.Attempts) != 2 || job.Attempts[0].End != rota.ReasonWorkerLost {
		t.Errorf("attempts %+v: want the first one ended by WORKER_LOST", job.Attempts)
	}
}

// A leader that is stopped for 20 s and resumed costs no lease any time and overwrites no decision of its successor.
func TestLeaderPaused(t *testing.T) {
	long(t)
	t.Parallel()
	c := newCluster(t, 3)
	leader := c.leader(t)
	groups := [][]*node{{leader}} // one that knows no other node
	for i := range c.all {
		groups = append(groups, append(append([]*node{}, c.all[i:]...), c.all[:i]...))
	}
	jobs := startLong(t, c, "long", 45*time.Second, groups...)
	l := startLoad(t, c, "load", 3, 3, 20*time.Millisecond)
	l.flows(t, 50)

	paused := time.Now()
	leader.Pause()
	l.flows(t, 50)
	t.Logf("longest time without a committed job after SIGSTOP of the leader: %s", l.Gap(paused))
	// A call has time for the nodes that answer, whichever of --addr is silent.
	first := command(t, []string{"ROTA_ADDR=" + leader.API + "," + c.env()[len("ROTA_ADDR="):]}, "", "cluster",
		"status", "--timeout", "4s")
	if first.code != 0 {
		t.Errorf("cluster status with a silent first address: exit code %d after %s: %s", first.code, first.took,
			first.stderr)
	}
	others := c.dial(t, c.followers(t)...)
	mine := submitTo(t, others, "default", "under-the-second", 20)
	time.Sleep(20*time.Second - time.Since(paused)) // the test needs the whole pause
	leader.Resume()
	// The deposed one is called at once: it must not decide on its own.
	after := submitTo(t, c.dial(t, leader), "default", "after-the-pause", 20)

	leader.awaitReady(t)
	l.flows(t, 50)
	endAtFirst(t, c, jobs, 60*time.Second)
	l.settle(c)
	cl := c.dial(t, leader)
	for _, id := range append(mine, after...) {
		if job, err := cl.Job(t.Context(), id); err != nil || job.State != rota.JobQueued {
			t.Errorf("job %s, accepted around the pause: %s, %v", id, job.State, err)
		}
	}
	c.verified(t, 3)
}

// submitTo submits jobs one by one and returns their ids; all must be accepted.
func submitTo(t testing.TB, cl *client.Client, queue, prefix string, count int) []rota.JobID {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var ids []rota.JobID
	for i := range count {
		spec := rota.NewJobSpec("kept", []byte(prefix))
		spec.ID, spec.Queue = rota.JobID(fmt.Sprintf("%s-%03d", prefix, i)), rota.QueueName(queue)
		_, err := cl.Submit(ctx, spec)
		check(t, err)
		ids = append(ids, spec.ID)
	}
	return ids
}

// Without a majority calls end at their deadline and report that; with one node back everything continues.
func TestMajorityGone(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	before := submitTo(t, c.dial(t), "default", "before", 10)
	c.all[0].Kill()
	c.all[1].Kill()
	left := c.all[2]

	for _, args := range [][]string{
		{"job", "submit", "--type", "x", "--timeout", "3s"}, {"job", "list", "--timeout", "3s"},
		{"cluster", "status", "--timeout", "3s"}, {"queue", "set", "q", "--timeout", "3s"},
	} {
		r := c.rota(t, args...)
		if r.code != 7 || r.took > 6*time.Second || r.stderr == "" {
			t.Errorf("rota %v without a majority: exit code %d after %s, want 7 after 3 s\n%s", args, r.code, r.took,
				r.stderr)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	spec := rota.NewJobSpec("x", nil)
	spec.ID = "while-it-is-gone"
	_, err := c.dial(t, left).Submit(ctx, spec)
	if rota.KindOf(err) != rota.KindUnavailable {
		t.Errorf("a submission without a majority: got %v, want Unavailable", err)
	}
	if err := left.Ready(); err == nil {
		t.Errorf("%s is ready without a leader", left.ID)
	}

	c.all[0].start(t)
	c.all[0].awaitReady(t)
	left.awaitReady(t)
	submitTo(t, c.dial(t, left), "default", "afterwards", 10)
	for _, id := range before {
		c.job(t, string(id))
	}
	c.all[1].start(t)
	c.all[1].awaitReady(t)
	c.verified(t, 3)
}

// Accepted jobs survive the death of all nodes at once.
func TestAllKilled(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.rota(t, "queue", "set", "kept", "--set", "queue_cap=777", "--set", "paused=true").want(t, 0)
	l := startLoad(t, c, "load", 4, 2, 5*time.Millisecond)
	waiting := submitTo(t, c.dial(t), "kept", "waiting", 20)
	l.flows(t, 200)
	for _, n := range c.all {
		n.Pause() // so that none outlives another
	}
	for _, n := range c.all {
		n.Kill()
	}
	began := time.Now()
	for _, n := range c.all {
		n.start(t)
	}
	c.awaitReady()
	t.Logf("three killed nodes served again after %s", time.Since(began))
	l.flows(t, 50)
	l.settle(c)
	for _, id := range waiting {
		if job := c.job(t, string(id)); job.State != rota.JobQueued {
			t.Errorf("job %s is %s after the restart, want QUEUED", id, job.State)
		}
	}
	q := decode[rota.Queue](t, c.rota(t, "queue", "show", "kept", "-o", "json"))
	if q.Policy.QueueCap != 777 || !q.Policy.Paused {
		t.Errorf("the queue's policy after the restart: %+v", q.Policy)
	}
	c.verified(t, 3)
}
