package words

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
)

// Submission is a request to submit jobs, as the node reads it.
type Submission struct {
	Jobs []rota.JobSpec
	// Size is how many bytes the message had.
	Size int
}

// SubmitOutcomes is the answer to a Submission, as the client reads it.
type SubmitOutcomes struct{ Jobs []rota.Submitted }

// The fields of both messages (rota.proto).
const (
	submitJobs, outcomesJobs, outcomesIndex = 1, 1, 2
	// submitNumbers bounds what a job's numbers, tags and lengths take, but for lists.
	submitNumbers = 320
)

// JobSpecMost is at least what a job takes in a message, and not much more.
func JobSpecMost(s *rota.JobSpec) int {
	n := submitNumbers + len(s.ID) + len(s.Queue) + len(s.Type) + len(s.Tenant) + len(s.Payload) + len(s.Zone) + len(s.Domain) +
		len(s.Worker) + len(s.ExpectedDigest)
	for _, list := range [...][]string{s.Requires, s.RegionsAllow, s.RegionsDeny, s.DataKeys} {
		for _, text := range list {
			n += len(text) + 8
		}
	}
	for k, v := range s.Labels {
		n += len(k) + len(v) + 16
	}
	for k := range s.Limits {
		n += len(k) + 24
	}
	return n
}

// JobSpecSize is what a job takes in a message.
func JobSpecSize(s *rota.JobSpec) int { return len(appendJobSpec(nil, s)) }

// WriteSubmission writes a request to submit n jobs.
func WriteSubmission(n int, job func(i int) *rota.JobSpec) *Written {
	room := 0
	for i := range n {
		room += JobSpecMost(job(i)) - submitNumbers/2 // few jobs have every field
	}
	b, at := make([]byte, 0, room), 0
	for i := range n {
		b, at = openMessage(b, submitJobs)
		b = closeMessage(appendJobSpec(b, job(i)), at)
	}
	return &Written{b}
}

// read reads a message. It keeps nothing of b.
func (m *Submission) read(b []byte) error {
	*m = Submission{Size: len(b)}
	n, err := countEach(b, submitJobs)
	if err != nil {
		return err
	}
	b, m.Jobs = append([]byte(nil), b...), make([]rota.JobSpec, 0, n)
	for len(b) > 0 {
		f, rest, err := nextField(b)
		if err != nil {
			return err
		}
		if b = rest; f.number != submitJobs || f.kind != protowire.BytesType {
			continue
		}
		m.Jobs = append(m.Jobs, rota.JobSpec{Priority: rota.DefaultPriority})
		if err := readJobSpec(&m.Jobs[len(m.Jobs)-1], f.bytes); err != nil {
			return err
		}
	}
	return nil
}

// WriteSubmitOutcomes writes the answer, one outcome for each job in its order.
func WriteSubmitOutcomes(outcomes []rota.Submitted) *Written {
	b, at, index := make([]byte, 0, 64*len(outcomes)), 0, rota.Index(0)
	for i := range outcomes {
		o := &outcomes[i]
		b, at = openMessage(b, outcomesJobs)
		b = appendText(b, 1, o.ID)
		b = appendText(b, 2, jobStates.text(o.State))
		b = appendYes(b, 3, o.Existed)
		b = appendRefusal(b, 4, rota.ErrorOf(o.Err))
		b = appendNumber(b, 5, o.Index)
		b = closeMessage(appendYes(b, 6, o.Throttle), at)
		index = max(index, o.Index)
	}
	return &Written{appendNumber(b, outcomesIndex, index)}
}

// read reads a message. It keeps nothing of b.
func (m *SubmitOutcomes) read(b []byte) error {
	n, err := countEach(b, outcomesJobs)
	if err != nil {
		return err
	}
	b, m.Jobs = append([]byte(nil), b...), make([]rota.Submitted, 0, n)
	for len(b) > 0 {
		f, rest, err := nextField(b)
		if err != nil {
			return err
		}
		if b = rest; f.number != outcomesJobs || f.kind != protowire.BytesType {
			continue
		}
		m.Jobs = append(m.Jobs, rota.Submitted{})
		if err := readSubmitted(&m.Jobs[len(m.Jobs)-1], f.bytes); err != nil {
			return err
		}
	}
	return nil
}

func readSubmitted(o *rota.Submitted, b []byte) error {
	var refusal *rotav1.Refusal
	var state string
	for len(b) > 0 {
		f, rest, err := nextField(b)
		if err != nil {
			return err
		}
		b = rest
		switch {
		case f.kind == protowire.BytesType && f.number == 1:
			err = textOfBytes(&o.ID, f.bytes)
		case f.kind == protowire.BytesType && f.number == 2:
			err = textOfBytes(&state, f.bytes)
		case f.kind == protowire.BytesType && f.number == 4:
			err = mergeRefusal(&refusal, f.bytes)
		case f.kind != protowire.VarintType:
		case f.number == 3:
			o.Existed = f.value != 0
		case f.number == 5:
			o.Index = rota.Index(f.value)
		case f.number == 6:
			o.Throttle = f.value != 0
		}
		if err != nil {
			return err
		}
	}
	o.Err = RefusalFromWire(refusal).OrNil()
	var err error
	o.State, err = jobStates.value(state)
	return err
}
