package words

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
)

// FromNode is a message of a worker's stream as the worker reads it: what comes with every
// lease is read into words at once, without the generated messages between.
type FromNode struct {
	// Seldom is the message where it tells neither notices nor answers.
	Seldom *rotav1.WorkResponse
	// Notices in the order assigned, revoked, ended, draining.
	Notices []rota.Notice
	// Answered says that a batch was answered: by its sequence, as a whole with a
	// refusal, or one by one.
	Answered bool
	Sequence uint64
	Refusal  *rota.Error
	Answers  []rota.LeaseAnswer
}

// FromWorker is a message of a worker's stream as the node reads it.
type FromWorker struct {
	// Seldom is the message where it brings no commands.
	Seldom *rotav1.WorkRequest
	// Commands and Faults, why one is none, stand at the same places; Faults is nil
	// where all are good.
	Sequence uint64
	Commands []rota.LeaseCommand
	Faults   []error
	// Size is how many bytes the message had.
	Size int
}

// read reads a message. It keeps nothing of b.
func (m *FromNode) read(b []byte) error {
	*m = FromNode{}
	f, rest, err := nextField(b)
	if err != nil || len(rest) > 0 || f.kind != protowire.BytesType ||
		f.number != responseNotices && f.number != responseAnswers {
		m.Seldom = new(rotav1.WorkResponse)
		return m.seldom(proto.Unmarshal(b, m.Seldom))
	}
	if f.number == responseNotices {
		m.Notices, err = readNotices(f.bytes)
		return err
	}
	m.Answered = true
	return m.answers(f.bytes)
}

// seldom takes a message of the generated kind.
func (m *FromNode) seldom(err error) error {
	if err != nil {
		return err
	}
	switch w := m.Seldom.GetMessage().(type) {
	case *rotav1.WorkResponse_Notices:
		m.Seldom = nil
		m.Notices, err = NoticesFromWire(w.Notices)
	case *rotav1.WorkResponse_Answers:
		m.Seldom, m.Answered, m.Sequence = nil, true, w.Answers.GetSequence()
		m.Refusal = RefusalFromWire(w.Answers.GetRefusal())
		m.Answers, err = tryEach(w.Answers.GetAnswers(), LeaseAnswerFromWire)
	}
	return err
}

func readNotices(b []byte) ([]rota.Notice, error) {
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
	notices := make([]rota.Notice, n[noticesAssigned]+n[noticesRevoked]+n[noticesEnded], n[noticesAssigned]+n[noticesRevoked]+n[noticesEnded]+1)
	at := [...]int{noticesAssigned: 0, noticesRevoked: n[noticesAssigned], noticesEnded: n[noticesAssigned] + n[noticesRevoked]}
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
			to.Ended = new(rota.LeaseEnd)
			err = readLeaseEnd(to.Ended, f.bytes)
		default:
			to.Revoked = new(rota.LeaseEnd)
			err = readLeaseEnd(to.Revoked, f.bytes)
		}
		if err != nil {
			return nil, err
		}
	}
	if draining {
		notices = append(notices, rota.Notice{Draining: true})
	}
	return notices, nil
}

// leaseTexts are the fields of a lease that are words only when all is read, as a later
// one takes an earlier one's place.
type leaseTexts struct {
	id                            []byte
	token, state, revoked, reason string
}

// readAssignment copies what it reads once, so that an assignment that lives long keeps no
// other's memory.
func readAssignment(a *rota.Assignment, b []byte) error {
	b = append([]byte(nil), b...)
	var texts leaseTexts
	leased := false
	a.Spec.Priority = rota.DefaultPriority
	for len(b) > 0 {
		f, rest, err := nextField(b)
		if err != nil {
			return err
		}
		b = rest
		switch {
		case f.kind == protowire.BytesType && f.number == 1:
			leased = true
			err = readLease(&a.Lease, &texts, f.bytes)
		case f.kind == protowire.BytesType && f.number == 2:
			err = readJobSpec(&a.Spec, f.bytes)
		case f.kind != protowire.VarintType:
		case f.number == 3:
			a.RenewEveryMs = int64(f.value)
		case f.number == 4:
			a.LeaseMs = int64(f.value)
		case f.number == 5:
			a.RenewalsMax = int32(f.value)
		case f.number == 6:
			a.MaxRuntimeMs = int64(f.value)
		case f.number == 7:
			a.GraceMs = int64(f.value)
		}
		if err != nil {
			return err
		}
	}
	if !leased {
		return rota.Refusef(rota.Invalid, "lease", "a lease is missing")
	}
	return texts.settle(&a.Lease)
}

func (t *leaseTexts) settle(l *rota.Lease) (err error) {
	if l.ID, err = LeaseIDFromWire(t.id); err != nil {
		return err
	}
	if l.Token, err = tokenFromWire(t.token); err != nil {
		return err
	}
	if l.State, err = leaseStates.value(t.state); err != nil {
		return err
	}
	if l.Revoked, err = reasons.value(t.revoked); err != nil {
		return err
	}
	l.Decision.Reasoning.Rule, err = rules.value(t.reason)
	return err
}

func readLease(l *rota.Lease, texts *leaseTexts, b []byte) error {
	for len(b) > 0 {
		f, rest, err := nextField(b)
		if err != nil {
			return err
		}
		b = rest
		switch f.kind {
		case protowire.VarintType:
			readLeaseNumber(l, f.number, f.value)
		case protowire.BytesType:
			switch f.number {
			case 1:
				texts.id = f.bytes
			case 2:
				err = textOfBytes(&texts.token, f.bytes)
			case 3:
				err = textOfBytes(&l.Job, f.bytes)
			case 4:
				err = textOfBytes(&l.Worker, f.bytes)
			case 7:
				err = textOfBytes(&texts.state, f.bytes)
			case 14:
				err = textOfBytes(&texts.revoked, f.bytes)
			case 19:
				err = textOfBytes(&texts.reason, f.bytes)
			case 22:
				l.Decision.Seed = f.bytes
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func readLeaseNumber(l *rota.Lease, number protowire.Number, v uint64) {
	d := &l.Decision
	switch number {
	case 5:
		l.Session = rota.Session(v)
	case 6:
		l.Attempt = int32(v)
	case 8:
		l.Started.Clock = rota.Clock(v)
	case 9:
		l.AckBy.Clock = rota.Clock(v)
	case 10:
		l.Acked.Clock = rota.Clock(v)
	case 11:
		l.RenewBy.Clock = rota.Clock(v)
	case 12:
		l.Deadline.Clock = rota.Clock(v)
	case 13:
		l.Renewals = int32(v)
	case 15:
		d.Epoch = v
	case 16:
		d.Height = rota.Index(v)
	case 17:
		d.Score = rota.Score(v)
	case 18:
		d.Rank = int32(v)
	case 20:
		d.Reasoning.N = int64(v)
	case 21:
		d.Reasoning.Of = int64(v)
	case 23:
		l.Started.Date = rota.Date(v)
	case 24:
		l.AckBy.Date = rota.Date(v)
	case 25:
		l.Acked.Date = rota.Date(v)
	case 26:
		l.RenewBy.Date = rota.Date(v)
	case 27:
		l.Deadline.Date = rota.Date(v)
	}
}

func readLeaseEnd(e *rota.LeaseEnd, b []byte) error {
	var id []byte
	var reason string
	b = append([]byte(nil), b...)
	for len(b) > 0 {
		f, rest, err := nextField(b)
		if err != nil {
			return err
		}
		b = rest
		if f.kind != protowire.BytesType {
			continue
		}
		switch f.number {
		case 1:
			id = f.bytes
		case 2:
			err = textOfBytes(&e.Job, f.bytes)
		case 3:
			err = textOfBytes(&reason, f.bytes)
		}
		if err != nil {
			return err
		}
	}
	var err error
	if e.Lease, err = LeaseIDFromWire(id); err != nil {
		return err
	}
	e.Reason, err = reasons.value(reason)
	return err
}
