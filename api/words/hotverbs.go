package words

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/internal/peer"
)

func (m *FromNode) answers(b []byte) error {
	n, err := countEach(b, leaseAnswersAnswers)
	if err != nil {
		return err
	}
	m.Answers = make([]peer.LeaseAnswer, 0, n)
	var refusal *rotav1.Refusal
	for len(b) > 0 {
		f, rest, err := nextField(b)
		if err != nil {
			return err
		}
		b = rest
		switch {
		case f.number == leaseAnswersSequence && f.kind == protowire.VarintType:
			m.Sequence = f.value
		case f.kind != protowire.BytesType:
		case f.number == leaseAnswersAnswers:
			m.Answers = append(m.Answers, peer.LeaseAnswer{})
			err = readAnswer(&m.Answers[len(m.Answers)-1], f.bytes)
		case f.number == leaseAnswersRefusal:
			err = mergeRefusal(&refusal, f.bytes)
		}
		if err != nil {
			return err
		}
	}
	m.Refusal = RefusalFromWire(refusal)
	return nil
}

func readAnswer(a *peer.LeaseAnswer, b []byte) error {
	var u unsettledLeaseAnswer
	if err := u.read(a, b); err != nil {
		return err
	}
	return u.settle(a)
}

// read decodes a message. It keeps nothing of b.
func (m *FromWorker) read(b []byte) error {
	*m = FromWorker{Size: len(b)}
	f, rest, err := nextField(b)
	if err != nil || len(rest) > 0 || f.number != workRequestCommands || f.kind != protowire.BytesType {
		m.Other = new(rotav1.WorkRequest)
		if err := proto.Unmarshal(b, m.Other); err != nil {
			return err
		}
		if w, ok := m.Other.GetMessage().(*rotav1.WorkRequest_Commands); ok {
			m.Other, m.Sequence = nil, w.Commands.GetSequence()
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
	n, err := countEach(b, leaseCommandsCommands)
	if err != nil {
		return err
	}
	m.Commands = make([]peer.LeaseCommand, 0, n)
	for len(b) > 0 {
		f, rest, err := nextField(b)
		if err != nil {
			return err
		}
		b = rest
		switch {
		case f.number == leaseCommandsSequence && f.kind == protowire.VarintType:
			m.Sequence = f.value
		case f.number == leaseCommandsCommands && f.kind == protowire.BytesType:
			command, fault, err := readCommand(f.bytes)
			if err != nil {
				return err
			}
			m.add(command, fault)
		}
	}
	return nil
}

// add adds a command, or the fault that makes it invalid.
func (m *FromWorker) add(c peer.LeaseCommand, fault error) {
	m.Commands = append(m.Commands, c)
	if fault != nil && m.Faults == nil {
		m.Faults = make([]error, len(m.Commands)-1, cap(m.Commands))
	}
	if m.Faults != nil {
		m.Faults = append(m.Faults, fault)
	}
}

// readCommand returns a command, or the fault that makes it invalid, or an error if the bytes are not a message.
func readCommand(b []byte) (c peer.LeaseCommand, fault, err error) {
	var u unsettledLeaseCommand
	if err := u.read(&c, b); err != nil {
		return c, nil, err
	}
	fault = u.settle(&c)
	return c, fault, nil
}
