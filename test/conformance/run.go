package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/test/rig"
)

// run is one life of a scenario: its cluster, its driver, and its requests.
type run struct {
	cluster *cluster
	driver  *driver
	// start starts a connected driver.
	start func() (*driver, error)
	// prefix begins every id, and is the queue, so that lives share a cluster.
	prefix string
	// deadly: the leader dies at the scenario's step for it.
	deadly bool
	// again restarts the node that died; nil while all run.
	again func() error
	// past are the reports of drivers that ended, in order.
	past []answer
	// drains are the drains that the driver has not answered.
	drains []<-chan error
	// slow is how long each step waits first, as on a busy machine.
	slow time.Duration
}

// live executes the steps, and judges the result.
func (r *run) live(ctx context.Context, s *scenario) (err error) {
	if err := r.set(ctx, map[string]string{"backoff_base": "200ms", "backoff_jitter": "0"}); err != nil {
		return err
	}
	if r.driver, err = r.start(); err != nil {
		return err
	}
	defer func() {
		if r.driver != nil {
			err = errors.Join(err, r.driver.close())
		}
		if r.again != nil {
			err = errors.Join(err, r.again())
		}
	}()
	for i, step := range s.Steps {
		time.Sleep(r.slow)
		if err := r.step(ctx, &step); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	for _, drained := range r.drains {
		if err := <-drained; err != nil {
			return err
		}
	}
	return r.judge(ctx)
}

func (r *run) queue() string { return r.prefix + "q" }

// set sets keys of the queue.
func (r *run) set(ctx context.Context, keys map[string]string) error {
	var settings []rota.Setting
	for _, key := range sorted(keys) {
		settings = append(settings, rota.Setting{Key: key, Value: keys[key]})
	}
	_, err := r.cluster.client.SetQueue(ctx, rota.QueueName(r.queue()), "", settings)
	return err
}

// step executes one step.
func (r *run) step(ctx context.Context, s *step) error {
	switch {
	case s.Queue != nil:
		return r.set(ctx, s.Queue)
	case s.Rule != nil:
		return r.cluster.client.Keys().SetRule(ctx, rota.KeyRule{Queue: rota.QueueName(r.queue()), Name: s.Rule.Name,
			Concurrency: s.Rule.Concurrency})
	case s.Worker != nil:
		return r.ok("worker", map[string]any{"name": r.prefix + s.Worker.Name, "queues": []string{r.queue()},
			"slots": max(1, s.Worker.Slots)})
	case s.Submit != nil:
		return r.submit(s.Submit)
	case s.Workflow != nil:
		return r.workflow(ctx, s.Workflow)
	case s.Wait != nil:
		return r.wait(s.Wait)
	case s.Ask != nil:
		kind, err := r.driver.ask(s.Ask.Do, map[string]any{"id": r.prefix + s.Ask.Job, "counted": s.Ask.Counted,
			"priority": s.Ask.Priority}, nil)
		if err == nil && kind != s.Ask.Refused {
			err = fmt.Errorf("%s of %s: got answer %q, want %q", s.Ask.Do, s.Ask.Job, kind, s.Ask.Refused)
		}
		return err
	case s.Retire != "":
		_, err := r.cluster.client.RetireWorker(ctx, rota.WorkerID(r.prefix+s.Retire))
		return err
	case s.Drain != "":
		return r.drain(ctx, rota.WorkerID(r.prefix+s.Drain))
	case s.Release != "":
		return r.ok("release", map[string]any{"id": r.prefix + s.Release})
	case s.Started != nil:
		return r.driver.await(ctx, "started", r.prefix+s.Started.Job, max(1, s.Started.Times))
	case s.Lost != nil:
		return r.driver.await(ctx, "lost", r.prefix+s.Lost.Job, max(1, s.Lost.Times))
	case s.Leader == "dies":
		return r.killLeader(ctx)
	case s.Nodes == "roll":
		return r.cluster.roll(ctx)
	case s.Driver == "dies":
		r.driver.kill()
		r.past, r.driver = append(r.past, buried(r.driver.reports)...), nil
		return nil
	case s.Driver == "starts":
		var err error
		r.driver, err = r.start()
		return err
	case s.Expect != nil:
		return r.expect(ctx, s.Expect)
	}
	return fmt.Errorf("the step has no known action")
}

// ok sends the driver a request that must succeed.
func (r *run) ok(do string, args map[string]any) error {
	kind, err := r.driver.ask(do, args, nil)
	if err == nil && kind != "" {
		err = fmt.Errorf("%s was refused as %s", do, kind)
	}
	return err
}

// drain makes the driver end a worker, which it answers once the worker has ended. It waits until the cluster no longer
// gives the worker jobs, so that its handlers may be released.
func (r *run) drain(ctx context.Context, id rota.WorkerID) error {
	drained, driver := make(chan error, 1), r.driver
	go func() {
		kind, err := driver.ask("drain", map[string]any{"name": string(id)}, nil)
		if err == nil && kind != "" {
			err = fmt.Errorf("drain was refused as %s", kind)
		}
		drained <- err
	}()
	r.drains = append(r.drains, drained)
	return rig.Until(ctx, func() error {
		w, err := r.cluster.client.Worker(ctx, id)
		if err == nil && w.Status == rota.WorkerActive {
			err = fmt.Errorf("worker %s is %s", id, w.Status)
		}
		return err
	})
}

// killLeader kills the leader in the lives in which it dies. An earlier dead leader is restarted first.
func (r *run) killLeader(ctx context.Context) error {
	if !r.deadly {
		return nil
	}
	if r.again != nil {
		if err := r.again(); err != nil {
			return err
		}
	}
	var err error
	r.again, err = r.cluster.killLeader(ctx)
	return err
}

// submitted is a driver's outcome of one job.
type submitted struct {
	ID      string `json:"id"`
	Existed bool   `json:"existed"`
	Holder  string `json:"holder"`
	Error   string `json:"error"`
}

func (r *run) submit(s *submit) error {
	var jobs []job
	for _, j := range s.Jobs {
		for i := range max(1, s.Times) {
			each := j
			each.ID, each.Queue = r.prefix+j.ID, r.queue()
			if s.Times > 0 {
				each.ID += fmt.Sprint(i)
			}
			if j.Unique != nil { // lives share the tenant
				each.Unique = maps.Clone(j.Unique)
				each.Unique["key"] = r.prefix + j.Unique["key"]
			}
			jobs = append(jobs, each)
		}
	}
	var said struct {
		Outcomes []submitted `json:"outcomes"`
	}
	kind, err := r.driver.ask("submit", map[string]any{"jobs": jobs}, &said)
	if err != nil || kind != "" {
		return errors.Join(err, fmt.Errorf("the submission failed as a whole: %q", kind))
	}
	if len(said.Outcomes) != len(jobs) {
		return fmt.Errorf("%d outcomes for %d jobs", len(said.Outcomes), len(jobs))
	}
	for i, o := range said.Outcomes {
		short := strings.TrimPrefix(jobs[i].ID, r.prefix)
		want := submitted{ID: jobs[i].ID, Error: s.Refused[short], Existed: slices.Contains(s.Existed, short)}
		if holder := s.Merged[short]; holder != "" {
			want.Holder, want.Existed = r.prefix+holder, o.Existed // as the client sees a merger
		}
		if o.Holder == o.ID || o.Error != "" { // a refusal may name the holder of the key
			o.Holder = ""
		}
		if o != want {
			return fmt.Errorf("the outcome is %+v, wanted is %+v", o, want)
		}
	}
	return nil
}

func (r *run) workflow(ctx context.Context, w *workflow) error {
	spec := rota.WorkflowSpec{ID: rota.WorkflowID(r.prefix + w.ID), Queue: rota.QueueName(r.queue())}
	for _, n := range w.Nodes {
		payload, err := jsonOf(n.Payload)
		if err != nil {
			return err
		}
		spec.Nodes = append(spec.Nodes, rota.NewNodeSpec(n.ID, rota.JobType(n.Type), payload, n.Parents...))
	}
	_, err := r.cluster.client.SubmitWorkflow(ctx, spec)
	return err
}

// wait makes the driver wait for a job, and checks the output as decoded by its own types.
func (r *run) wait(w *wait) error {
	var said struct {
		State  string `json:"state"`
		Output any    `json:"output"`
		Error  string `json:"error"`
	}
	kind, err := r.driver.ask("wait", map[string]any{"id": r.prefix + w.Job, "type": w.Type}, &said)
	switch {
	case err != nil || kind != "":
		return errors.Join(err, fmt.Errorf("waiting for %s: %q", w.Job, kind))
	case said.State != w.State:
		return fmt.Errorf("the driver saw %s end as %s (%s), wanted is %s", w.Job, said.State, said.Error, w.State)
	case !strings.Contains(said.Error, w.Error):
		return fmt.Errorf("error of %s: got %q, want %q", w.Job, said.Error, w.Error)
	case w.Output != nil && !same(said.Output, w.Output):
		return fmt.Errorf("the driver read output %v of %s, wanted is %v", said.Output, w.Job, w.Output)
	}
	return nil
}

// expect waits until the cluster reports the expected state of a job, or of the jobs that Times made.
func (r *run) expect(ctx context.Context, e *expect) error {
	if e.Jobs == 0 {
		return rig.Until(ctx, func() error {
			err := r.expected(ctx, rota.JobID(r.prefix+e.Job), e)
			if err != nil && r.driver != nil && !r.driver.process.Running() {
				return rig.Final(fmt.Errorf("%w; the driver ended; its output:\n%s", err,
					r.driver.process.LastWords(lastLines)))
			}
			return err
		})
	}
	var ids []rota.JobID
	for i := range e.Jobs {
		ids = append(ids, rota.JobID(fmt.Sprint(r.prefix, e.Job, i)))
	}
	for some := range slices.Chunk(ids, 1000) {
		seen := 0
		for job, err := range r.cluster.client.Wait(ctx, some...) {
			if err != nil {
				return err
			}
			if err := r.fits(ctx, &job, e); err != nil {
				return err
			}
			seen++
		}
		if seen != len(some) {
			return fmt.Errorf("%d of %d jobs ended", seen, len(some))
		}
	}
	return nil
}

// buried returns the reports of a killed driver, with an end for each handler that ran: none runs any longer.
func buried(reports []answer) []answer {
	running := map[string]answer{}
	for _, a := range reports {
		if delete(running, a.Job+" "+a.Token); a.On == "started" {
			running[a.Job+" "+a.Token] = a
		}
	}
	for _, key := range sorted(running) {
		a := running[key]
		a.On = "ended"
		reports = append(reports, a)
	}
	return reports
}

// whole restarts a killed node, so that a life ends with three nodes.
func (r *run) whole() error {
	if r.again == nil {
		return nil
	}
	err := r.again()
	r.again = nil
	return err
}

// reports returns the reports of all drivers of this life, by job.
func (r *run) reports() map[string][]answer {
	all := map[string][]answer{}
	for _, a := range r.past {
		all[a.Job] = append(all[a.Job], a)
	}
	if r.driver != nil {
		r.driver.mu.Lock()
		defer r.driver.mu.Unlock()
		for _, a := range r.driver.reports {
			all[a.Job] = append(all[a.Job], a)
		}
	}
	return all
}

// sorted returns the sorted keys of a map.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// lifeTime bounds one life of a scenario.
const lifeTime = 3 * time.Minute
