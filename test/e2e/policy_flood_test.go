package e2e

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// floodTrace is a job log of data/traces, from this folder.
var floodTrace = filepath.Join("..", "..", "..", "shared", "data", "traces", "lublin_256.swf.gz")

const (
	// floodJobs of the log are replayed, so much faster than they were: 2,000 in 18 s,
	// of 49 ms each, 5.5 at once on average.
	floodJobs    = 2_000
	floodSpeedup = 100_000
	// A machine of four workers, with room for the commits around such short jobs.
	floodWorkers, floodSlots = 4, 16
	// The flood is more than the machine does in the time of the replay.
	floodExtra  = 20_000
	floodWorkMs = 80
)

// traced is a job of the log, in the time of the replay.
type traced struct {
	at, run time.Duration
}

// readTrace reads the first jobs of the log.
func readTrace(t *testing.T, most int) []traced {
	t.Helper()
	file, err := os.Open(floodTrace)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("the job log %s is not there", floodTrace)
	}
	check(t, err)
	defer file.Close()
	text, err := gzip.NewReader(file)
	check(t, err)
	var jobs []traced
	first := int64(-1)
	for lines := bufio.NewScanner(text); lines.Scan() && len(jobs) < most; {
		words := strings.Fields(lines.Text())
		if len(words) != 18 {
			continue // the header
		}
		at, err := strconv.ParseInt(words[1], 10, 64)
		check(t, err)
		run, err := strconv.ParseInt(words[3], 10, 64)
		check(t, err)
		if first < 0 {
			first = at
		}
		jobs = append(jobs, traced{time.Duration(at-first) * time.Second / floodSpeedup, time.Duration(run) * time.Second / floodSpeedup})
	}
	return jobs
}

// floodRun is one replay: the log's jobs go in turn to three tenants, of which the
// first, t0, may send so many more of its own at once.
type floodRun struct {
	name  string
	set   []string
	limit int // max_concurrent of t0
	extra int
}

// waited is what a run shows: the waits of the quiet tenants' jobs from being
// queued to their lease, ascending, and when all of those were done how many of the
// flood's jobs still stood in the queue.
type waited struct {
	waits []rota.Clock
	left  int64
	// round is δ of SPEC §5.5, the dispatch interval and two commits as submitters saw
	// them at the 95th percentile, and a flood job's own time, which frees no room.
	round rota.Clock
}

func (w *waited) at(permille int) rota.Clock { return w.waits[(len(w.waits)-1)*permille/1000] }

// replay runs it on workers of its own.
func (r *floodRun) replay(t *testing.T, c *nodes, log []traced) *waited {
	t.Helper()
	cl := c.dial(t)
	c.rota(t, "tenant", "set", "t0", "--max-concurrent", fmt.Sprint(r.limit), "--penalty", "0s").want(t, 0)
	q := c.policyQueue(t, r.name, "standard", append([]string{"oldest_every=0"}, r.set...)...)
	var workers []*process
	for i := range floodWorkers {
		workers = append(workers, c.worker(t, "--queues", r.name, "--id", fmt.Sprint(r.name, "-w", i), "--slots", fmt.Sprint(floodSlots)))
	}
	var extra []rota.JobSpec
	for i := range r.extra {
		extra = append(extra, policyJob(fmt.Sprintf("%s-flood-%05d", r.name, i), q, ofType("flood"), func(s *rota.JobSpec) {
			s.Tenant, s.SimulateMs = "t0", floodWorkMs
		}))
	}
	submitAll(t, cl, extra...)
	commits := r.send(t, cl, q, log)
	quiet := func(i int) bool { return i%3 != 0 }
	var ids []rota.JobID
	for i := range log {
		if quiet(i) {
			ids = append(ids, r.id(i))
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 120*time.Second)
	defer cancel()
	check(t, cl.Wait(ctx, ids, func(job rota.Job) error {
		if job.State != rota.Completed {
			return fmt.Errorf("job %s is %s", job.ID, job.State)
		}
		return nil
	}))
	w := &waited{left: decode[rota.Queue](t, c.rota(t, "queue", "show", r.name, "-o", "json")).Queued}
	c.rota(t, "queue", "pause", r.name).want(t, 0)
	for _, one := range workers {
		one.stop(t, 20*time.Second)
	}
	w.round = rota.Clock(rota.StandardPolicy().DispatchIntervalMs + 2*commits.Milliseconds() + floodWorkMs)
	r.account(t, cl, w)
	return w
}

func (r *floodRun) id(i int) rota.JobID { return rota.JobID(fmt.Sprintf("%s-%05d", r.name, i)) }

// send submits the log's jobs when they are due, and gives how long a call took at
// the 95th percentile.
func (r *floodRun) send(t *testing.T, cl *client.Client, q rota.QueueName, log []traced) time.Duration {
	t.Helper()
	var took []time.Duration
	began := time.Now()
	for i := 0; i < len(log); {
		time.Sleep(time.Until(began.Add(log[i].at)))
		var due []rota.JobSpec
		for ; i < len(log) && time.Since(began) >= log[i].at && len(due) < rota.MaxBatchJobs; i++ {
			due = append(due, policyJob(string(r.id(i)), q, ofType("trace"), func(s *rota.JobSpec) {
				s.Tenant, s.SimulateMs = rota.TenantID(fmt.Sprint("t", i%3)), log[i].run.Milliseconds()
			}))
		}
		called := time.Now()
		submitAll(t, cl, due...)
		took = append(took, time.Since(called))
	}
	slices.Sort(took)
	return took[(len(took)-1)*95/100]
}

// account reads what became of the jobs.
func (r *floodRun) account(t *testing.T, cl *client.Client, w *waited) {
	t.Helper()
	for _, tenant := range []rota.TenantID{"t1", "t2"} {
		filter := rota.JobFilter{Queue: rota.QueueName(r.name), Tenant: tenant, Limit: rota.MaxPage}
		for {
			page, _, err := cl.Jobs(within(t), filter, rota.ReadOptions{})
			check(t, err)
			for _, j := range page.Jobs {
				w.waits = append(w.waits, j.FirstLease.Clock-j.Enqueued.Clock)
			}
			if filter.Cursor = page.NextCursor; filter.Cursor == "" {
				break
			}
		}
	}
	slices.Sort(w.waits)
	t.Logf("%s: %d jobs of quiet tenants waited %d ms in the median, %d at the 95th percentile, %d at most; %d of the flood left; a round is %d ms",
		r.name, len(w.waits), w.at(500), w.at(950), w.at(1000), w.left, w.round)
}

// TestThreeTenantsOneFloods replays a job log with three tenants of which one
// floods. Under fair share, and under max_concurrent, the others wait one round
// longer at most than without the flood; with neither they wait for the flood.
// Then what the nodes keep of all that is audited.
func TestThreeTenantsOneFloods(t *testing.T) {
	long(t)
	log := readTrace(t, floodJobs)
	c := newCluster(t, 3)
	slots := floodWorkers * floodSlots
	calm := (&floodRun{name: "calm"}).replay(t, c, log)
	shared := (&floodRun{name: "shared", extra: floodExtra}).replay(t, c, log)
	limited := (&floodRun{name: "limited", set: []string{"fair_share=off"}, limit: slots / 2, extra: floodExtra}).replay(t, c, log)
	neither := (&floodRun{name: "neither", set: []string{"fair_share=off"}, extra: floodExtra / 2}).replay(t, c, log[:floodJobs/10])
	for name, w := range map[string]*waited{"fair share": shared, "max_concurrent": limited} {
		if w.left == 0 {
			t.Errorf("%s: the flood was over before the quiet tenants' jobs were", name)
		}
		for _, permille := range []int{500, 950} {
			if got, most := w.at(permille), calm.at(permille)+w.round; got > most {
				t.Errorf("%s: at %d permille a quiet tenant's job waits %d ms, without the flood %d: a round more is %d", name, permille,
					got, calm.at(permille), most)
			}
		}
	}
	if got := neither.at(500); got <= calm.at(500)+neither.round {
		t.Errorf("without fair share and limit a quiet job waits %d ms: the flood is none, and the test shows nothing", got)
	}
	c.verified(t, 3)
	proveAll(t, c, 1000)
}
