package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

type job struct {
	ID           rota.JobID        `json:"id"`
	Queue        rota.QueueName    `json:"queue"`
	Type         string            `json:"type"`
	Payload      any               `json:"payload"`
	Bytes        []byte            `json:"bytes"`
	DelayMs      int64             `json:"delay_ms"`
	MaxRuntimeMs int64             `json:"max_runtime_ms"`
	Attempts     int64             `json:"attempts"`
	Keys         map[string]string `json:"keys"`
	Unique       *struct {
		Key        string `json:"key"`
		OnConflict string `json:"on_conflict"`
	} `json:"unique"`
	Headers map[string]string `json:"headers"`
}

type request struct {
	N      int              `json:"n"`
	Do     string           `json:"do"`
	Addrs  string           `json:"addrs"`
	Jobs   []job            `json:"jobs"`
	Name   string           `json:"name"`
	Queues []rota.QueueName `json:"queues"`
	Slots  int32            `json:"slots"`
	ID     rota.JobID       `json:"id"`
	Type   string           `json:"type"`
	// Priority is of change, Counted of interrupt.
	Priority int32 `json:"priority"`
	Counted  bool  `json:"counted"`
}

// script is the payload of a job of type script: the step for each call.
type script struct {
	Calls []struct {
		Do      string `json:"do"`
		Ms      int64  `json:"ms"`
		Value   any    `json:"value"`
		Error   string `json:"error"`
		Percent int    `json:"percent"`
		Note    string `json:"note"`
	} `json:"calls"`
}

// raw is the codec of bytes.
type raw struct{}

func (raw) Marshal(v any) ([]byte, error)      { return v.([]byte), nil }
func (raw) Unmarshal(data []byte, v any) error { *v.(*[]byte) = data; return nil }

var (
	echo     = client.Define[any, any]("echo")
	verbatim = client.Define[[]byte, []byte]("bytes", client.Encoded(raw{}))
	scripted = client.Define[script, any]("script")
)

type driver struct {
	client *client.Client

	saying sync.Mutex
	mu     sync.Mutex
	calls  map[rota.JobID]int
	drains map[string]func() error
	// releases has a channel for each job, closed once the job's handlers are released.
	releases sync.Map
}

func main() {
	d := &driver{calls: map[rota.JobID]int{}, drains: map[string]func() error{}}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if r.Do == "connect" { // the following requests need it
			d.answer(&r)
		} else {
			go d.answer(&r)
		}
	}
}

func (d *driver) say(v any) {
	d.saying.Lock()
	defer d.saying.Unlock()
	_ = json.NewEncoder(os.Stdout).Encode(v)
}

func (d *driver) answer(r *request) {
	ok, err := d.do(context.Background(), r)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		d.say(map[string]any{"n": r.N, "error": kind(err)})
		return
	}
	d.say(map[string]any{"n": r.N, "ok": ok})
}

// kind returns the name of an error's kind.
func kind(err error) string {
	var e *rota.Error
	if errors.As(err, &e) {
		return e.Kind.String()
	}
	return err.Error()
}

func (d *driver) do(ctx context.Context, r *request) (ok any, err error) {
	ok = struct{}{}
	switch r.Do {
	case "connect":
		d.client, err = client.Dial(strings.Split(r.Addrs, ","), client.WithInsecure())
		return ok, err
	case "submit":
		return d.submit(ctx, r)
	case "wait":
		return d.wait(ctx, r)
	case "cancel", "retry", "delete", "change", "interrupt", "run_now":
		return ok, d.command(ctx, r)
	case "worker":
		return ok, d.work(r)
	case "drain":
		d.mu.Lock()
		drain := d.drains[r.Name]
		d.mu.Unlock()
		return ok, drain()
	case "release":
		released, _ := d.releases.LoadOrStore(r.ID, make(chan struct{}))
		close(released.(chan struct{}))
		return ok, nil
	}
	return nil, fmt.Errorf("%s is not a request", r.Do)
}

// command executes a request about one job.
func (d *driver) command(ctx context.Context, r *request) error {
	c := d.client
	if r.Do == "change" {
		_, err := c.ChangeJob(ctx, rota.JobChange{ID: r.ID, Priority: &r.Priority})
		return err
	}
	outcomes, err := map[string]func(context.Context, ...rota.JobID) ([]rota.JobOutcome, error){
		"cancel": c.Cancel, "retry": c.Retry, "delete": c.DeleteJobs, "run_now": c.RunNow,
		"interrupt": func(ctx context.Context, ids ...rota.JobID) ([]rota.JobOutcome, error) {
			return c.Interrupt(ctx, r.Counted, ids...)
		},
	}[r.Do](ctx, r.ID)
	if err != nil {
		return err
	}
	return outcomes[0].Err
}

func (d *driver) submit(ctx context.Context, r *request) (any, error) {
	var specs []rota.JobSpec
	for _, j := range r.Jobs {
		options := []client.JobOption{client.ID(j.ID), client.Queue(j.Queue), client.Headers(j.Headers),
			client.Spec(func(s *rota.JobSpec) {
				s.Type = rota.JobType(j.Type)
				s.Delay, s.MaxRuntime = time.Duration(j.DelayMs)*time.Millisecond, time.Duration(
					j.MaxRuntimeMs)*time.Millisecond
				if j.Unique != nil {
					s.Unique = &rota.Unique{Key: j.Unique.Key, OnConflict: j.Unique.OnConflict}
				}
			})}
		if j.Attempts > 0 {
			options = append(options, client.Retry(j.Attempts))
		}
		for name, value := range j.Keys {
			options = append(options, client.Key(name, value))
		}
		spec, err := echo.Job(j.Payload, options...)
		if j.Bytes != nil {
			spec, err = verbatim.Job(j.Bytes, options...)
		}
		if err != nil {
			return nil, err
		}
		specs = append(specs, spec)
	}
	said, err := d.client.Submit(ctx, specs...)
	if len(said) != len(specs) {
		return nil, err
	}
	var outcomes []map[string]any
	for i, s := range said {
		o := map[string]any{"id": specs[i].ID, "existed": s.Existed, "holder": s.Holder}
		if s.Err != nil {
			o["error"] = kind(s.Err)
		}
		outcomes = append(outcomes, o)
	}
	return map[string]any{"outcomes": outcomes}, nil
}

func (d *driver) wait(ctx context.Context, r *request) (any, error) {
	var output any
	var err error
	if r.Type == "bytes" {
		output, err = verbatim.Of(d.client, r.ID).Wait(ctx)
	} else {
		output, err = echo.Of(d.client, r.ID).Wait(ctx)
	}
	var failed *client.JobError
	if errors.As(err, &failed) {
		return map[string]any{"state": failed.Job.State.String(), "error": failed.Job.Error}, nil
	}
	return map[string]any{"state": rota.JobCompleted.String(), "output": output}, err
}

// work runs a worker until it is drained.
func (d *driver) work(r *request) error {
	w, err := client.NewWorker(d.client, rota.WorkerSpec{ID: rota.WorkerID(r.Name), Queues: r.Queues, Slots: r.Slots},
		client.Use(d.reported(r.Name)))
	if err != nil {
		return err
	}
	echo.Handle(w, func(_ context.Context, _ *client.Job, in any) (any, error) { return in, nil })
	verbatim.Handle(w, func(_ context.Context, _ *client.Job, in []byte) ([]byte, error) { return in, nil })
	scripted.Handle(w, d.play)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	d.mu.Lock()
	d.drains[r.Name] = func() error {
		stop()
		return <-ended
	}
	d.mu.Unlock()
	return nil
}

// reported makes handlers report their events.
func (d *driver) reported(worker string) client.Middleware {
	return func(next client.Handler) client.Handler {
		return func(ctx context.Context, job *client.Job) (client.Result, error) {
			say := func(what string) {
				d.say(map[string]any{"on": what, "worker": worker, "job": job.ID(), "token": job.Token().String()})
			}
			say("started")
			ended, watched := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(watched)
				select {
				case <-ctx.Done():
				case <-ended:
					if ctx.Err() == nil {
						return
					}
				}
				say("lost")
			}()
			defer func() { // a handler that ends because its lease is lost may be first to see it
				close(ended)
				<-watched
				say("ended")
			}()
			return next(ctx, job)
		}
	}
}

// play executes the script's step for this call.
func (d *driver) play(ctx context.Context, job *client.Job, in script) (any, error) {
	d.mu.Lock()
	i := min(d.calls[job.ID()], len(in.Calls)-1)
	d.calls[job.ID()]++
	d.mu.Unlock()
	call := in.Calls[i]
	span := time.Duration(call.Ms) * time.Millisecond
	switch failure := errors.New(call.Error); call.Do {
	case "return":
	case "progress", "sleep":
		if call.Do == "progress" {
			job.Progress(call.Percent, call.Note)
		}
		released, _ := d.releases.LoadOrStore(job.ID(), make(chan struct{}))
		select {
		case <-time.After(span):
		case <-released.(chan struct{}):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	case "block":
		time.Sleep(span)
	case "fail":
		return nil, failure
	case "retry_after":
		return nil, client.RetryAfter(span, failure)
	case "snooze":
		return nil, client.Snooze(span)
	case "no_retry":
		return nil, client.NoRetry(failure)
	case "cancel":
		return nil, client.Cancel(failure)
	case "log":
		client.Log(ctx).Info(call.Error)
	case "headers":
		return job.Headers(), nil
	case "token":
		return job.Token().String(), nil
	case "parents":
		outputs, err := job.Parents(ctx)
		all := map[string]any{}
		for _, p := range outputs {
			var v any
			if err := json.Unmarshal(p.Output, &v); err != nil {
				return nil, err
			}
			all[p.Node] = v
		}
		return all, err
	default:
		return nil, client.NoRetry(fmt.Errorf("%s is not known", call.Do))
	}
	return call.Value, nil
}
