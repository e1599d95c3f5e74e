package workload

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/test/jepsen-lite/check"
	"github.com/rotasched/rota/test/jepsen-lite/fault"
)

// A worker has workerSlots slots, and prefetches 1/prefetchPart of as many jobs.
const (
	workerSlots  = 16
	prefetchPart = 2
)

// workerConfig is the configuration that a worker process reads on its standard input.
type workerConfig struct {
	Name   string   `json:"name"`
	ID     string   `json:"id"`
	Secret []byte   `json:"secret"`
	Addrs  []string `json:"addrs"`
	fault.Entrance
	Queues []rota.QueueName `json:"queues"`
	Slots  int32            `json:"slots"`
	Seed   uint64           `json:"seed"`
	Base   int64            `json:"base"`
	// Calm is when its handlers stop to fail and decline on purpose: three of those in a row keep a worker from all
	// jobs for 30 s (SPEC §6.2), which would distort how fast the healed cluster drains.
	Calm int64 `json:"calm"`
}

// workProcess is the inside of a worker process: real handlers, which write a line of JSON to standard output for each
// observation before they continue.
type workProcess struct {
	workerConfig
	mu   sync.Mutex
	rand *rand.Rand
	// did is how the handler of a lease ended it.
	did map[rota.LeaseID]ending
}

type ending struct {
	did, output string
	at          int64
	// shown is the token that the worker presented then.
	shown string
}

// Work is a worker process's whole life.
func Work() error {
	p := &workProcess{did: make(map[rota.LeaseID]ending)}
	line, err := bufio.NewReader(os.Stdin).ReadBytes('\n')
	if err != nil {
		return err
	}
	if err := json.Unmarshal(line, &p.workerConfig); err != nil {
		return err
	}
	p.rand = rand.New(rand.NewPCG(p.Seed, 2))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
	options, err := p.Options()
	if err != nil {
		return err
	}
	c, err := client.Dial(p.Addrs, append(options, client.WithLogger(log))...)
	if err != nil {
		return err
	}
	defer c.Close()
	spec := rota.WorkerSpec{ID: rota.WorkerID(p.ID), Queues: p.Queues, Slots: p.Slots, Prefetch: p.Slots / prefetchPart}
	w, err := client.NewWorker(c, spec, client.WithSecret(p.Secret), client.WithObserver(p.observer()),
		client.WithDrainTimeout(5*time.Second))
	if err != nil {
		return err
	}
	w.Handle("", p.handle)
	return w.Run(ctx)
}

func (p *workProcess) now() int64 { return check.Monotonic() - p.Base }

// emit writes an operation, completely and at once: a written line survives any end of this process.
func (p *workProcess) emit(op check.Op) {
	op.Process = p.Name
	line, err := json.Marshal(op)
	if err != nil {
		panic(err) // an Op can always be written
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = os.Stdout.Write(append(line, '\n'))
}

func (p *workProcess) chance() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rand.IntN(1000)
}

// handle follows the payload. First it reports that it holds the job, last that it no longer does.
func (p *workProcess) handle(ctx context.Context, job *client.Job) (client.Result, error) {
	start := p.now()
	op := check.Op{Job: string(job.ID()), Token: job.Token(), Lease: job.Lease().String(), Attempt: job.Attempt()}
	var plan jobPlan
	_ = json.Unmarshal(job.Payload(), &plan) // another's job: no work
	begun := op
	begun.Func, begun.Invoke, begun.Return, begun.Outcome, begun.Output = check.OpStart, start, start, check.OK, plan.Mark
	p.emit(begun)
	logged := check.LogText(op.Lease, plan.Log)
	_, _ = io.WriteString(job.Log(), logged[:len(logged)/2])
	if plan.Spend > 0 {
		_ = job.Spend(chaosBudget.Unit, float64(plan.Spend)/20)
	}
	did, output := check.DidComplete, fmt.Sprintf("%s/%s", job.ID(), job.Token())
	var err error
	switch chance := p.chance(); {
	case !fault.Rest(ctx, time.Duration(plan.Ms)*time.Millisecond):
		did, err = check.DidLose, context.Cause(ctx)
		if errors.Is(err, client.ErrDrainTimeout) {
			did = check.DidDecline
		}
		var lost *client.LostError
		if errors.As(err, &lost) && lost.Reason == rota.ReasonCancelledByUser {
			time.Sleep(time.Duration(min(plan.Clean, maxClean)) * time.Millisecond)
		}
	case p.now() > p.Calm:
	case chance < plan.NoRetry:
		did, err = check.DidNoRetry, client.NoRetry(errors.New("planned: for good"))
	case chance < plan.NoRetry+plan.Fail:
		did, err = check.DidFail, errors.New("planned: this time")
	case chance < plan.NoRetry+plan.Fail+plan.Decline:
		did, err = check.DidDecline, client.Decline(errors.New("planned: not me"))
	case chance < plan.NoRetry+plan.Fail+plan.Decline+plan.Snooze:
		did, op.WaitMs = check.DidSnooze, int64(1+chance)
		err = client.Snooze(time.Duration(op.WaitMs) * time.Millisecond)
	case chance < plan.NoRetry+plan.Fail+plan.Decline+plan.Snooze+plan.Cancel:
		did, err = check.DidCancel, client.Cancel(errors.New("planned: nothing is left to do"))
	case chance < plan.NoRetry+plan.Fail+plan.Decline+plan.Snooze+plan.Cancel+plan.Later:
		did, op.WaitMs = check.DidLater, int64(1+chance)
		err = client.RetryAfter(time.Duration(op.WaitMs)*time.Millisecond, errors.New("planned: later"))
	}
	if plan.Spend > 0 && did != check.DidLose {
		_ = job.Spend(chaosBudget.Unit, float64(plan.Spend)/10)
	}
	if plan.Log > 0 && did != check.DidLose {
		_, _ = io.WriteString(job.Log(), logged[len(logged)/2:])
		op.Logged = plan.Log
	}
	end := p.now()
	op.Func, op.Invoke, op.Return, op.Outcome, op.Did, op.Output = check.OpEnd, start, end, check.OK, did, output
	p.mu.Lock()
	p.did[job.Lease()] = ending{did, output, end, p.Shown()}
	p.mu.Unlock()
	p.emit(op)
	return client.Result{Output: []byte(output), Children: plan.Grow}, err
}

func (p *workProcess) observer() client.Observer {
	return client.Observer{
		Lost: func(e client.HandlerEvent) {
			op := p.about(check.OpLost, e)
			op.Invoke, op.Return = p.now(), p.now()
			var lost *client.LostError
			if errors.As(e.Err, &lost) {
				op.Kind, op.Text = lost.Reason.String(), lost.Text
			}
			p.emit(op)
		},
		Reported: func(e client.HandlerEvent) {
			op := p.about(check.OpReport, e)
			p.mu.Lock()
			did, known := p.did[e.Lease]
			delete(p.did, e.Lease)
			p.mu.Unlock()
			op.Did, op.Output, op.Invoke = did.did, did.output, did.at
			if op.Return = p.now(); !known || did.did == check.DidLose {
				op.Did, op.Invoke = check.DidDecline, 0 // it never ran, or was given up: the library gives it back
			}
			op.Outcome, op.Kind = check.OutcomeOf(e.Err)
			if op.Shown = did.shown; op.Shown != p.Shown() {
				op.Shown = "" // either token is possible
			}
			if op.Kind == rota.KindUnauthenticated.String() || op.Kind == rota.KindDenied.String() {
				op.Outcome = check.Unknown // an earlier try may have been accepted
			}
			if e.Err != nil {
				op.Text = check.Short(e.Err.Error())
			}
			p.emit(op)
		},
		Connected:    func(e client.ConnectionEvent) { p.emit(p.link(check.OpConnect, e)) },
		Disconnected: func(e client.ConnectionEvent) { p.emit(p.link(check.OpDisconnect, e)) },
	}
}

func (p *workProcess) about(what string, e client.HandlerEvent) check.Op {
	return check.Op{Func: what, Job: string(e.Job), Token: e.Token, Lease: e.Lease.String(), Attempt: e.Attempt,
		Outcome: check.OK}
}

func (p *workProcess) link(what string, e client.ConnectionEvent) check.Op {
	op := check.Op{Func: what, Node: string(e.Node), Invoke: p.now(), Return: p.now(), Outcome: check.OK,
		Did: fmt.Sprint(e.Session)}
	if e.Err != nil {
		op.Text = check.Short(e.Err.Error())
	}
	return op
}
