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
	// Total counts all jobs added to the batch, Live those that have not ended. The other fields count the ended jobs
	// by state.
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
		return Refusef(KindInvalid, "callback", "the callback of batch %s has the id %.80q: omit it, the callback's id is %s", s.ID, own.ID, CallbackID(s.ID))
	case len(own.Labels) > MaxLabels-len(batchLabels):
		return Refusef(KindInvalid, "labels", "too many labels: got %d in the callback, maximum %d; the batch adds %d", len(own.Labels),
			MaxLabels-len(batchLabels), len(batchLabels))
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
	// Why is the reason why the callback could not be submitted yet.
	Why string `json:"why,omitempty"`
	// Callback is the id of the callback job, set after it was submitted.
	Callback JobID     `json:"callback,omitempty"`
	By       Principal `json:"by,omitempty"`
}
