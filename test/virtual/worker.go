package virtual

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/test/jepsen-lite/check"
)

// worker is a host that runs workers of the client library, one process after another.
type worker struct {
	life   *life
	number int
	host   host
	queue  rota.QueueName

	mu     sync.Mutex
	starts int
	run    *workerRun
	gone   sync.WaitGroup
	secret []byte
	id     rota.WorkerID
	// down means that a fault ended the last process, and another fault will start one.
	down bool
}

// workerRun is one process of a worker.
type workerRun struct {
	worker *worker
	id     rota.WorkerID
	client *client.Client
	stop   context.CancelFunc // as SIGTERM
	kill   context.CancelFunc // ends handlers, so that the goroutines end
	// dead means that the process has ended, whatever its goroutines still do.
	dead bool // guarded by worker.mu
}

func newWorker(l *life, number int) *worker {
	return &worker{life: l, number: number, host: host(fmt.Sprintf("w%d", number+1)), queue: queueName}
}

const workerSlots = 3

// start starts a process: with the id and secret of the previous one, as after a restart on the same machine, or with
// new ones.
func (w *worker) start(same bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.run != nil || w.life.ctx.Err() != nil {
		return
	}
	w.starts++
	w.down = false
	if !same || w.secret == nil {
		w.id = rota.WorkerID(fmt.Sprintf("%s-%d", w.host, w.starts))
		w.secret = []byte(fmt.Sprintf("secret of %s, 16 and more bytes", w.id))
	}
	w.life.net.Revive(w.host)
	r := &workerRun{worker: w, id: w.id, client: w.life.dial(w.host, w.life.servers)}
	ctx, stop := context.WithCancel(context.Background())
	hard, kill := context.WithCancel(context.Background())
	r.stop, r.kill = stop, kill
	spec := rota.WorkerSpec{ID: r.id, Queues: []rota.QueueName{w.queue}, Slots: workerSlots, Prefetch: 1}
	lib, err := client.NewWorker(r.client, spec, client.WithSecret(w.secret), client.WithClock(w.life.sinceBoot),
		client.WithHardStop(hard), client.WithDrainTimeout(5*time.Second), client.WithTakeover(),
		client.WithObserver(client.Observer{Started: r.started, Finished: r.finished, Lost: r.lost,
			Reported: r.reported}))
	if err != nil {
		panic(err) // the spec is ours
	}
	lib.Handle("", r.handle)
	w.run = r
	w.gone.Go(func() {
		if err := lib.Run(ctx); err != nil && !r.isDead() && !excusable(err) {
			w.life.log.Warn("worker ended", "worker", string(r.id), "err", err)
		}
		r.bury()
		_ = r.client.Close()
		stop()
		kill()
	})
}

// excusable reports whether an end is beyond the worker's control: its session was taken over or has ended by silence.
func excusable(err error) bool {
	kind := rota.KindOf(err)
	return kind == rota.KindStale || kind == rota.KindUnavailable || kind == rota.KindTimeout
}

// bury records that the process is over.
func (r *workerRun) bury() {
	w := r.worker
	w.mu.Lock()
	defer w.mu.Unlock()
	r.dead = true
	if w.run == r {
		w.run = nil
	}
	w.life.ledger.died(r)
}

func (r *workerRun) isDead() bool {
	r.worker.mu.Lock()
	defer r.worker.mu.Unlock()
	return r.dead
}

// crash ends the process at once: its beliefs end, unreported.
func (w *worker) crash(silent bool) {
	w.mu.Lock()
	r := w.run
	w.run = nil
	if r == nil {
		w.mu.Unlock()
		return
	}
	r.dead, w.down = true, true
	w.life.net.Crash(w.host, silent)
	left := w.life.ledger.died(r)
	w.mu.Unlock()
	w.life.watch.abandoned(left)
	r.kill()
	r.stop()
	_ = r.client.Close()
}

// leave ends the process as SIGTERM does.
func (w *worker) leave() {
	w.mu.Lock()
	r := w.run
	w.down = true
	w.mu.Unlock()
	if r == nil {
		return
	}
	r.stop()
}

// ended reports whether no process runs although none was stopped.
func (w *worker) ended() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.run == nil && !w.down
}

func (w *worker) running() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.run != nil
}

// task is the instruction to the handler in a job's payload.
type task struct {
	takes time.Duration
	// fails is how many attempts fail; forGood makes the first one final.
	fails   int32
	forGood bool
	// mark is the owner of the payload, "" for any; grows is the growth of a workflow's node.
	mark  string
	grows *rota.Growth
}

func (t task) payload() []byte {
	grows, err := json.Marshal(t.grows)
	if err != nil {
		panic(err) // nodes can always be encoded
	}
	return fmt.Appendf(nil, "%d %d %t %s %s", t.takes.Milliseconds(), t.fails, t.forGood, t.mark, grows)
}

func parseTask(payload []byte) (t task, err error) {
	parts := strings.SplitN(string(payload), " ", 5)
	if len(parts) != 5 {
		return t, fmt.Errorf("payload %q has not five words", payload)
	}
	ms, err1 := strconv.ParseInt(parts[0], 10, 64)
	fails, err2 := strconv.ParseInt(parts[1], 10, 32)
	forGood, err3 := strconv.ParseBool(parts[2])
	t = task{takes: time.Duration(ms) * time.Millisecond, fails: int32(fails), forGood: forGood, mark: parts[3]}
	return t, errors.Join(err1, err2, err3, json.Unmarshal([]byte(parts[4]), &t.grows))
}

// drawTask draws a job: most are short, some take several leases.
func drawTask(random *rand.Rand) task {
	t := task{takes: time.Duration(50+random.IntN(1500)) * time.Millisecond}
	switch random.IntN(20) {
	case 0, 1, 2:
		t.takes = 11*time.Second + time.Duration(random.IntN(8_000))*time.Millisecond
	case 3, 4:
		t.takes = 3*time.Second + time.Duration(random.IntN(5_000))*time.Millisecond
	case 5:
		t.fails = 1 + random.Int32N(2)
	case 6:
		t.forGood = random.IntN(2) == 0
	}
	return t
}

// handle does a job: its output names the lease under which it was done.
func (r *workerRun) handle(ctx context.Context, job *client.Job) (client.Result, error) {
	t, err := parseTask(job.Payload())
	if err != nil {
		r.worker.life.violate("payloads arrive whole", "job %s: %v", job.ID(), err)
		return client.Result{}, client.NoRetry(err)
	}
	r.worker.life.ledger.holds(r, job, t.mark)
	if _, _, ok := job.Workflow(); ok {
		r.hear(ctx, job)
	}
	_, _ = io.WriteString(job.Log(), check.LogText(job.Lease().String(), logLines(job.Lease())))
	timer := time.NewTimer(t.takes)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return client.Result{}, context.Cause(ctx)
	}
	switch {
	case t.forGood:
		return client.Result{}, client.NoRetry(errors.New("as asked, for good"))
	case job.Attempt() < t.fails:
		return client.Result{}, errors.New("as asked")
	}
	return client.Result{Output: []byte(job.Lease().String()), Children: t.grows}, nil
}

// hear reads the outputs of the job's parents; without an answer in time it continues.
func (r *workerRun) hear(ctx context.Context, job *client.Job) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if outputs, err := job.Parents(ctx); err == nil {
		r.worker.life.ledger.hears(job.ID(), outputs)
	}
}

func (r *workerRun) started(e client.HandlerEvent)  { r.worker.life.ledger.started(r, e) }
func (r *workerRun) finished(e client.HandlerEvent) { r.worker.life.ledger.finished(r, e) }
func (r *workerRun) lost(e client.HandlerEvent)     { r.worker.life.ledger.lost(r, e) }
func (r *workerRun) reported(e client.HandlerEvent) { r.worker.life.ledger.reported(r, e) }
