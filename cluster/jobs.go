package cluster

import (
	"context"
	"errors"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/sched"
)

// jobVerbs is what users do with jobs.
type jobVerbs struct{ n *Node }

// Submit admits jobs; each has its own outcome at its place (SPEC §4).
func (jv *jobVerbs) Submit(ctx context.Context, jobs []rota.JobSpec) ([]rota.Submitted, error) {
	ops := make([]*fsmpb.Op, len(jobs))
	for i := range jobs {
		ops[i] = &fsmpb.Op{Op: &fsmpb.Op_Submit{Submit: &fsmpb.Submit{Spec: fsm.SpecOp(&jobs[i]),
			Minted: jobs[i].Minted}}}
	}
	outcomes, index, err := jv.n.proposer.propose(ctx, ops)
	if err != nil {
		return nil, err
	}
	submitted := make([]rota.Submitted, len(jobs))
	for i, o := range outcomes {
		submitted[i] = rota.Submitted{ID: jobs[i].ID, State: rota.JobState(o.GetJobState()), Existed: o.GetExisted(),
			Index: index, Err: fsm.OutcomeError(o).OrNil(), Throttle: o.GetThrottle()}
	}
	jv.nameDifferences(ctx, jobs, submitted)
	jv.n.measures.countSubmitted(submitted)
	return submitted, nil
}

// Job reads one job.
func (jv *jobVerbs) Job(ctx context.Context, id rota.JobID, opt rota.ReadOptions) (rota.Job, rota.ReadAt, error) {
	at, err := jv.n.replica.fresh(ctx, opt)
	if err != nil {
		return rota.Job{}, at, err
	}
	job, ok, err := jv.n.history.jobAt(ctx, id)
	if err == nil && !ok {
		err = rota.Refusef(rota.NotFound, "job", "job %q is not known", id)
	}
	return job, at, err
}

// Jobs reads one page, history included; it walks a frozen view and holds nothing up.
func (jv *jobVerbs) Jobs(ctx context.Context, f rota.JobFilter, opt rota.ReadOptions) (rota.JobPage, rota.ReadAt, error) {
	at, err := jv.n.replica.fresh(ctx, opt)
	if err != nil {
		return rota.JobPage{}, at, err
	}
	page, err := jv.n.history.listAnywhere(ctx, f, at.Index, opt.Stale)
	return page, at, err
}

// AwaitJobs calls done for each job once it is terminal, in the order they end.
func (jv *jobVerbs) AwaitJobs(ctx context.Context, ids []rota.JobID, done func(rota.Job) error) error {
	if _, err := jv.n.replica.fresh(ctx, rota.ReadOptions{}); err != nil {
		return err
	}
	w := &jobWait{notify: make(chan struct{}, 1)}
	waiting := make(map[rota.JobID]bool, len(ids))
	for _, id := range ids {
		waiting[id] = true
	}
	defer jv.n.replica.hub.forget(w, ids)
	look := ids
	for {
		// Interest is registered before each look: a job that ended may have been
		// revived since, and ends again.
		jv.n.replica.hub.await(w, waiting, look)
		for _, id := range look {
			if !waiting[id] {
				continue
			}
			var job rota.Job
			var ok bool
			if err := jv.n.replica.view(func(s *fsm.View) { job, ok = s.Job(id) }); err != nil {
				return err
			}
			if !ok || job.RecordDropped {
				var err error
				if job, ok, err = jv.n.history.jobAt(ctx, id); err != nil {
					return err
				}
			}
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
		case <-w.notify:
			look = jv.n.replica.hub.taken(w)
		case <-ctx.Done():
			return &rota.Error{Kind: rota.Timeout, Subject: "job", Text: "the waiting time is over and jobs are still running", Cause: ctx.Err()}
		case <-jv.n.stopped:
			return errStopping()
		}
	}
}

// Cancel ends jobs that are not over.
func (jv *jobVerbs) Cancel(ctx context.Context, ids []rota.JobID) ([]rota.JobOutcome, error) {
	ops := make([]*fsmpb.Op, len(ids))
	for i, id := range ids {
		ops[i] = &fsmpb.Op{Op: &fsmpb.Op_Cancel{Cancel: &fsmpb.Cancel{Job: string(id)}}}
	}
	return jv.eachJob(ctx, ids, ops)
}

// Retry revives jobs that ended otherwise than COMPLETED. Each entry brings the
// payload again, from this node's history or another's.
// It names the life that it follows, the one that is found where the caller names none.
func (jv *jobVerbs) Retry(ctx context.Context, retries []rota.JobRetry) ([]rota.JobOutcome, error) {
	if _, err := jv.n.replica.fresh(ctx, rota.ReadOptions{}); err != nil {
		return nil, err
	}
	ids, ops := make([]rota.JobID, len(retries)), make([]*fsmpb.Op, len(retries))
	for i, r := range retries {
		op, err := jv.retryOf(ctx, r)
		if err != nil {
			return nil, err
		}
		ids[i], ops[i] = r.ID, &fsmpb.Op{Op: &fsmpb.Op_Retry{Retry: op}}
	}
	return jv.eachJob(ctx, ids, ops)
}

// ChangeJob changes a job that waits. The operation names the life and the changes that it
// follows, those that are read now where the caller names none, so that its repetition where
// an answer was lost changes nothing more.
func (jv *jobVerbs) ChangeJob(ctx context.Context, c rota.JobChange) (rota.JobOutcome, error) {
	none := rota.JobOutcome{ID: c.ID}
	if err := c.CheckShape(rota.MaxPayloadBytes); err != nil {
		return none, err
	}
	job, _, err := read(ctx, &jv.n.replica, rota.ReadOptions{}, func(s *fsm.View) (rota.Job, error) {
		job, _ := s.Job(c.ID)
		return job, nil
	})
	if err != nil {
		return none, err
	}
	if c.Life != nil {
		job.Life, job.Changes = *c.Life, *c.Changes
	}
	o, index, err := jv.n.proposer.proposeOne(ctx, fsm.ChangeJobOp(&c, job.Life, job.Changes))
	if e, ok := errors.AsType[*rota.Error](err); ok {
		return none, jv.beyond(e, c.ID)
	} else if err != nil {
		return none, err
	}
	return rota.JobOutcome{ID: c.ID, State: rota.JobState(o.GetJobState()), Index: index}, nil
}

// eachJob proposes an operation for each job.
func (jv *jobVerbs) eachJob(ctx context.Context, ids []rota.JobID, ops []*fsmpb.Op) ([]rota.JobOutcome, error) {
	outcomes, index, err := jv.n.proposer.propose(ctx, ops)
	if err != nil {
		return nil, err
	}
	list := make([]rota.JobOutcome, len(ids))
	for i, o := range outcomes {
		list[i] = rota.JobOutcome{ID: ids[i], State: rota.JobState(o.GetJobState()), Index: index,
			Err: jv.beyond(fsm.OutcomeError(o), ids[i]).OrNil()}
	}
	return list, nil
}

// Workers lists the registered workers.
func (wv *workerVerbs) Workers(ctx context.Context, opt rota.ReadOptions) ([]rota.Worker, rota.ReadAt, error) {
	return read(ctx, &wv.n.replica, opt, func(s *fsm.View) ([]rota.Worker, error) { return s.Workers(), nil })
}

// Worker reads one worker with its open leases.
func (wv *workerVerbs) Worker(ctx context.Context, id rota.WorkerID, opt rota.ReadOptions) (rota.Worker, rota.ReadAt, error) {
	return read(ctx, &wv.n.replica, opt, func(s *fsm.View) (rota.Worker, error) {
		w, ok := s.Worker(id)
		if !ok {
			return w, rota.Refusef(rota.NotFound, "worker", "worker %q is not registered", id)
		}
		return w, nil
	})
}

// Queues lists the queues with their counters.
func (pv *policyVerbs) Queues(ctx context.Context, opt rota.ReadOptions) ([]rota.Queue, rota.ReadAt, error) {
	return read(ctx, &pv.n.replica, opt, func(s *fsm.View) ([]rota.Queue, error) { return s.Queues(), nil })
}

// Queue reads one queue, with its failure domains and what is known of its types.
func (pv *policyVerbs) Queue(ctx context.Context, name rota.QueueName, opt rota.ReadOptions) (rota.Queue, rota.ReadAt, error) {
	return read(ctx, &pv.n.replica, opt, func(s *fsm.View) (rota.Queue, error) {
		q, ok := s.QueueInFull(name)
		if !ok {
			return q, rota.Refusef(rota.NotFound, "queue", "queue %q does not exist", name)
		}
		scoring := sched.ScoringOf(&q.Policy)
		for i := range q.Types {
			t := &q.Types[i]
			t.Weight = scoring.Weight(sched.Stats{Success: t.Success, Fail: t.Fail, EMAus: t.EMAus,
				ExpectedMs: t.ExpectedMs, Sampled: t.EMAus > 0})
		}
		return q, nil
	})
}

// SetQueue creates a queue or changes its policy. What the state machine would
// refuse is refused here first, before the log.
func (pv *policyVerbs) SetQueue(ctx context.Context, name rota.QueueName, preset string, set []rota.Setting) (rota.Queue, error) {
	if err := checkSettings(name, preset, set); err != nil {
		return rota.Queue{}, err
	}
	op := &fsmpb.SetQueue{Name: string(name), Preset: preset}
	for _, s := range set {
		op.Set = append(op.Set, &fsmpb.Label{Key: s.Key, Value: s.Value})
	}
	_, index, err := pv.n.proposer.proposeOne(ctx, &fsmpb.Op{Op: &fsmpb.Op_SetQueue{SetQueue: op}})
	if err != nil {
		return rota.Queue{}, err
	}
	q, _, err := pv.Queue(ctx, name, rota.ReadOptions{MinIndex: index})
	return q, err
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
		if err := p.Try(s); err != nil {
			return err
		}
	}
	return nil
}
