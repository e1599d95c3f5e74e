package rota

import (
	"maps"
	"slices"
	"time"
)

// JobFilter selects jobs; zero fields select all.
type JobFilter struct {
	Queue  QueueName
	State  JobState
	Tenant TenantID
	Type   JobType
	// Where is a line of further terms that a job must match, such as "label.team=film -type=mail age>1h" (SPEC §21.6).
	Where string
	// Count requests the number of jobs instead of the jobs. GroupBy, which is "fingerprint" or empty, requests the
	// number of jobs in each group.
	Count   bool
	GroupBy string
	// Limit is the maximum number of jobs. For one page of a node it is at most 1000, and 0 means 100. The client
	// library reads as many pages as necessary, and 0 means all jobs.
	Limit int
	// Cursor is the NextCursor of the page before; the list continues after that page.
	Cursor string
}

// JobPage is one page of jobs, newest first: live jobs, nodes that wait for their parents, then terminal jobs by their
// end.
type JobPage struct {
	Jobs       []Job  `json:"jobs"`
	NextCursor string `json:"next_cursor,omitempty"`
	// Counted is set if the filter requests a count.
	Counted *JobCount `json:"counted,omitempty"`
}

// JobCount is the number of jobs that a filter selects.
type JobCount struct {
	Count int64 `json:"count"`
	// Groups are in the order in which they were found.
	Groups []JobGroup `json:"groups,omitempty"`
	// Complete reports that all jobs were examined; otherwise continue with NextCursor.
	Complete   bool   `json:"complete"`
	NextCursor string `json:"next_cursor,omitempty"`
}

// JobGroup counts dead jobs that failed alike, with one of them.
type JobGroup struct {
	Fingerprint Hex     `json:"fingerprint,omitempty"`
	Count       int64   `json:"count"`
	Job         JobID   `json:"job"`
	Type        JobType `json:"type"`
	Reason      Reason  `json:"reason,omitempty"`
	Error       string  `json:"error,omitempty"`
}

// JobChange changes fields of a pending job (SPEC §21.2). A nil field stays unchanged.
type JobChange struct {
	ID       JobID
	Priority *int32
	Fee      *int64
	// Labels are added to the job's labels; an empty value removes one.
	Labels map[string]string
	// TTL counts from the submission or the last retry; 0 means the queue's value.
	TTL *time.Duration
	// StartBy counts from the same time as TTL; 0 means no limit.
	StartBy *time.Duration
	Payload *Blob
	// Life and Changes are the last known values of the job: the change is refused as Stale if the job has newer ones.
	// Without them it applies to the job as it is.
	Life    *int32
	Changes *int32
}

// CheckShape rejects a change that is empty or out of range.
func (c *JobChange) CheckShape(payloadMax int64) error {
	if err := CheckJobRef("id", c.ID); err != nil {
		return err
	}
	if n := len(c.Labels); n > 2*MaxLabels { // as many labels removed as a job can have, and as many set
		return TooMany("labels", n, 2*MaxLabels)
	}
	if c.Priority == nil && c.Fee == nil && len(c.Labels) == 0 && c.TTL == nil && c.StartBy == nil && c.Payload == nil {
		return Refusef(KindInvalid, "change",
			"the change of job %s is empty: set at least one of priority, fee, labels, ttl_ms, start_by_ms, payload",
			c.ID)
	}
	if (c.Life == nil) != (c.Changes == nil) || c.Life != nil && min(*c.Life, *c.Changes) < 0 {
		return Refusef(KindInvalid, "life",
			"the change of job %s: set both life and changes, each at least 0, or neither", c.ID)
	}
	for _, key := range slices.Sorted(maps.Keys(c.Labels)) { // removed labels too, as events contain them
		if !validLabel(key) {
			return Refusef(KindInvalid, "labels",
				"labels: a key must be 1 to %d bytes of printable ASCII without blanks", MaxLabelBytes)
		}
	}
	spec := c.Of(&JobSpec{ID: "j", Queue: DefaultQueue, Type: "t", Tenant: DefaultTenant})
	return spec.CheckShape(payloadMax)
}

// Of returns the spec after the change. Unchanged fields are shared with s.
func (c *JobChange) Of(s *JobSpec) JobSpec {
	next := *s
	if c.Priority != nil {
		next.Priority = *c.Priority
	}
	if c.Fee != nil {
		next.Fee = *c.Fee
	}
	if c.TTL != nil {
		next.TTL = *c.TTL
	}
	if c.StartBy != nil {
		next.StartBy = *c.StartBy
	}
	if c.Payload != nil {
		next.Payload = *c.Payload
	}
	if len(c.Labels) > 0 {
		next.Labels = maps.Clone(s.Labels)
		if next.Labels == nil {
			next.Labels = make(map[string]string, len(c.Labels))
		}
		maps.Copy(next.Labels, c.Labels)
		maps.DeleteFunc(next.Labels, func(key, _ string) bool {
			value, named := c.Labels[key]
			return named && value == ""
		})
	}
	return next
}

// AttemptLog is the known part of the log of an attempt (SPEC §22.3).
type AttemptLog struct {
	Job     JobID    `json:"job"`
	Attempt int32    `json:"attempt"`
	Lease   LeaseID  `json:"lease_id"`
	Worker  WorkerID `json:"worker"`
	// Open reports that the attempt has not ended: the log may grow.
	Open bool `json:"open"`
	// Parts are whole lines, in order.
	Parts []LogPart `json:"parts"`
}

// LogPart is a piece of a log: whole lines, each with its newline.
type LogPart struct {
	// At is the number of bytes before this part, CutLines that of lines before it that were cut.
	At       uint64 `json:"at"`
	CutLines uint64 `json:"cut_lines,omitempty"`
	Text     Blob   `json:"text"`
}

// End returns the position after the part.
func (p *LogPart) End() uint64 { return p.At + uint64(len(p.Text)) }

// LogOf selects the attempt whose log is read, and the position to start from.
type LogOf struct {
	Job JobID
	// Attempt is the number of the attempt: the newest one with that number, or the newest of all if nil. Lease, if not
	// zero, selects the attempt instead.
	Attempt *int32
	Lease   LeaseID
	// After is the number of bytes at the beginning of the log to leave out.
	After uint64
}
