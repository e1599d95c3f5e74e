package words

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
)

// countEach says how many fields of a number a message has, each a message itself.
func countEach(b []byte, number protowire.Number) (n int, err error) {
	for len(b) > 0 {
		f, rest, err := nextField(b)
		if err != nil {
			return 0, err
		}
		if b = rest; f.number == number && f.kind == protowire.BytesType {
			n++
		}
	}
	return n, nil
}

func (m *FromNode) answers(b []byte) error {
	n, err := countEach(b, answersEach)
	if err != nil {
		return err
	}
	m.Answers = make([]rota.LeaseAnswer, 0, n)
	var refusal *rotav1.Refusal
	for len(b) > 0 {
		f, rest, err := nextField(b)
		if err != nil {
			return err
		}
		b = rest
		switch {
		case f.number == answersSequence && f.kind == protowire.VarintType:
			m.Sequence = f.value
		case f.kind != protowire.BytesType:
		case f.number == answersEach:
			m.Answers = append(m.Answers, rota.LeaseAnswer{})
			err = readAnswer(&m.Answers[len(m.Answers)-1], f.bytes)
		case f.number == answersRefusal:
			err = mergeRefusal(&refusal, f.bytes)
		}
		if err != nil {
			return err
		}
	}
	m.Refusal = RefusalFromWire(refusal)
	return nil
}

// mergeRefusal is not hot.
func mergeRefusal(to **rotav1.Refusal, b []byte) error {
	if *to == nil {
		*to = new(rotav1.Refusal)
	}
	return proto.UnmarshalOptions{Merge: true}.Unmarshal(b, *to)
}

func readAnswer(a *rota.LeaseAnswer, b []byte) error {
	var refusal *rotav1.Refusal
	var state []byte
	for len(b) > 0 {
		f, rest, err := nextField(b)
		if err != nil {
			return err
		}
		b = rest
		switch {
		case f.kind == protowire.BytesType && f.number == 1:
			err = mergeRefusal(&refusal, f.bytes)
		case f.kind == protowire.BytesType && f.number == 4:
			var text string
			state, err = f.bytes, textOfBytes(&text, f.bytes)
		case f.kind != protowire.VarintType:
		case f.number == 2:
			a.Deadline = rota.Clock(f.value)
		case f.number == 3:
			a.Renewals = int32(f.value)
		case f.number == 5:
			a.Index = rota.Index(f.value)
		}
		if err != nil {
			return err
		}
	}
	a.Err = RefusalFromWire(refusal)
	var err error
	a.JobState, err = jobStates.value(string(state))
	return err
}

// read reads a message. It keeps nothing of b.
func (m *FromWorker) read(b []byte) error {
	*m = FromWorker{Size: len(b)}
	f, rest, err := nextField(b)
	if err != nil || len(rest) > 0 || f.number != requestCommands || f.kind != protowire.BytesType {
		m.Seldom = new(rotav1.WorkRequest)
		if err := proto.Unmarshal(b, m.Seldom); err != nil {
			return err
		}
		if w, ok := m.Seldom.GetMessage().(*rotav1.WorkRequest_Commands); ok {
			m.Seldom, m.Sequence = nil, w.Commands.GetSequence()
			for _, c := range w.Commands.GetCommands() {
				command, err := LeaseCommandFromWire(c)
				m.add(command, err)
			}
		}
		return nil
	}
	return m.commands(append([]byte(nil), f.bytes...))
}

func (m *FromWorker) commands(b []byte) error {
	n, err := countEach(b, commandsEach)
	if err != nil {
		return err
	}
	m.Commands = make([]rota.LeaseCommand, 0, n)
	for len(b) > 0 {
		f, rest, err := nextField(b)
		if err != nil {
			return err
		}
		b = rest
		switch {
		case f.number == commandsSequence && f.kind == protowire.VarintType:
			m.Sequence = f.value
		case f.number == commandsEach && f.kind == protowire.BytesType:
			command, fault, err := readCommand(f.bytes)
			if err != nil {
				return err
			}
			m.add(command, fault)
		}
	}
	return nil
}

// add takes a command, or why it is none.
func (m *FromWorker) add(c rota.LeaseCommand, fault error) {
	m.Commands = append(m.Commands, c)
	if fault != nil && m.Faults == nil {
		m.Faults = make([]error, len(m.Commands)-1, cap(m.Commands))
	}
	if m.Faults != nil {
		m.Faults = append(m.Faults, fault)
	}
}

func readCommand(b []byte) (c rota.LeaseCommand, fault, err error) {
	var id []byte
	var verb int32
	for len(b) > 0 {
		f, rest, err := nextField(b)
		if err != nil {
			return c, nil, err
		}
		b = rest
		switch {
		case f.kind == protowire.VarintType && f.number == 1:
			verb = int32(f.value)
		case f.kind == protowire.VarintType && f.number == 3:
			c.Ordinal = int32(f.value)
		case f.kind == protowire.VarintType && f.number == 7:
			c.Progress = int32(f.value)
		case f.kind == protowire.VarintType && f.number == 8:
			c.NoRetry = f.value != 0
		case f.kind == protowire.VarintType && f.number == 10:
			c.TimedOut = f.value != 0
		case f.kind != protowire.BytesType:
		case f.number == 2:
			id = f.bytes
		case f.number == 4:
			c.Output = f.bytes
		case f.number == 5:
			c.OutputDigest = f.bytes
		case f.number == 6:
			err = textOfBytes(&c.Text, f.bytes)
		case f.number == 9:
			err = textOfBytes(&c.Job, f.bytes)
		case f.number == 11:
			err = pairOfBytes(&c.Meta, f.bytes)
		}
		if err != nil {
			return c, nil, err
		}
	}
	if c.Verb = rota.LeaseVerb(verb); verb < int32(rotav1.LeaseVerb_LEASE_VERB_ACK) ||
		verb > int32(rotav1.LeaseVerb_LEASE_VERB_PROGRESS) {
		return c, unknownVerb(verb), nil
	}
	c.Lease, fault = LeaseIDFromWire(id)
	return c, fault, nil
}
