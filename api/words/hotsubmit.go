package words

import (
	"github.com/rotasched/rota"
)

// Submission is a request to submit jobs, as the node reads it.
type Submission struct {
	Jobs []rota.JobSpec
	// Size is the size of the message in bytes.
	Size int
}

// SubmitOutcomes is the answer to a Submission, as the client reads it.
type SubmitOutcomes struct{ Jobs []rota.Submitted }

// submitNumbers bounds the bytes of a job's numbers, tags and lengths, except for lists.
const submitNumbers = 320

// MaxJobSpec returns an upper bound, not much too large, for the bytes of a job in a message.
func MaxJobSpec(s *rota.JobSpec) int { return submitNumbers + maxJobSpec(s) }

// JobSpecSize returns the bytes of a job in a message.
func JobSpecSize(s *rota.JobSpec) int { return len(appendJobSpec(nil, s)) }

// WriteSubmission writes a request to submit n jobs.
func WriteSubmission(n int, job func(i int) *rota.JobSpec) *Written {
	room := 0
	for i := range n {
		room += MaxJobSpec(job(i)) - submitNumbers/2 // few jobs have every field
	}
	b, at := make([]byte, 0, room), 0
	for i := range n {
		b, at = openMessage(b, submitRequestJobs)
		b = closeMessage(appendJobSpec(b, job(i)), at)
	}
	return &Written{b}
}

// read decodes a message. It keeps nothing of b.
func (m *Submission) read(b []byte) (err error) {
	*m = Submission{Size: len(b)}
	m.Jobs, err = readEach(b, submitRequestJobs, func(spec *rota.JobSpec, b []byte) error {
		spec.Priority = rota.DefaultPriority
		return readJobSpec(spec, b)
	})
	return err
}

// WriteSubmitOutcomes writes the answer, one outcome per job, in order.
func WriteSubmitOutcomes(outcomes []rota.Submitted) *Written {
	b, at, index := make([]byte, 0, 64*len(outcomes)), 0, rota.Index(0)
	for i := range outcomes {
		o := &outcomes[i]
		b, at = openMessage(b, submitResponseJobs)
		b = closeMessage(appendSubmitted(b, o), at)
		index = max(index, o.Index)
	}
	return &Written{appendNumber(b, submitResponseIndex, index)}
}

// read decodes a message. It keeps nothing of b.
func (m *SubmitOutcomes) read(b []byte) (err error) {
	m.Jobs, err = readEach(b, submitResponseJobs, readSubmitted)
	return err
}

func readSubmitted(o *rota.Submitted, b []byte) error {
	var u unsettledSubmitted
	if err := u.read(o, b); err != nil {
		return err
	}
	return u.settle(o)
}
