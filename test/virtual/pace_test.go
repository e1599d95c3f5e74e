package virtual

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// The pace of a cluster in virtual time: computing takes no time, a log write and a message always take the same. So
// the times below consist only of a job's waits, on every machine.
const (
	paceWrite   = 2 * time.Millisecond
	paceMessage = 100 * time.Microsecond
)

// paceCycles is, by number of workers, how many tenths of a commit pass from one job of a slot to the next, while the
// previous one is reported.
var paceCycles = map[int]time.Duration{1: 10, 3: 12}

// pace holds the measurements.
type pace struct {
	// submits holds the times from a job's due time to the answer, starts until its handler began, ends until its
	// completion was confirmed.
	submits, starts, ends []time.Duration
	// writes counts those of all logs together.
	writes int
}

func (p *pace) String() string {
	at := func(all []time.Duration, permille int) time.Duration {
		return all[(len(all)-1)*permille/1000].Round(10 * time.Microsecond)
	}
	return fmt.Sprintf("submission p50 %v p99 %v, start p50 %v p99 %v, end to end p50 %v p99 %v, writes %.2f a job",
		at(p.submits, 500), at(p.submits, 990), at(p.starts, 500), at(p.starts, 990), at(p.ends, 500), at(p.ends, 990),
		float64(p.writes)/float64(len(p.ends)))
}

// runPace submits jobs one by one at regular intervals to workers with the given number of slots each, and returns how
// long each job took. message is the time that a message takes.
func runPace(t *testing.T, jobs int, every, message time.Duration, workers int, slots int32) *pace {
	t.Helper()
	o := options{seed: 1, nodes: 3, dir: memoryDir(t), log: slog.New(slog.DiscardHandler)}
	measured := &pace{}
	inBubble(t, func(t *testing.T) {
		l := newLife(o)
		l.net.Even = message
		l.startAll()
		ctx, cancel := context.WithTimeout(l.ctx, 10*time.Minute)
		defer cancel()
		admin := l.dial("admin", l.servers)
		if _, err := admin.SetQueue(ctx, queueName, "", queueSettings); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		due := make(map[rota.JobID]time.Time)
		var all, running sync.WaitGroup
		all.Add(jobs)
		started := func(e client.HandlerEvent) {
			mu.Lock()
			defer mu.Unlock()
			measured.starts = append(measured.starts, time.Since(due[e.Job]))
		}
		reported := func(e client.HandlerEvent) {
			if e.Verb != rota.VerbComplete || e.Err != nil {
				t.Errorf("job %s ended with verb %v, %v", e.Job, e.Verb, e.Err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			measured.ends = append(measured.ends, time.Since(due[e.Job]))
			all.Done()
		}
		work, stop := context.WithCancel(ctx)
		var clients []*client.Client
		for i := range workers {
			at := i % len(l.servers) // one more than nodes, so that one has two
			c := l.dial(host(fmt.Sprintf("w%d", i)), append(slices.Clone(l.servers[at:]), l.servers[:at]...))
			w, err := client.NewWorker(c, rota.WorkerSpec{ID: rota.WorkerID(fmt.Sprintf("w%d", i)),
				Queues: []rota.QueueName{queueName}, Slots: slots, Prefetch: slots}, client.WithClock(l.sinceBoot),
				client.WithObserver(client.Observer{Started: started, Reported: reported}))
			if err != nil {
				t.Fatal(err)
			}
			w.Handle("", func(context.Context, *client.Job) (client.Result, error) { return client.Result{}, nil })
			clients = append(clients, c)
			running.Go(func() { _ = w.Run(work) })
		}
		time.Sleep(2 * time.Second)
		for _, s := range l.servers {
			s.mu.Lock()
			s.writeDelay, s.writes = paceWrite, 0
			s.mu.Unlock()
		}
		time.Sleep(time.Second)
		began := time.Now()
		for i := range jobs {
			time.Sleep(time.Until(began.Add(time.Duration(i) * every)))
			spec := rota.NewJobSpec("pace", nil)
			spec.ID, spec.Queue = rota.JobID(fmt.Sprintf("job-%d", i)), queueName
			at := time.Now()
			mu.Lock()
			due[spec.ID] = at
			mu.Unlock()
			all.Go(func() {
				if _, err := admin.Submit(ctx, spec); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				measured.submits = append(measured.submits, time.Since(at))
			})
		}
		all.Wait()
		for _, s := range l.servers {
			s.mu.Lock()
			measured.writes += s.writes
			s.writeDelay = 0
			s.mu.Unlock()
		}
		stop()
		running.Wait()
		for _, c := range append(clients, admin) {
			_ = c.Close()
		}
		l.end()
		var servers sync.WaitGroup
		for _, s := range l.servers {
			servers.Go(s.stop)
		}
		servers.Wait()
	})
	slices.Sort(measured.submits)
	slices.Sort(measured.starts)
	slices.Sort(measured.ends)
	return measured
}

// TestPace checks a cluster's pace: anything that adds a wait to a job, such as a timer, a tick, another loop, or a
// second disk after the first, shows here.
func TestPace(t *testing.T) {
	// commit is the time of an entry: the way to a follower, a write there while the leader writes, and the way back.
	const commit = paceWrite + 2*paceMessage
	t.Run("a lone job starts within a commit and a half", func(t *testing.T) {
		p := runPace(t, 30, 201*time.Millisecond, paceMessage, 4, 64)
		t.Log(p)
		// Half of them: a sweep or a stamp in progress makes a job wait for it first.
		if half := p.starts[len(p.starts)/2]; 2*half > 3*commit {
			t.Errorf("the start came after %v in the middle: a commit takes %v", half, commit)
		}
	})
	t.Run("500 jobs a second", func(t *testing.T) {
		p := runPace(t, 1000, 2*time.Millisecond+13*time.Microsecond, paceMessage, 4, 64)
		t.Log(p)
		// A submission waits for the rest of the current commit, and has its round in its own entry; a completion just
		// misses one: about four.
		if half, most := p.ends[len(p.ends)/2], p.ends[len(p.ends)*99/100]; half > 4*commit || most > 6*commit {
			t.Errorf("end to end took %v in the middle and %v at the 99th percentile: a commit takes %v", half, most,
				commit)
		}
	})
	t.Run("one slot, one job after the other", func(t *testing.T) {
		for _, workers := range []int{1, 3} {
			p := runPace(t, 200*workers, 0, paceMessage, workers, 1)
			each := (p.ends[len(p.ends)-1] - p.ends[0]) * time.Duration(workers) / time.Duration(len(p.ends)-1)
			t.Log(workers, each, p)
			// A completion and the lease of a pending job are one entry. Two entries would take half as long again.
			if each > paceCycles[workers]*commit/10 {
				t.Errorf("%d workers with one slot took %v from job to job: a commit takes %v", workers, each, commit)
			}
		}
	})
	t.Run("200 jobs a second between regions", func(t *testing.T) {
		const message = 20 * time.Millisecond
		p := runPace(t, 400, 5*time.Millisecond+13*time.Microsecond, message, 4, 64)
		t.Log(p)
		// The way to the leader and back, and the same of two commits.
		const commit = paceWrite + 2*message
		if half := p.submits[len(p.submits)/2]; half > 2*message+2*commit {
			t.Errorf("submissions took %v in the middle: a commit takes %v", half, commit)
		}
		if half := p.ends[len(p.ends)/2]; half > 7*commit {
			t.Errorf("end to end took %v in the middle: a commit takes %v", half, commit)
		}
	})
}
