package verbs

import (
	"context"
	"errors"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/history"
	"github.com/rotasched/rota/cluster/internal/fault"
	"github.com/rotasched/rota/cluster/replica"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/peer"
)

// JobVerbs are the operations on jobs, for users.
type JobVerbs struct {
	n    *Host
	logs *replica.Logs
}

// NewJobs returns the verbs on jobs; logs holds the logs of the workers that are connected here.
func NewJobs(h *Host, logs *replica.Logs) JobVerbs { return JobVerbs{n: h, logs: logs} }

// Submit admits jobs and returns one outcome per job, in the order of jobs (SPEC §4).
func (jv *JobVerbs) Submit(ctx context.Context, jobs []rota.JobSpec) ([]rota.Submitted, error) {
	ops := make([]*fsmpb.Op, len(jobs))
	for i := range jobs {
		ops[i] = &fsmpb.Op{Op: &fsmpb.Op_Submit{Submit: &fsmpb.Submit{Spec: entry.SpecOp(&jobs[i]),
			Minted: jobs[i].Minted}}}
	}
	outcomes, index, err := jv.n.Propose(ctx, ops)
	if err != nil {
		return nil, err
	}
	submitted := make([]rota.Submitted, len(jobs))
	for i, o := range outcomes {
		submitted[i] = rota.Submitted{ID: jobs[i].ID, State: rota.JobState(o.GetJobState()), Existed: o.GetExisted(),
			Holder: rota.JobID(o.GetHolder()),
			Merge:  rota.Merge(o.GetMerge()), Index: index, Err: entry.OutcomeError(o).OrNil(),
			Throttle: o.GetThrottle()}
	}
	jv.nameDifferences(ctx, jobs, submitted)
	jv.n.Measures.CountSubmitted(submitted)
	return submitted, nil
}

// Job reads one job. For the id of a merged submission it returns the job that the submission was merged into.
func (jv *JobVerbs) Job(ctx context.Context, id rota.JobID, opt peer.ReadOptions) (rota.Job, rota.ReadAt, error) {
	at, err := jv.n.Replica.Fresh(ctx, opt)
	if err != nil {
		return rota.Job{}, at, err
	}
	rd, err := jv.n.Replica.Reader(ctx)
	if err != nil {
		return rota.Job{}, at, err
	}
	job, ok, err := jv.n.Archive.Job(ctx, id)
	if err == nil && !ok {
		if holder, merged := jv.mergedInto(id); merged {
			job, ok, err = jv.n.Archive.Job(ctx, holder)
			ok = ok && rd.Job(&job)
			job.ID, job.MergedInto = id, holder
		}
	} else {
		ok = ok && rd.Job(&job)
	}
	if err == nil && !ok {
		return rota.Job{}, at, UnknownJob(id)
	}
	return job, at, err
}

// mergedInto returns the job that the submission with an id was merged into.
func (jv *JobVerbs) mergedInto(id rota.JobID) (holder rota.JobID, ok bool) {
	jv.n.Replica.Look(func(s *fsm.View) { holder, ok = fsm.MergedInto(s, id) })
	return holder, ok
}

// UnknownJob returns the error for a job that does not exist or that the caller may not read.
func UnknownJob(id rota.JobID) error {
	return rota.Refusef(rota.KindNotFound, "job", "job %q is not known", id)
}

// Jobs reads one page, including history; it iterates a frozen view and blocks nothing.
func (jv *JobVerbs) Jobs(ctx context.Context, f rota.JobFilter,
	opt peer.ReadOptions) (rota.JobPage, rota.ReadAt, error) {
	at, err := jv.n.Replica.Fresh(ctx, opt)
	if err != nil {
		return rota.JobPage{}, at, err
	}
	rd, err := jv.n.Replica.Reader(ctx)
	if err != nil {
		return rota.JobPage{}, at, err
	}
	page, err := jv.n.Archive.List(ctx, f, at.Index, opt.Stale, rd)
	return page, at, err
}

// AwaitJobs calls done for each job once it is terminal, in the order in which they end. For the id of a merged
// submission it waits for the job that the submission was merged into.
func (jv *JobVerbs) AwaitJobs(ctx context.Context, ids []rota.JobID, done func(rota.Job) error) error {
	if _, err := jv.n.Replica.Fresh(ctx, peer.ReadOptions{}); err != nil {
		return err
	}
	w := &replica.JobWait{Notify: make(chan struct{}, 1)}
	waiting := make(map[rota.JobID]bool, len(ids))
	for _, id := range ids {
		waiting[id] = true
	}
	asked, look := ids, ids
	merged := make(map[rota.JobID][]rota.JobID) // by the job that they were merged into
	defer func() { jv.n.Replica.Hub.Forget(w, asked) }()
	for {
		// Register before each check: a job that ended may have been revived since, and ends again.
		jv.n.Replica.Hub.Await(w, waiting, look)
		rd, err := jv.n.Replica.Reader(ctx) // each time: the caller's rights may have changed
		if err != nil {
			return err
		}
		var holders []rota.JobID
		for _, id := range look {
			if !waiting[id] {
				continue
			}
			var job rota.Job
			var ok bool
			if err := jv.n.Replica.View(func(s *fsm.View) { job, ok = s.Job(id) }); err != nil {
				return err
			}
			if !ok || job.RecordDropped {
				var err error
				if job, ok, err = jv.n.Archive.Job(ctx, id); err != nil {
					return err
				}
			}
			if holder, is := jv.mergedInto(id); !ok && is {
				delete(waiting, id)
				waiting[holder] = true
				merged[holder], holders = append(merged[holder], id), append(holders, holder)
				continue
			}
			if !ok || !rd.Job(&job) {
				return UnknownJob(append(merged[id], id)[0])
			}
			if job.State.Terminal() {
				delete(waiting, id)
				for _, one := range under(job, slices.Contains(ids, id), merged[id]) {
					if err := done(one); err != nil {
						return err
					}
				}
			}
		}
		if len(waiting) == 0 {
			return nil
		}
		if len(holders) > 0 {
			asked, look = slices.Concat(asked, holders), holders
			continue
		}
		select {
		case <-w.Notify:
			look = jv.n.Replica.Hub.Taken(w)
		case <-ctx.Done():
			return &rota.Error{Kind: rota.KindTimeout, Subject: "job",
				Text: "the waiting time is over and jobs are still running", Cause: ctx.Err()}
		case <-jv.n.Stopped:
			return fault.Stopping()
		}
	}
}

// Cancel ends jobs that have not ended.
func (jv *JobVerbs) Cancel(ctx context.Context, ids []rota.JobID) ([]rota.JobOutcome, error) {
	ops := make([]*fsmpb.Op, len(ids))
	for i, id := range ids {
		ops[i] = &fsmpb.Op{Op: &fsmpb.Op_Cancel{Cancel: &fsmpb.Cancel{Job: string(id)}}}
	}
	return jv.eachJob(ctx, ids, ops)
}

// Retry revives jobs that ended in a state other than COMPLETED. Each entry includes the payload, from this node's
// history or another's. It names the life that it follows; if the caller names none, the one read now.
func (jv *JobVerbs) Retry(ctx context.Context, retries []rota.JobRetry) ([]rota.JobOutcome, error) {
	if _, err := jv.n.Replica.Fresh(ctx, peer.ReadOptions{}); err != nil {
		return nil, err
	}
	ids, ops := make([]rota.JobID, len(retries)), make([]*fsmpb.Op, len(retries))
	for i, r := range retries {
		op, err := jv.RetryOf(ctx, r)
		if err != nil {
			return nil, err
		}
		ids[i], ops[i] = r.ID, &fsmpb.Op{Op: &fsmpb.Op_Retry{Retry: op}}
	}
	return jv.eachJob(ctx, ids, ops)
}

// ChangeJob changes a pending job. The operation names the life and the changes that it follows; if the caller names
// none, those read now. So repeating it after a lost answer changes nothing more.
func (jv *JobVerbs) ChangeJob(ctx context.Context, c rota.JobChange) (rota.JobOutcome, error) {
	none := rota.JobOutcome{ID: c.ID}
	if err := c.CheckShape(rota.MaxPayloadBytes); err != nil {
		return none, err
	}
	job, _, err := replica.Read(ctx, jv.n.Replica, peer.ReadOptions{}, func(s *fsm.View) (rota.Job, error) {
		job, _ := s.Job(c.ID)
		return job, nil
	})
	if err != nil {
		return none, err
	}
	if c.Life != nil {
		job.Life, job.Changes = *c.Life, *c.Changes
	}
	o, index, err := jv.n.ProposeOne(ctx, fsm.ChangeJobOp(&c, job.Life, job.Changes))
	if e, ok := errors.AsType[*rota.Error](err); ok {
		return none, jv.beyond(ctx, e, c.ID)
	} else if err != nil {
		return none, err
	}
	return rota.JobOutcome{ID: c.ID, State: rota.JobState(o.GetJobState()), Index: index}, nil
}

// Interrupt ends the current attempt of each job. The operation names the open lease, so that repeating it ends no
// other attempt.
func (jv *JobVerbs) Interrupt(ctx context.Context, ids []rota.JobID, counted bool) ([]rota.JobOutcome, error) {
	return jv.eachNow(ctx, ids, func(s *fsm.View, id rota.JobID) *fsmpb.Op { return fsm.InterruptOp(s, id, counted) })
}

// RunNow queues DELAYED jobs early. The operation names the time that each currently waits for.
func (jv *JobVerbs) RunNow(ctx context.Context, ids []rota.JobID) ([]rota.JobOutcome, error) {
	return jv.eachNow(ctx, ids, fsm.RunNowOp)
}

// eachNow proposes an operation for each job, based on its current state.
func (jv *JobVerbs) eachNow(ctx context.Context, ids []rota.JobID,
	of func(*fsm.View, rota.JobID) *fsmpb.Op) ([]rota.JobOutcome, error) {
	ops, _, err := replica.Read(ctx, jv.n.Replica, peer.ReadOptions{}, func(s *fsm.View) ([]*fsmpb.Op, error) {
		ops := make([]*fsmpb.Op, len(ids))
		for i, id := range ids {
			ops[i] = of(s, id)
		}
		return ops, nil
	})
	if err != nil {
		return nil, err
	}
	return jv.eachJob(ctx, ids, ops)
}

// eachJob proposes an operation for each job.
func (jv *JobVerbs) eachJob(ctx context.Context, ids []rota.JobID, ops []*fsmpb.Op) ([]rota.JobOutcome, error) {
	outcomes, index, err := jv.n.Propose(ctx, ops)
	if err != nil {
		return nil, err
	}
	list := make([]rota.JobOutcome, len(ids))
	for i, o := range outcomes {
		list[i] = rota.JobOutcome{ID: ids[i], State: rota.JobState(o.GetJobState()), Index: index,
			Err: jv.beyond(ctx, entry.OutcomeError(o), ids[i]).OrNil()}
	}
	return list, nil
}

// DeleteJobs deletes ended jobs. Each entry names the end that it refers to, so that repeating it has no effect.
func (jv *JobVerbs) DeleteJobs(ctx context.Context, ids []rota.JobID) ([]rota.JobOutcome, error) {
	if _, err := jv.n.Replica.Fresh(ctx, peer.ReadOptions{}); err != nil {
		return nil, err
	}
	ops := make([]*fsmpb.Op, len(ids))
	for i, id := range ids {
		seq, err := jv.n.Archive.NumberOf(ctx, id)
		if err != nil {
			return nil, err
		}
		ops[i] = fsm.DeleteJobOp(id, seq)
	}
	return jv.eachJob(ctx, ids, ops)
}

// RetryOf builds the retry of a job from its current state. Every entry that revives a job carries its spec and its
// past, so that applying never depends on what a node has flushed (SPEC §9.1, §16.6). They are left out if no node has
// them, or the job has not ended.
func (jv *JobVerbs) RetryOf(ctx context.Context, r rota.JobRetry) (*fsmpb.Retry, error) {
	id := r.ID
	var job rota.Job
	var seq uint64
	var known, ended bool
	if err := jv.n.Replica.View(func(s *fsm.View) {
		job, known = s.Job(id)
		seq, _, ended = s.Tombstone(id)
	}); err != nil {
		return nil, err
	}
	op := &fsmpb.Retry{Job: string(id), Life: r.Life}
	if r.Life == rota.AnyLife {
		op.Life = job.RetryLife()
	}
	if !known || !ended || op.Life != job.Life {
		return op, nil
	}
	if job.RecordDropped {
		e, ok, err := jv.n.Archive.Ended(ctx, id, seq)
		if err != nil {
			return nil, &rota.Error{Kind: rota.KindUnavailable, Subject: "job", RetryAfter: history.RetryAfter,
				Cause: err,
				Text:  "the payload of job " + string(id) + " is in another node's archive, which does not answer"}
		}
		if !ok {
			return op, nil
		}
		job = e.Job
	}
	op.Spec, op.Past = entry.SpecOp(&job.JobSpec), fsm.PastOp(&job)
	return op, nil
}

// beyond returns the error for changing a job that only the archive knows.
func (jv *JobVerbs) beyond(ctx context.Context, err *rota.Error, id rota.JobID) *rota.Error {
	if err == nil || err.Kind != rota.KindNotFound {
		return err
	}
	if rd, refused := jv.n.Replica.Reader(ctx); refused != nil {
		return rota.ErrorOf(refused)
	} else if rd != nil { // its tenant decides, which only the record names
		if e, ok, lost := jv.n.Archive.LastEnd(id); lost != nil || !ok || !rd.Reads(e.Job.Tenant, e.Job.Queue) {
			return err
		}
	}
	state, ok, lost := jv.n.Archive.EndState(id)
	if lost != nil {
		return rota.ErrorOf(lost)
	}
	if !ok {
		return err
	}
	return rota.Refusef(rota.KindOutOfRange, "job",
		"job %s is %s for longer than tombstones are kept: only its history is left, submit it "+
			"under a new id", id, state)
}

// nameDifferences adds to rejected submissions how they differ from the existing job, if that can be read here.
func (jv *JobVerbs) nameDifferences(ctx context.Context, jobs []rota.JobSpec, submitted []rota.Submitted) {
	rd, err := jv.n.Replica.Reader(ctx)
	if err != nil {
		return
	}
	for i := range submitted {
		s := &submitted[i]
		if e := rota.ErrorOf(s.Err); e == nil || e.Kind != rota.KindConflict || e.Subject != "id" {
			continue
		}
		if jv.n.Replica.WaitApplied(ctx, s.Index) != nil { // another node's answer may be ahead of this one
			return
		}
		if first, ok := jv.firstSpec(s.ID); ok && rd.Reads(first.Tenant, first.Queue) {
			s.Err = fsm.OtherJob(s.ID, jobs[i].Difference(&first))
		}
	}
}

// firstSpec returns the spec that a job was submitted with, if this node has it.
func (jv *JobVerbs) firstSpec(id rota.JobID) (first rota.JobSpec, ok bool) {
	live := false
	if jv.n.Replica.View(func(s *fsm.View) { first, live, ok = s.FirstSpec(id) }) != nil {
		return first, false
	}
	if live {
		return first, ok
	}
	e, ok, err := jv.n.Archive.LastEnd(id)
	if !ok || err != nil || e.Content != fsm.ContentOf(entry.SpecOp(&e.Job.JobSpec)) { // it was changed later
		return first, false
	}
	return e.Job.JobSpec, true
}

// ReportProof processes a verifier's report that a completed job's proof is invalid: its worker is slashed, and the job
// runs again if it requested that (SPEC §9.5).
func (jv *JobVerbs) ReportProof(ctx context.Context, r rota.ProofReport) (rota.JobOutcome, error) {
	none := rota.JobOutcome{ID: r.Job}
	if err := rota.CheckJobRef("job", r.Job); err != nil {
		return none, err
	}
	if err := checkReason(r.Reason); err != nil {
		return none, err
	}
	// Read first: the operation names the lease, and carries the job if it must run again, because the state may hold
	// only its tombstone (SPEC §9.5).
	job, _, err := jv.Job(access.Itself(ctx), r.Job, peer.ReadOptions{})
	if err != nil {
		return none, err
	}
	if rd, err := jv.n.Replica.Reader(ctx); err != nil {
		return none, err
	} else if !rd.Has(rota.RightVerdict, job.Tenant, job.Queue) {
		return none, UnknownJob(r.Job)
	}
	lease, err := provenLease(&job, r.Lease)
	if err != nil {
		return none, err
	}
	op := &fsmpb.ReportProof{Job: string(r.Job), Reason: r.Reason, Lease: lease[:]}
	if job.RetryOnInvalidProof && !job.RecordDropped {
		op.Spec, op.Past = entry.SpecOp(&job.JobSpec), fsm.PastOp(&job)
	}
	outcome, index, err := jv.n.ProposeOne(ctx, &fsmpb.Op{Op: &fsmpb.Op_ReportProof{ReportProof: op}})
	if err != nil {
		return none, err
	}
	return rota.JobOutcome{ID: r.Job, State: rota.JobState(outcome.GetJobState()), Index: index}, nil
}

// under returns a job under its own id, if requested, and under those of the submissions merged into it.
func under(job rota.Job, itself bool, merged []rota.JobID) (jobs []rota.Job) {
	if itself {
		jobs = append(jobs, job)
	}
	for _, id := range merged {
		one := job
		one.ID, one.MergedInto = id, job.ID
		jobs = append(jobs, one)
	}
	return jobs
}
