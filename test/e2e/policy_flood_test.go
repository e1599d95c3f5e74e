package e2e

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/internal/millis"
)

const (
	// The log's jobs arrive and run this many times faster than they did.
	floodSpeedup = 50_000
	// Each queue has its own workers, with room for 8 jobs in total.
	floodWorkers, floodSlots = 2, 4
	floodCPU                 = 1_000
	// floodDepth jobs of the flood are in the queue at first; for each batch of them that handlers receive, another is
	// submitted.
	floodDepth, floodBatch = 300, 50
	floodWorkMs            = 20
	// At least minFlood leases of each type that fails or is declined must end for the test to prove anything. The
	// flood continues until that number, plus all that can be open at the same time, were received.
	minFlood   = 5
	floodShown = minFlood + floodWorkers*floodSlots
)

// floodTypes are the types of the flood's jobs: handlers run the first, fail the second
// and the third, which has a domain, and decline the fourth.
var floodTypes = []rota.JobType{"flood", "fails", "domain-fails", "declines"}

// traced is a job of the log, in the time of the replay.
type traced struct {
	at, run time.Duration
	user    int
}

// readTrace reads the first jobs of the log in testdata/traces.
func readTrace(t *testing.T, most int) []traced {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", "traces", "nasa-ipsc-1993-600.swf.gz"))
	check(t, err)
	defer file.Close()
	text, err := gzip.NewReader(file)
	check(t, err)
	var jobs []traced
	var first int
	for lines := bufio.NewScanner(text); lines.Scan() && len(jobs) < most; {
		words := strings.Fields(lines.Text())
		if len(words) != 18 {
			continue // the header
		}
		var n [3]int
		for i, field := range []int{1, 3, 11} {
			n[i], err = strconv.Atoi(words[field])
			check(t, err)
		}
		if len(jobs) == 0 {
			first = n[0]
		}
		jobs = append(jobs, traced{time.Duration(n[0]-first) * time.Second / floodSpeedup,
			time.Duration(n[1]) * time.Second / floodSpeedup, n[2]})
	}
	return jobs
}

// floodRun is a replay of the log in its own queue. The log's users belong to three tenants, and the first one floods.
type floodRun struct {
	name string
	set  []string
	// limit is max_concurrent of the tenant that floods; 0 leaves it to fair share.
	limit int
	cl    *client.Client
	quiet []rota.JobID
	taken chan rota.JobType // a handler received a job of the flood
	shown chan struct{}     // closed once floodShown of each type but the first were received
	sent  int               // jobs of the flood
}

func (r *floodRun) tenant(n int) rota.TenantID { return rota.TenantID(fmt.Sprint(r.name, "-t", n)) }

func (r *floodRun) worker(n int) rota.WorkerID { return rota.WorkerID(fmt.Sprint(r.name, "-w", n)) }

// floodJob returns the next job of the flood.
func (r *floodRun) floodJob() rota.JobSpec {
	typ := floodTypes[r.sent%len(floodTypes)]
	r.sent++
	return policyJob(fmt.Sprintf("%s-%s-%05d", r.name, typ, r.sent), rota.QueueName(r.name), ofType(typ),
		func(s *rota.JobSpec) {
			s.Tenant, s.Simulate = r.tenant(0), millis.Duration(floodWorkMs)
			if typ == "domain-fails" {
				s.Domain = "zone"
			}
		})
}

// begin sets up the queue and its workers, and submits the flood to it.
func (r *floodRun) begin(t *testing.T, c *nodes) {
	t.Helper()
	r.cl, r.taken, r.shown = c.dial(t), make(chan rota.JobType, 1<<16), make(chan struct{})
	c.rota(t, "tenant", "set", string(r.tenant(0)), "--max-concurrent", fmt.Sprint(r.limit), "--penalty", "0s").want(t,
		0)
	q := c.policyQueue(t, r.name, "standard", r.set...)
	for i := range floodWorkers {
		c.floodWorker(t, rota.WorkerSpec{ID: r.worker(i), Queues: []rota.QueueName{q}, Slots: floodSlots,
			CPUMilli: floodCPU}, r.taken)
	}
	jobs := []rota.JobSpec{
		policyJob(r.name+"-impossible", q, ofType("flood"), func(s *rota.JobSpec) {
			s.Tenant, s.Priority, s.CPUMilli = r.tenant(0), 0, floodCPU+1
		}),
		policyJob(r.name+"-unhandled", q, ofType("unhandled"),
			func(s *rota.JobSpec) { s.Tenant, s.Priority = r.tenant(0), 0 }),
	}
	for range floodDepth {
		jobs = append(jobs, r.floodJob())
	}
	submitAll(t, r.cl, jobs...)
}

// floodWorker runs a worker until the test ends. It sends the type of each of the flood's jobs that it receives.
func (c *nodes) floodWorker(t *testing.T, spec rota.WorkerSpec, taken chan<- rota.JobType) {
	t.Helper()
	connected := make(chan struct{}, 16)
	w, err := client.NewWorker(c.dial(t), spec, client.WithDrainTimeout(50*time.Millisecond),
		client.WithObserver(client.Observer{
			Connected: func(client.ConnectionEvent) { connected <- struct{}{} },
		}))
	check(t, err)
	w.Handle("trace", runFor)
	for i, typ := range floodTypes {
		w.Handle(typ, func(ctx context.Context, job *client.Job) (client.Result, error) {
			select {
			case taken <- typ:
			case <-ctx.Done():
			}
			switch i {
			case 0:
				return runFor(ctx, job)
			case 3:
				return client.Result{}, client.Decline(nil)
			}
			return client.Result{}, errors.New("the handler fails")
		})
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = w.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	select {
	case <-connected:
	case <-time.After(30 * time.Second):
		t.Fatalf("worker %s is not connected", spec.ID)
	}
}

// runFor is the handler of jobs that take some time.
func runFor(ctx context.Context, job *client.Job) (client.Result, error) {
	select {
	case <-ctx.Done():
		return client.Result{}, context.Cause(ctx)
	case <-time.After(job.Spec().Simulate):
		return client.Result{}, nil
	}
}

// replay submits the log's jobs when they are due.
func (r *floodRun) replay(ctx context.Context, log []traced) error {
	began := time.Now()
	for i, j := range log {
		time.Sleep(time.Until(began.Add(j.at)))
		spec := policyJob(fmt.Sprintf("%s-%05d", r.name, i), rota.QueueName(r.name), ofType("trace"),
			func(s *rota.JobSpec) {
				s.Tenant, s.Simulate = r.tenant(j.user%3), j.run
			})
		if _, err := r.cl.Submit(ctx, spec); err != nil {
			return fmt.Errorf("submit %s: %w", spec.ID, err)
		}
		if spec.Tenant != r.tenant(0) {
			r.quiet = append(r.quiet, spec.ID)
		}
	}
	return completed(ctx, r.cl, r.quiet...)
}

// feed keeps the flood up until the context ends.
func (r *floodRun) feed(ctx context.Context) error {
	left := map[rota.JobType]int{}
	for _, typ := range floodTypes[1:] {
		left[typ] = floodShown
	}
	for {
		batch := make([]rota.JobSpec, floodBatch)
		for i := range batch {
			select {
			case <-ctx.Done():
				return nil
			case typ := <-r.taken:
				if left[typ] == 0 {
					break // shown, or the first, which is not required
				}
				if left[typ]--; left[typ] == 0 {
					if delete(left, typ); len(left) == 0 {
						close(r.shown)
					}
				}
			}
			batch[i] = r.floodJob()
		}
		if _, err := r.cl.Submit(ctx, batch...); err != nil && ctx.Err() == nil {
			return fmt.Errorf("feed the flood: %w", err)
		}
	}
}

// completed waits for jobs, all of which must complete.
func completed(ctx context.Context, cl *client.Client, ids ...rota.JobID) error {
	for job, err := range cl.Wait(ctx, ids...) {
		if err != nil {
			return err
		}
		if job.State != rota.JobCompleted {
			return fmt.Errorf("job %s is %s", job.ID, job.State)
		}
	}
	return nil
}

// pulse runs one job after the other in a queue that no flood reaches, until the context ends. Each is placed by an
// entry of rounds, which produces an event and decides on all queues that have work and room: it reveals rounds that
// placed nothing elsewhere.
func pulse(ctx context.Context, cl *client.Client) error {
	for i := 0; ctx.Err() == nil; i++ {
		job := policyJob(fmt.Sprint("pulse-", i), "pulse", ofType("trace"))
		_, err := cl.Submit(ctx, job)
		if err == nil {
			err = completed(ctx, cl, job.ID)
		}
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("job %s: %w", job.ID, err)
		}
	}
	return nil
}

// TestThreeTenantsOneFloods replays a job log with three tenants. One floods the queue with jobs that run, fail, fail
// in a domain, are declined, have no handler and are impossible, in queues as users have them. Under fair share, with
// turns of the oldest and without, and under max_concurrent, no decision passes over a quiet tenant's job that is
// entitled to the room (floodAccount defines which). Then the nodes' data is audited.
func TestThreeTenantsOneFloods(t *testing.T) {
	t.Parallel()
	jobs := 200
	if whole() {
		jobs = 600
	}
	log := readTrace(t, jobs)
	c := newCluster(t, 3)
	runs := []*floodRun{
		{name: "shared"},
		{name: "turnless", set: []string{"oldest_every=0"}},
		{name: "limited", set: []string{"fair_share=off"}, limit: floodSlots},
	}
	q := c.policyQueue(t, "pulse", "standard")
	c.floodWorker(t, rota.WorkerSpec{ID: "pulse-w", Queues: []rota.QueueName{q}, Slots: 1}, nil)
	for _, r := range runs {
		r.begin(t, c)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	flooded, dry := context.WithCancel(ctx)
	faults := make(chan error, 2*len(runs)+1)
	var replays, floods sync.WaitGroup
	for _, r := range runs {
		replays.Go(func() { faults <- r.replay(ctx, log) })
		floods.Go(func() { faults <- r.feed(flooded) })
	}
	cl := c.dial(t)
	floods.Go(func() { faults <- pulse(flooded, cl) })
	replays.Wait()
	for _, r := range runs { // a busy machine gets to the flood's types late
		select {
		case <-r.shown:
		case <-ctx.Done():
		}
	}
	dry()
	floods.Wait()
	close(faults)
	for err := range faults {
		check(t, err)
	}
	a := newFloodAccount(t, runs)
	a.read(c.all[0].tailed(t, c))
	a.judge()
	c.verified(t, 3)
	proveAll(t, c, uint64(len(log)))
}
