package cluster

import (
	"context"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// Submit admits jobs; each has its own outcome at its place (SPEC §4).
func (n *Node) Submit(ctx context.Context, jobs []rota.JobSpec) ([]rota.Submitted, error) {
	ops := make([]*fsmpb.Op, len(jobs))
	for i := range jobs {
		ops[i] = &fsmpb.Op{Op: &fsmpb.Op_Submit{Submit: &fsmpb.Submit{Spec: fsm.SpecOp(&jobs[i])}}}
	}
	outcomes, index, err := n.propose(ctx, ops)
	if err != nil {
		return nil, err
	}
	submitted := make([]rota.Submitted, len(jobs))
	for i, o := range outcomes {
		submitted[i] = rota.Submitted{ID: jobs[i].ID, State: rota.JobState(o.GetJobState()), Existed: o.GetExisted(),
			Index: index, Err: fsm.OutcomeError(o)}
	}
	return submitted, nil
}

// Job reads one job.
func (n *Node) Job(ctx context.Context, id rota.JobID, opt rota.ReadOptions) (rota.Job, rota.ReadAt, error) {
	at, err := n.fresh(ctx, opt)
	if err != nil {
		return rota.Job{}, at, err
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	job, ok := n.machine.Job(id)
	if !ok {
		return job, at, rota.Refusef(rota.NotFound, "job", "job %q is not known", id)
	}
	return job, at, nil
}

// Jobs reads one page; it walks a frozen view and holds nothing up.
func (n *Node) Jobs(ctx context.Context, f rota.JobFilter, opt rota.ReadOptions) (rota.JobPage, rota.ReadAt, error) {
	at, err := n.fresh(ctx, opt)
	if err != nil {
		return rota.JobPage{}, at, err
	}
	n.mu.Lock()
	list := n.machine.Jobs()
	n.mu.Unlock()
	page, err := list.Page(f)
	return page, at, err
}

// AwaitJobs calls done for each job once it is terminal, in the order they end.
func (n *Node) AwaitJobs(ctx context.Context, ids []rota.JobID, done func(rota.Job) error) error {
	if _, err := n.fresh(ctx, rota.ReadOptions{}); err != nil {
		return err
	}
	w := &jobWait{poke: make(chan struct{}, 1)}
	waiting := make(map[rota.JobID]bool, len(ids))
	for _, id := range ids {
		waiting[id] = true
	}
	defer n.hub.forget(w, ids)
	look := ids
	for {
		// Interest is registered before each look: a job that ended may have been
		// revived since, and ends again.
		n.hub.await(w, waiting, look)
		for _, id := range look {
			if !waiting[id] {
				continue
			}
			n.mu.RLock()
			job, ok := n.machine.Job(id)
			n.mu.RUnlock()
			if !ok {
				return rota.Refusef(rota.NotFound, "job", "job %q is not known", id)
			}
			if job.State.Terminal() {
				delete(waiting, id)
				if err := done(job); err != nil {
					return err
				}
			}
		}
		if len(waiting) == 0 {
			return nil
		}
		select {
		case <-w.poke:
			look = n.hub.taken(w)
		case <-ctx.Done():
			return &rota.Error{Kind: rota.Timeout, Subject: "job", Text: "the waiting time is over and jobs are still running", Cause: ctx.Err()}
		case <-n.stopped:
			return errStopping()
		}
	}
}

// Cancel ends jobs that are not over.
func (n *Node) Cancel(ctx context.Context, ids []rota.JobID) ([]rota.JobOutcome, error) {
	return n.eachJob(ctx, ids, func(id string) *fsmpb.Op { return &fsmpb.Op{Op: &fsmpb.Op_Cancel{Cancel: &fsmpb.Cancel{Job: id}}} })
}

// Retry revives jobs that ended otherwise than COMPLETED.
func (n *Node) Retry(ctx context.Context, ids []rota.JobID) ([]rota.JobOutcome, error) {
	return n.eachJob(ctx, ids, func(id string) *fsmpb.Op { return &fsmpb.Op{Op: &fsmpb.Op_Retry{Retry: &fsmpb.Retry{Job: id}}} })
}

func (n *Node) eachJob(ctx context.Context, ids []rota.JobID, op func(string) *fsmpb.Op) ([]rota.JobOutcome, error) {
	ops := make([]*fsmpb.Op, len(ids))
	for i, id := range ids {
		ops[i] = op(string(id))
	}
	outcomes, index, err := n.propose(ctx, ops)
	if err != nil {
		return nil, err
	}
	list := make([]rota.JobOutcome, len(ids))
	for i, o := range outcomes {
		list[i] = rota.JobOutcome{ID: ids[i], State: rota.JobState(o.GetJobState()), Index: index, Err: fsm.OutcomeError(o)}
	}
	return list, nil
}

// Workers lists the registered workers.
func (n *Node) Workers(ctx context.Context, opt rota.ReadOptions) ([]rota.Worker, rota.ReadAt, error) {
	at, err := n.fresh(ctx, opt)
	if err != nil {
		return nil, at, err
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.machine.Workers(), at, nil
}

// Worker reads one worker with its open leases.
func (n *Node) Worker(ctx context.Context, id rota.WorkerID, opt rota.ReadOptions) (rota.Worker, error) {
	if _, err := n.fresh(ctx, opt); err != nil {
		return rota.Worker{}, err
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	w, ok := n.machine.Worker(id)
	if !ok {
		return w, rota.Refusef(rota.NotFound, "worker", "worker %q is not registered", id)
	}
	return w, nil
}

// DrainWorker gives a worker no new lease; it keeps those that it has.
func (n *Node) DrainWorker(ctx context.Context, id rota.WorkerID) (rota.Worker, error) {
	_, index, err := n.proposeOne(ctx, &fsmpb.Op{Op: &fsmpb.Op_SetStatus{SetStatus: &fsmpb.SetStatus{
		Worker: string(id), Status: uint32(rota.WorkerDraining)}}})
	if err != nil {
		return rota.Worker{}, err
	}
	return n.Worker(ctx, id, rota.ReadOptions{MinIndex: index})
}

// Queues lists the queues with their counters.
func (n *Node) Queues(ctx context.Context, opt rota.ReadOptions) ([]rota.Queue, rota.ReadAt, error) {
	at, err := n.fresh(ctx, opt)
	if err != nil {
		return nil, at, err
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.machine.Queues(), at, nil
}

// Queue reads one queue.
func (n *Node) Queue(ctx context.Context, name rota.QueueName, opt rota.ReadOptions) (rota.Queue, error) {
	if _, err := n.fresh(ctx, opt); err != nil {
		return rota.Queue{}, err
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	q, ok := n.machine.Queue(name)
	if !ok {
		return q, rota.Refusef(rota.NotFound, "queue", "queue %q does not exist", name)
	}
	return q, nil
}

// SetQueue creates a queue or changes its policy. What the state machine would
// refuse is refused here first, before the log.
func (n *Node) SetQueue(ctx context.Context, name rota.QueueName, preset string, set []rota.Setting) (rota.Queue, error) {
	if err := checkSettings(name, preset, set); err != nil {
		return rota.Queue{}, err
	}
	op := &fsmpb.SetQueue{Name: string(name), Preset: preset}
	for _, s := range set {
		op.Set = append(op.Set, &fsmpb.Label{Key: s.Key, Value: s.Value})
	}
	_, index, err := n.proposeOne(ctx, &fsmpb.Op{Op: &fsmpb.Op_SetQueue{SetQueue: op}})
	if err != nil {
		return rota.Queue{}, err
	}
	return n.Queue(ctx, name, rota.ReadOptions{MinIndex: index})
}

func checkSettings(name rota.QueueName, preset string, set []rota.Setting) error {
	if err := rota.CheckID("queue", name); err != nil {
		return err
	}
	p := rota.StandardPolicy()
	if preset != "" {
		var err error
		if p, err = rota.PresetPolicy(preset); err != nil {
			return err
		}
	}
	for _, s := range set {
		if err := p.Set(s); err != nil {
			return err
		}
	}
	return nil
}
