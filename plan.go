package rota

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

var planVerbNames = []string{"none", "cancel", "retry", "delete", "move", "reprioritise", "cancel-workflows", "retry-workflows"}

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

// States lists the states of the jobs to which the verb applies; it lists a FAILED workflow as DEAD.
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

// PlanSpec is the definition of a plan, given when it is started: one verb for all jobs that a filter selects.
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
		return Refusef(KindInvalid, "verb", "verb is missing: use cancel, retry, delete, move, reprioritise, cancel-workflows or "+
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
	// Why is the reason why the plan was cancelled.
	Why     string `json:"why,omitempty"`
	Started Moment `json:"started"`
	Ended   Moment `json:"ended,omitzero"`
	// Cursor is the last job that the plan has processed, in the order of ids.
	Cursor JobID `json:"cursor,omitempty"`
	// Done counts the jobs to which the verb was applied, Refused those for which it was refused, and Passed those that
	// had changed before their turn.
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

// PlanPreview describes the jobs that a plan would process if it were started now.
type PlanPreview struct {
	Count int64 `json:"count"`
	// Jobs are the first of them.
	Jobs []JobID `json:"jobs"`
	// Complete reports that all jobs were examined.
	Complete bool `json:"complete"`
}
