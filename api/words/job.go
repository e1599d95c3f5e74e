package words

import (
	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/millis"
	"github.com/rotasched/rota/internal/peer"
)

// jobSpecRoom holds a wire spec and the priority that it points to in one
// allocation.
type jobSpecRoom struct {
	spec     rotav1.JobSpec
	priority int32
}

func (r *jobSpecRoom) fill(s *rota.JobSpec) *rotav1.JobSpec {
	r.priority = s.Priority
	r.spec.Priority = &r.priority
	fillJobSpec(&r.spec, s)
	return &r.spec
}

// JobSpecToWire converts a job specification. It always sets the priority.
func JobSpecToWire(s *rota.JobSpec) *rotav1.JobSpec { return new(jobSpecRoom).fill(s) }

// JobSpecFromWire is the inverse of JobSpecToWire. An unset priority becomes DefaultPriority; nil becomes a job without
// a name, which CheckShape rejects.
func JobSpecFromWire(w *rotav1.JobSpec) rota.JobSpec {
	s := rota.JobSpec{Priority: rota.DefaultPriority}
	if w == nil {
		return s
	}
	if w.Priority != nil {
		s.Priority = *w.Priority
	}
	takeJobSpec(&s, w)
	return s
}

// AttemptToWire converts one attempt of `job show`.
func AttemptToWire(a *rota.Attempt) *rotav1.Attempt {
	return &rotav1.Attempt{
		Attempt: a.Number, Life: a.Life, Worker: string(a.Worker), LeaseId: leaseIDToWire(&a.Lease),
		Token:     tokenToWire(a.Token),
		StartedMs: int64(a.Started.Date), StartedClockMs: int64(a.Started.Clock), AckedMs: int64(a.Acked.Date),
		AckedClockMs: int64(a.Acked.Clock), EndedMs: int64(a.Ended.Date), EndedClockMs: int64(a.Ended.Clock),
		Renewals: a.Renewals,
		End:      reasons.text(a.End), Error: clean(a.Error), Decision: decisionToWire(&a.Decision), Log: a.Log,
	}
}

// AttemptFromWire is the inverse of AttemptToWire.
func AttemptFromWire(w *rotav1.Attempt) (rota.Attempt, error) {
	a := rota.Attempt{
		Number: w.GetAttempt(), Life: w.GetLife(), Worker: rota.WorkerID(w.GetWorker()),
		Started: moment(w.GetStartedMs(), w.GetStartedClockMs()),
		Acked:   moment(w.GetAckedMs(), w.GetAckedClockMs()), Ended: moment(w.GetEndedMs(), w.GetEndedClockMs()),
		Renewals: w.GetRenewals(),
		Error:    w.GetError(),
		Log:      w.GetLog(),
	}
	var err error
	if a.Lease, err = LeaseIDFromWire(w.GetLeaseId()); err != nil {
		return a, err
	}
	if a.Token, err = tokenFromWire(w.GetToken()); err != nil {
		return a, err
	}
	if a.End, err = reasons.value(w.GetEnd()); err != nil {
		return a, err
	}
	a.Decision, err = decisionFromWire(w.GetDecision())
	return a, err
}

// JobToWire converts a job's full state.
func JobToWire(j *rota.Job) *rotav1.Job {
	w := &rotav1.Job{
		Spec: JobSpecToWire(&j.JobSpec), State: jobStates.text(j.State), Attempt: j.Attempt,
		SubmittedMs: int64(j.Submitted.Date), SubmittedClockMs: int64(j.Submitted.Clock),
		EnqueuedMs: int64(j.Enqueued.Date), EnqueuedClockMs: int64(j.Enqueued.Clock),
		FirstLeaseMs: int64(j.FirstLease.Date), FirstLeaseClockMs: int64(j.FirstLease.Clock),
		FinishedMs: int64(j.Finished.Date), FinishedClockMs: int64(j.Finished.Clock), DueMs: int64(j.Due.Date),
		DueClockMs: int64(j.Due.Clock), ExpiresMs: int64(j.Expires.Date), ExpiresClockMs: int64(j.Expires.Clock),
		Reason: reasons.text(j.Reason), Error: clean(j.Error),
		Attempts: each(j.Attempts, AttemptToWire), Progress: j.Progress, ProgressNote: clean(j.ProgressNote),
		Spent: j.Spent, Output: j.Output, OutputDigest: j.OutputDigest, RecordDropped: j.RecordDropped,
		Tier: j.Tier, Preempted: j.Preempted, Archived: j.Archived,
		Life: j.Life, RetriedMs: int64(j.Retried.Date), RetriedClockMs: int64(j.Retried.Clock),
		Changes: j.Changes, Meta: j.Meta, Fingerprint: j.Fingerprint, UniqueHolder: string(j.UniqueHolder),
		MergedInto: string(j.MergedInto), WorkerLosses: j.WorkerLosses, Isolated: j.Isolated,
	}
	if j.Lease != nil {
		w.Lease = LeaseToWire(j.Lease)
	}
	return w
}

// JobFromWire is the inverse of JobToWire.
func JobFromWire(w *rotav1.Job) (rota.Job, error) {
	j := rota.Job{
		JobSpec: JobSpecFromWire(w.GetSpec()), Attempt: w.GetAttempt(),
		Submitted:  moment(w.GetSubmittedMs(), w.GetSubmittedClockMs()),
		Enqueued:   moment(w.GetEnqueuedMs(), w.GetEnqueuedClockMs()),
		FirstLease: moment(w.GetFirstLeaseMs(), w.GetFirstLeaseClockMs()),
		Finished:   moment(w.GetFinishedMs(), w.GetFinishedClockMs()),
		Due:        moment(w.GetDueMs(), w.GetDueClockMs()),
		Expires:    moment(w.GetExpiresMs(), w.GetExpiresClockMs()),
		Error:      w.GetError(), Progress: w.GetProgress(),
		ProgressNote: w.GetProgressNote(), Output: w.GetOutput(), OutputDigest: w.GetOutputDigest(),
		Spent: w.GetSpent(), RecordDropped: w.GetRecordDropped(), Tier: w.GetTier(), Preempted: w.GetPreempted(), Archived: w.GetArchived(),
		Life: w.GetLife(), Retried: moment(w.GetRetriedMs(), w.GetRetriedClockMs()),
		Changes: w.GetChanges(), Meta: w.GetMeta(), Fingerprint: w.GetFingerprint(),
		UniqueHolder: rota.JobID(w.GetUniqueHolder()),
		MergedInto:   rota.JobID(w.GetMergedInto()),
		WorkerLosses: w.GetWorkerLosses(), Isolated: w.GetIsolated(),
	}
	var err error
	if j.State, err = jobStates.value(w.GetState()); err != nil {
		return j, err
	}
	if j.Reason, err = reasons.value(w.GetReason()); err != nil {
		return j, err
	}
	if w.GetLease() != nil {
		lease, err := LeaseFromWire(w.GetLease())
		if err != nil {
			return j, err
		}
		j.Lease = &lease
	}
	if len(w.GetAttempts()) > 0 {
		j.Attempts, err = tryEach(w.GetAttempts(), AttemptFromWire)
	}
	return j, err
}

// SubmittedToWire converts the outcome of one submission.
func SubmittedToWire(s *rota.Submitted) *rotav1.Submitted {
	return &rotav1.Submitted{
		Id: string(s.ID), State: jobStates.text(s.State), Existed: s.Existed, Index: uint64(s.Index),
		Refusal: RefusalToWire(rota.ErrorOf(s.Err)), Throttle: s.Throttle, Holder: string(s.Holder),
		Merge: string(s.Merge),
	}
}

// JobOutcomeToWire converts the outcome of one cancel, retry or proof report.
func JobOutcomeToWire(o *rota.JobOutcome) *rotav1.JobOutcome {
	return &rotav1.JobOutcome{
		Id: string(o.ID), State: jobStates.text(o.State), Index: uint64(o.Index),
		Refusal: RefusalToWire(rota.ErrorOf(o.Err)),
	}
}

// JobOutcomeFromWire is the inverse of JobOutcomeToWire.
func JobOutcomeFromWire(w *rotav1.JobOutcome) (rota.JobOutcome, error) {
	state, err := jobStates.value(w.GetState())
	return rota.JobOutcome{
		ID: rota.JobID(w.GetId()), State: state, Index: rota.Index(w.GetIndex()),
		Err: RefusalFromWire(w.GetRefusal()).OrNil(),
	}, err
}

// JobChangeToWire converts a change of a job.
func JobChangeToWire(c *rota.JobChange) *rotav1.ChangeJobRequest {
	w := &rotav1.ChangeJobRequest{Id: string(c.ID), Priority: c.Priority, Fee: c.Fee, Labels: c.Labels,
		TtlMs: millis.Given(c.TTL), StartByMs: millis.Given(c.StartBy), Life: c.Life, Changes: c.Changes}
	if c.Payload != nil {
		w.Payload = append([]byte{}, *c.Payload...) // an empty payload differs from none
	}
	return w
}

// JobChangeFromWire is the inverse of JobChangeToWire.
func JobChangeFromWire(w *rotav1.ChangeJobRequest) rota.JobChange {
	c := rota.JobChange{ID: rota.JobID(w.GetId()), Priority: w.Priority, Fee: w.Fee, Labels: w.GetLabels(),
		TTL: millis.Taken(w.TtlMs), StartBy: millis.Taken(w.StartByMs), Life: w.Life, Changes: w.Changes}
	if w.Payload != nil {
		c.Payload = (*rota.Blob)(&w.Payload)
	}
	return c
}

// ProofReportToWire converts a verifier's report on a completed job.
func ProofReportToWire(r *rota.ProofReport) *rotav1.ReportProofRequest {
	return &rotav1.ReportProofRequest{Id: string(r.Job), LeaseId: leaseIDToWire(&r.Lease), Reason: clean(r.Reason)}
}

// ProofReportFromWire is the inverse of ProofReportToWire.
func ProofReportFromWire(w *rotav1.ReportProofRequest) (rota.ProofReport, error) {
	lease, err := LeaseIDFromWire(w.GetLeaseId())
	return rota.ProofReport{Job: rota.JobID(w.GetId()), Lease: lease, Reason: w.GetReason()}, err
}

// JobFilterToWire returns the request for one page.
func JobFilterToWire(f *rota.JobFilter, opt peer.ReadOptions) *rotav1.ListJobsRequest {
	return &rotav1.ListJobsRequest{
		Queue: string(f.Queue), State: jobStates.text(f.State), Tenant: string(f.Tenant), Type: string(f.Type),
		Limit: limitToWire(f.Limit), Cursor: f.Cursor, Read: ReadToWire(opt), Where: clean(f.Where), Count: f.Count,
		GroupBy: clean(f.GroupBy),
	}
}

// JobFilterFromWire is the inverse of JobFilterToWire.
func JobFilterFromWire(w *rotav1.ListJobsRequest) (rota.JobFilter, peer.ReadOptions, error) {
	state, err := jobStates.value(w.GetState())
	return rota.JobFilter{
		Queue: rota.QueueName(w.GetQueue()), State: state, Tenant: rota.TenantID(w.GetTenant()),
		Type: rota.JobType(w.GetType()), Limit: int(w.GetLimit()), Cursor: w.GetCursor(),
		Where: w.GetWhere(), Count: w.GetCount(), GroupBy: w.GetGroupBy(),
	}, ReadFromWire(w.GetRead()), err
}

// JobPageToWire converts one page and the state that the read saw.
func JobPageToWire(p *rota.JobPage, at rota.ReadAt) *rotav1.ListJobsResponse {
	w := &rotav1.ListJobsResponse{Jobs: each(p.Jobs, JobToWire), NextCursor: p.NextCursor, At: ReadAtToWire(at)}
	if c := p.Counted; c != nil {
		w.Counted = &rotav1.JobCount{Count: c.Count, Groups: each(c.Groups, jobGroupToWire), Complete: c.Complete,
			NextCursor: c.NextCursor}
	}
	return w
}

// JobPageFromWire is the inverse of JobPageToWire.
func JobPageFromWire(w *rotav1.ListJobsResponse) (rota.JobPage, rota.ReadAt, error) {
	p, at := rota.JobPage{NextCursor: w.GetNextCursor()}, ReadAtFromWire(w.GetAt())
	var err error
	if p.Jobs, err = tryEach(w.GetJobs(), JobFromWire); err != nil || w.Counted == nil {
		return p, at, err
	}
	p.Counted = &rota.JobCount{Count: w.Counted.GetCount(), Complete: w.Counted.GetComplete(),
		NextCursor: w.Counted.GetNextCursor()}
	p.Counted.Groups, err = tryEach(w.Counted.GetGroups(), jobGroupFromWire)
	return p, at, err
}

func jobGroupToWire(g *rota.JobGroup) *rotav1.JobGroup {
	return &rotav1.JobGroup{Fingerprint: g.Fingerprint, Count: g.Count, Job: string(g.Job), Type: string(g.Type),
		Reason: reasons.text(g.Reason),
		Error:  clean(g.Error)}
}

func jobGroupFromWire(w *rotav1.JobGroup) (rota.JobGroup, error) {
	reason, err := reasons.value(w.GetReason())
	return rota.JobGroup{Fingerprint: w.GetFingerprint(), Count: w.GetCount(), Job: rota.JobID(w.GetJob()),
		Type: rota.JobType(w.GetType()), Reason: reason, Error: w.GetError()}, err
}

// limitToWire prevents a limit that is too large for a page from overflowing to a small one.
func limitToWire(limit int) int32 {
	return int32(max(-1, min(limit, limits.MaxPage+1)))
}
