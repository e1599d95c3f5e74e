package words

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/internal/peer"
)

// FromNode is a message of a worker's stream as the worker reads it. Parts that come with every lease are decoded
// directly to Go types, without the generated messages in between.
type FromNode struct {
	// Other is set to the message if it has neither notices nor answers.
	Other *rotav1.WorkResponse
	// Notices are in the order assigned, revoked, ended, draining.
	Notices []peer.Notice
	// Answered reports that a batch was answered: by its sequence, as a whole with an error, or one by one.
	Answered bool
	Sequence uint64
	Refusal  *rota.Error
	Answers  []peer.LeaseAnswer
}

// FromWorker is a message of a worker's stream as the node reads it.
type FromWorker struct {
	// Other is set to the message if it has no commands.
	Other *rotav1.WorkRequest
	// Commands and Faults correspond by position; a fault explains why a command is invalid. Faults is nil if all
	// commands are valid.
	Sequence uint64
	Commands []peer.LeaseCommand
	Faults   []error
	// Size is the size of the message in bytes.
	Size int
}

// read decodes a message. It keeps nothing of b.
func (m *FromNode) read(b []byte) error {
	*m = FromNode{}
	f, rest, err := nextField(b)
	if err != nil || len(rest) > 0 || f.kind != protowire.BytesType ||
		f.number != workResponseNotices && f.number != workResponseAnswers {
		m.Other = new(rotav1.WorkResponse)
		return m.other(proto.Unmarshal(b, m.Other))
	}
	if f.number == workResponseNotices {
		m.Notices, err = readNotices(f.bytes)
		return err
	}
	m.Answered = true
	return m.answers(f.bytes)
}

// other stores a message of the generated type.
func (m *FromNode) other(err error) error {
	if err != nil {
		return err
	}
	switch w := m.Other.GetMessage().(type) {
	case *rotav1.WorkResponse_Notices:
		m.Other = nil
		m.Notices, err = NoticesFromWire(w.Notices)
	case *rotav1.WorkResponse_Answers:
		m.Other, m.Answered, m.Sequence = nil, true, w.Answers.GetSequence()
		m.Refusal = RefusalFromWire(w.Answers.GetRefusal())
		m.Answers, err = tryEach(w.Answers.GetAnswers(), LeaseAnswerFromWire)
	}
	return err
}

func readNotices(b []byte) ([]peer.Notice, error) {
	var n [noticesDraining + 1]int
	draining := false
	for rest := b; len(rest) > 0; {
		var f field
		var err error
		if f, rest, err = nextField(rest); err != nil {
			return nil, err
		}
		switch {
		case f.number == noticesDraining && f.kind == protowire.VarintType:
			draining = f.value != 0
		case f.number < noticesDraining && f.kind == protowire.BytesType:
			n[f.number]++
		}
	}
	notices := make([]peer.Notice, n[noticesAssigned]+n[noticesRevoked]+n[noticesEnded],
		n[noticesAssigned]+n[noticesRevoked]+n[noticesEnded]+1)
	at := [...]int{noticesAssigned: 0, noticesRevoked: n[noticesAssigned],
		noticesEnded: n[noticesAssigned] + n[noticesRevoked]}
	for len(b) > 0 {
		f, rest, _ := nextField(b)
		b = rest
		if f.number >= noticesDraining || f.kind != protowire.BytesType {
			continue
		}
		to := &notices[at[f.number]]
		at[f.number]++
		var err error
		switch f.number {
		case noticesAssigned:
			to.Assigned = new(rota.Assignment)
			err = readAssignment(to.Assigned, f.bytes)
		case noticesEnded:
			to.Ended = new(peer.LeaseEnd)
			err = readLeaseEnd(to.Ended, f.bytes)
		default:
			to.Revoked = new(peer.LeaseEnd)
			err = readLeaseEnd(to.Revoked, f.bytes)
		}
		if err != nil {
			return nil, err
		}
	}
	if draining {
		notices = append(notices, peer.Notice{Draining: true})
	}
	return notices, nil
}

// readAssignment copies all that it reads once, so that a long-lived assignment does not keep another's memory.
func readAssignment(a *rota.Assignment, b []byte) error {
	a.Spec.Priority = rota.DefaultPriority
	var u unsettledAssignment
	if err := u.read(a, append([]byte(nil), b...)); err != nil {
		return err
	}
	return u.settle(a)
}

func readLeaseEnd(e *peer.LeaseEnd, b []byte) error {
	var u unsettledLeaseEnd
	if err := u.read(e, append([]byte(nil), b...)); err != nil {
		return err
	}
	return u.settle(e)
}
