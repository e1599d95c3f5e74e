package rota

import (
	"maps"
	"strconv"
	"strings"
)

// BatchID names a batch forever: like a job's id, it is the idempotency key of its opening.
type BatchID string

// BatchState is the state of a batch.
type BatchState uint8

// The states.
const (
	// BatchOpen: jobs can be added.
	BatchOpen BatchState = iota
	// BatchSealed: no more jobs can be added; the batch waits for its jobs to end.
	BatchSealed
	// BatchFinished: all jobs have ended, and the callback was submitted.
	BatchFinished
)

var batchStateNames = []string{"OPEN", "SEALED", "FINISHED"}

// String names the state in capitals.
func (s BatchState) String() string { return nameOf(batchStateNames, int(s)) }

// MarshalText implements encoding.TextMarshaler.
func (s BatchState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *BatchState) UnmarshalText(text []byte) error {
	v, err := valueOf(batchStateNames, "state", text)
	*s = BatchState(v)
	return err
}

// BatchSpec is the definition of a batch, given when it is opened (SPEC §24.1).
type BatchSpec struct {
	ID BatchID `json:"id"`
	// Size is the number of jobs after which the batch is sealed automatically; 0 means that it must be sealed by a
	// call.
	Size int64 `json:"size,omitempty"`
	// Callback is the job that is submitted, with the id CallbackID, once all jobs have ended. It has no id of its own.
	// Its tenant is the tenant of the batch.
	Callback JobSpec `json:"callback"`
}

// BatchCounts count the jobs of a batch.
type BatchCounts struct {
	// Total counts all its jobs, Live those that have not ended; the other counts are by end state.
	Total     int64 `json:"total"`
	Live      int64 `json:"live"`
	Completed int64 `json:"completed"`
	Dead      int64 `json:"dead"`
	Expired   int64 `json:"expired"`
	Cancelled int64 `json:"cancelled"`
}

// Of returns the count of jobs that ended in a state; nil if it is not a terminal state.
func (c *BatchCounts) Of(s JobState) *int64 {
	switch s {
	case JobCompleted:
		return &c.Completed
	case JobDead:
		return &c.Dead
	case JobExpired:
		return &c.Expired
	case JobCancelled:
		return &c.Cancelled
	default:
		return nil
	}
}

// batchLabels are the labels that a callback gets, with the count that each has.
var batchLabels = []struct {
	name string
	of   func(*BatchCounts) int64
}{
	{"rota.total", func(c *BatchCounts) int64 { return c.Total }},
	{"rota.completed", func(c *BatchCounts) int64 { return c.Completed }},
	{"rota.dead", func(c *BatchCounts) int64 { return c.Dead }},
	{"rota.expired", func(c *BatchCounts) int64 { return c.Expired }},
	{"rota.cancelled", func(c *BatchCounts) int64 { return c.Cancelled }},
}

// Labels returns a callback's labels: its own labels, and the counts of the jobs by outcome.
func (c *BatchCounts) Labels(own map[string]string) map[string]string {
	labels := make(map[string]string, len(own)+len(batchLabels))
	maps.Copy(labels, own)
	for _, l := range batchLabels {
		labels[l.name] = strconv.FormatInt(l.of(c), 10)
	}
	return labels
}

// callbackSuffix follows a batch's id in the id of its callback.
const callbackSuffix = "@done"

// CallbackID returns the id of the job that a batch submits at its end: ID@done.
func CallbackID(id BatchID) JobID { return JobID(string(id) + callbackSuffix) }

// SplitCallbackID returns the batch that a job is the callback of; ok is false for other jobs.
func SplitCallbackID(id JobID) (batch BatchID, ok bool) {
	before, ok := strings.CutSuffix(string(id), callbackSuffix)
	return BatchID(before), ok
}

// Check rejects an invalid batch id; the error names the field.
func (id BatchID) Check(field string) error {
	if len(id) > MaxBatchID {
		return TooLong(field, len(id), MaxBatchID)
	}
	return CheckID(field, id)
}

// CheckShape rejects a batch whose fields are out of range.
func (s *BatchSpec) CheckShape(payloadMax int64) error {
	if err := s.ID.Check("id"); err != nil {
		return err
	}
	if s.Size < 0 || s.Size > MaxBatchSize {
		return OutOfRange("size", s.Size, 0, MaxBatchSize)
	}
	switch own := &s.Callback; {
	case own.ID != "":
		return Refusef(KindInvalid, "callback",
			"the callback of batch %s has the id %.80q: omit it, the callback's id is %s", s.ID, own.ID,
			CallbackID(s.ID))
	case len(own.Labels) > MaxLabels-len(batchLabels):
		return Refusef(KindInvalid, "labels", "too many labels: got %d in the callback, maximum %d; the batch adds %d",
			len(own.Labels), MaxLabels-len(batchLabels), len(batchLabels))
	}
	for _, l := range batchLabels {
		if _, has := s.Callback.Labels[l.name]; has {
			return Refusef(KindInvalid, "labels", "the callback has a label %s, which the batch sets: omit it", l.name)
		}
	}
	return s.Callback.CheckTemplate(payloadMax)
}

// Batch is the current state of a batch.
type Batch struct {
	ID    BatchID    `json:"id"`
	State BatchState `json:"state"`
	// Tenant and Queue are those of the callback.
	Tenant TenantID  `json:"tenant"`
	Queue  QueueName `json:"queue"`
	Type   JobType   `json:"type"`
	Size   int64     `json:"size,omitempty"`
	BatchCounts
	Opened Moment `json:"opened"`
	// Sealed and Finished are zero until then.
	Sealed   Moment `json:"sealed"`
	Finished Moment `json:"finished"`
	// SealsAt is when an open batch is sealed if no job is added.
	SealsAt Date `json:"seals_at_ms,omitempty"`
	// Why explains why the callback could not be submitted yet.
	Why string `json:"why,omitempty"`
	// Callback is the id of the callback job, set after it was submitted.
	Callback JobID     `json:"callback,omitempty"`
	By       Principal `json:"by,omitempty"`
}

// PlanID names a plan.
type PlanID string

// PlanVerb is the verb that a plan applies to each of its jobs (SPEC §21.7).
type PlanVerb uint8

// The verbs.
const (
	PlanNone PlanVerb = iota
	// PlanCancel cancels jobs that have not ended.
	PlanCancel
	// PlanRetry runs jobs again that ended otherwise than COMPLETED.
	PlanRetry
	// PlanDelete forgets ended jobs.
	PlanDelete
	// PlanMove moves pending jobs to another queue.
	PlanMove
	// PlanReprioritise gives pending jobs another priority.
	PlanReprioritise
	// PlanCancelWorkflows cancels workflows that run, with their nodes and gates that wait.
	PlanCancelWorkflows
	// PlanRetryWorkflows runs workflows again that FAILED or were CANCELLED.
	PlanRetryWorkflows

	// PlanVerbLast is the newest verb.
	PlanVerbLast = PlanRetryWorkflows
)

var planVerbNames = []string{"none", "cancel", "retry", "delete", "move", "reprioritise", "cancel-workflows",
	"retry-workflows"}

// String names the verb.
func (v PlanVerb) String() string { return nameOf(planVerbNames, int(v)) }

// MarshalText implements encoding.TextMarshaler.
func (v PlanVerb) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (v *PlanVerb) UnmarshalText(text []byte) error {
	n, err := valueOf(planVerbNames, "verb", text)
	*v = PlanVerb(n)
	return err
}

// Workflows reports whether the verb applies to workflows: the plan then names workflows in the place of jobs.
func (v PlanVerb) Workflows() bool { return v == PlanCancelWorkflows || v == PlanRetryWorkflows }

// States returns the states of the jobs to which the verb applies. For workflow verbs, JobDead means FAILED.
func (v PlanVerb) States() []JobState {
	switch v {
	case PlanCancel:
		return []JobState{JobDelayed, JobQueued, JobAssigned, JobRunning}
	case PlanRetry:
		return []JobState{JobDead, JobExpired, JobCancelled}
	case PlanDelete:
		return []JobState{JobCompleted, JobDead, JobExpired, JobCancelled}
	case PlanMove, PlanReprioritise:
		return []JobState{JobDelayed, JobQueued}
	case PlanCancelWorkflows:
		return []JobState{JobRunning}
	case PlanRetryWorkflows:
		return []JobState{JobDead, JobCancelled}
	default:
		return nil
	}
}

// Ended reports whether the verb is for jobs that have ended.
func (v PlanVerb) Ended() bool { return v == PlanRetry || v == PlanDelete }

// PlanState is the state of a plan.
type PlanState uint8

// The states.
const (
	// PlanRunning: the leader goes through the jobs.
	PlanRunning PlanState = iota
	// PlanDone: it went through all of them, or reached its max.
	PlanDone
	// PlanCancelled: the plan was cancelled by a call, or because its starter lost the rights.
	PlanCancelled
)

var planStateNames = []string{"RUNNING", "DONE", "CANCELLED"}

// String names the state in capitals.
func (s PlanState) String() string { return nameOf(planStateNames, int(s)) }

// MarshalText implements encoding.TextMarshaler.
func (s PlanState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *PlanState) UnmarshalText(text []byte) error {
	v, err := valueOf(planStateNames, "state", text)
	*s = PlanState(v)
	return err
}

// PlanSpec is the definition of a plan: one verb for all jobs that a filter selects.
type PlanSpec struct {
	ID   PlanID   `json:"id"`
	Verb PlanVerb `json:"verb"`
	// Filter is a line of at least one term, as in JobFilter.Where.
	Filter string `json:"filter"`
	// To is the queue to which jobs are moved.
	To QueueName `json:"to,omitempty"`
	// Priority is the new priority, for the verb that changes priorities.
	Priority *int32 `json:"priority,omitempty"`
	// Max is the number of jobs after which the plan ends; 0 means no limit.
	Max int64 `json:"max,omitempty"`
}

// CheckShape rejects a plan whose fields are out of range. Its filter is parsed elsewhere.
func (p *PlanSpec) CheckShape() error {
	if err := CheckID("plan", p.ID); err != nil {
		return err
	}
	if p.Verb == PlanNone || p.Verb > PlanVerbLast {
		return Refusef(KindInvalid, "verb",
			"verb is missing: use cancel, retry, delete, move, reprioritise, cancel-workflows or "+
				"retry-workflows")
	}
	switch to := p.To != ""; {
	case p.Verb == PlanMove && !to:
		return Refusef(KindInvalid, "to", "to is missing: name the queue to move the jobs to")
	case p.Verb == PlanMove:
		if err := CheckID("to", p.To); err != nil {
			return err
		}
	case to:
		return Refusef(KindInvalid, "to", "to: got %.80q for %s; only move has a target queue", p.To, p.Verb)
	}
	switch {
	case p.Verb != PlanReprioritise && p.Priority != nil:
		return Refusef(KindInvalid, "priority", "priority is not allowed for %s, only for reprioritise", p.Verb)
	case p.Verb == PlanReprioritise && p.Priority == nil:
		return Refusef(KindInvalid, "priority", "priority is missing: use 0 to %d", MaxPriority)
	case p.Priority != nil && (*p.Priority < 0 || *p.Priority > MaxPriority):
		return OutOfRange("priority", int64(*p.Priority), 0, MaxPriority)
	case p.Max < 0:
		return Refusef(KindInvalid, "max", "max must be at least 0, got %d; 0 means no limit", p.Max)
	}
	return nil
}

// Plan is the current state of a plan.
type Plan struct {
	PlanSpec
	State PlanState `json:"state"`
	// Why explains why the plan was cancelled.
	Why     string `json:"why,omitempty"`
	Started Moment `json:"started"`
	Ended   Moment `json:"ended,omitzero"`
	// Cursor is the last processed job, in the order of ids.
	Cursor JobID `json:"cursor,omitempty"`
	// Done counts the jobs to which the verb was applied, Refused the refused ones, and Passed those that had changed
	// before their turn.
	Done    int64 `json:"done"`
	Refused int64 `json:"refused"`
	Passed  int64 `json:"passed"`
	// Refusals are the first refusals.
	Refusals []PlanRefusal `json:"refusals,omitempty"`
	By       Principal     `json:"by,omitempty"`
}

// PlanRefusal is why a plan's verb was refused for a job.
type PlanRefusal struct {
	Job  JobID  `json:"job"`
	Text string `json:"text"`
}

// PlanPreview describes the jobs that a plan would process now.
type PlanPreview struct {
	Count int64 `json:"count"`
	// Jobs are the first of them.
	Jobs []JobID `json:"jobs"`
	// Complete reports that all jobs were examined.
	Complete bool `json:"complete"`
}
