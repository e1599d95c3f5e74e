package rota

import (
	"maps"
	"slices"
	"time"
)

// JobChange changes fields of a pending job (SPEC §21.2). A nil field stays unchanged.
type JobChange struct {
	ID       JobID
	Priority *int32
	Fee      *int64
	// Labels are added to the labels of the job; an empty value removes a label.
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
		return Refusef(KindInvalid, "change", "the change of job %s is empty: set at least one of priority, fee, labels, ttl_ms, start_by_ms, payload", c.ID)
	}
	if (c.Life == nil) != (c.Changes == nil) || c.Life != nil && min(*c.Life, *c.Changes) < 0 {
		return Refusef(KindInvalid, "life", "the change of job %s: set both life and changes, each at least 0, or neither", c.ID)
	}
	for _, key := range slices.Sorted(maps.Keys(c.Labels)) { // removed labels too, as events contain them
		if !validLabel(key) {
			return Refusef(KindInvalid, "labels", "labels: a key must be 1 to %d bytes of printable ASCII without blanks", MaxLabelBytes)
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
