package words

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/rotasched/rota"
)

// Written is a message that is encoded already. It is written once; whoever sends it gives
// it away.
type Written struct{ bytes []byte }

// Size is how many bytes it takes.
func (w *Written) Size() int { return len(w.bytes) }

// The fields of the messages of a worker's stream (rota.proto).
const (
	requestCommands, responseNotices, responseAnswers = 2, 2, 3
	noticesAssigned, noticesEnded, noticesRevoked     = 1, 2, 3
	noticesDraining                                   = 4
	commandsSequence, commandsEach                    = 1, 2
	answersSequence, answersEach, answersRefusal      = 1, 2, 3
)

// WriteNotices writes messages of at most so many bytes, or of one notice. The order
// between messages is kept; within one a worker reads assigned, revoked, ended, which
// loses nothing: a lease is assigned once, then perhaps revoked, then ended.
func WriteNotices(notices []rota.Notice, most int) []*Written {
	var all []*Written
	var b []byte
	at, room := 0, 0
	for i := range notices {
		if b == nil {
			b, at = openMessage(make([]byte, 0, min(most, room)), responseNotices)
		}
		before := len(b)
		if b = appendNotice(b, &notices[i]); i == 0 { // the others may be like it
			room = (len(b)-before)*len(notices)*17/16 + 32
			b = append(make([]byte, 0, min(most, room)), b...)
		}
		if len(b)+lengthRoom > most && before > at+lengthRoom {
			last := append([]byte(nil), b[before:]...)
			all = append(all, &Written{closeMessage(b[:before], at)})
			b, at = openMessage(make([]byte, 0, min(most, room)), responseNotices)
			b = append(b, last...)
		}
	}
	if b != nil {
		all = append(all, &Written{closeMessage(b, at)})
	}
	return all
}

func appendNotice(b []byte, n *rota.Notice) []byte {
	switch {
	case n.Assigned != nil:
		b, at := openMessage(b, noticesAssigned)
		return closeMessage(appendAssignment(b, n.Assigned), at)
	case n.Ended != nil:
		b, at := openMessage(b, noticesEnded)
		return closeMessage(appendLeaseEnd(b, n.Ended), at)
	case n.Revoked != nil:
		b, at := openMessage(b, noticesRevoked)
		return closeMessage(appendLeaseEnd(b, n.Revoked), at)
	default:
		return appendYes(b, noticesDraining, n.Draining)
	}
}

func appendAssignment(b []byte, a *rota.Assignment) []byte {
	b, at := openMessage(b, 1)
	b = closeMessage(appendLease(b, &a.Lease), at)
	b, at = openMessage(b, 2)
	b = closeMessage(appendJobSpec(b, &a.Spec), at)
	b = appendNumber(b, 3, a.RenewEveryMs)
	b = appendNumber(b, 4, a.LeaseMs)
	b = appendNumber(b, 5, a.RenewalsMax)
	b = appendNumber(b, 6, a.MaxRuntimeMs)
	return appendNumber(b, 7, a.GraceMs)
}

func appendLease(b []byte, l *rota.Lease) []byte {
	b = appendBytes(b, 1, leaseIDToWire(&l.ID))
	b = appendToken(b, 2, l.Token)
	b = appendText(b, 3, l.Job)
	b = appendText(b, 4, l.Worker)
	b = appendNumber(b, 5, l.Session)
	b = appendNumber(b, 6, l.Attempt)
	b = appendText(b, 7, leaseStates.text(l.State))
	b = appendNumber(b, 8, l.Started.Clock)
	b = appendNumber(b, 9, l.AckBy.Clock)
	b = appendNumber(b, 10, l.Acked.Clock)
	b = appendNumber(b, 11, l.RenewBy.Clock)
	b = appendNumber(b, 12, l.Deadline.Clock)
	b = appendNumber(b, 13, l.Renewals)
	b = appendText(b, 14, reasons.text(l.Revoked))
	d := &l.Decision
	b = appendNumber(b, 15, d.Epoch)
	b = appendNumber(b, 16, d.Height)
	b = appendNumber(b, 17, d.Score)
	b = appendNumber(b, 18, d.Rank)
	b = appendText(b, 19, rules.text(d.Reasoning.Rule))
	b = appendNumber(b, 20, d.Reasoning.N)
	b = appendNumber(b, 21, d.Reasoning.Of)
	b = appendBytes(b, 22, d.Seed)
	b = appendNumber(b, 23, l.Started.Date)
	b = appendNumber(b, 24, l.AckBy.Date)
	b = appendNumber(b, 25, l.Acked.Date)
	b = appendNumber(b, 26, l.RenewBy.Date)
	return appendNumber(b, 27, l.Deadline.Date)
}

func appendToken(b []byte, number protowire.Number, t rota.Token) []byte {
	if t.IsZero() {
		return b
	}
	var room [41]byte
	return appendBytes(b, number, writeToken(room[:0], t))
}

func appendJobSpec(b []byte, s *rota.JobSpec) []byte {
	b = appendText(b, 1, s.ID)
	b = appendText(b, 2, s.Queue)
	b = appendText(b, 3, s.Type)
	b = appendText(b, 4, s.Tenant)
	b = protowire.AppendVarint(protowire.AppendTag(b, 5, protowire.VarintType), uint64(s.Priority)) // 0 is not unset
	b = appendNumber(b, 6, s.Fee)
	b = appendNumber(b, 7, s.SizeBytes)
	b = appendBytes(b, 8, s.Payload)
	b = appendNumber(b, 9, s.DelayMs)
	b = appendNumber(b, 10, s.NotBefore)
	b = appendNumber(b, 11, s.TTLMs)
	b = appendNumber(b, 12, s.MaxRuntimeMs)
	b = appendNumber(b, 13, s.CPUMilli)
	b = appendNumber(b, 14, s.MemoryBytes)
	b = appendTexts(b, 15, s.Requires)
	b = appendTexts(b, 16, s.RegionsAllow)
	b = appendTexts(b, 17, s.RegionsDeny)
	b = appendText(b, 18, s.Zone)
	b = appendText(b, 19, s.Domain)
	b = appendText(b, 20, s.Worker)
	b = appendBytes(b, 21, s.ExpectedDigest)
	b = appendNumber(b, 22, s.SimulateMs)
	b = appendNumber(b, 23, s.Units)
	b = appendPairs(b, 24, s.Labels)
	for k, v := range s.Limits {
		var at int
		b, at = openMessage(b, 25)
		b = closeMessage(appendNumber(appendText(b, 1, k), 2, v), at)
	}
	b = appendNumber(b, 26, s.ExpectedMs)
	b = appendYes(b, 27, s.RetryOnInvalidProof)
	b = appendTexts(b, 28, s.DataKeys)
	b = appendYes(b, 29, s.Minted)
	return appendNumber(b, 30, s.IOBytesPerS)
}

func appendPairs(b []byte, number protowire.Number, pairs map[string]string) []byte {
	for k, v := range pairs {
		var at int
		b, at = openMessage(b, number)
		b = closeMessage(appendText(appendText(b, 1, k), 2, v), at)
	}
	return b
}

func appendTexts(b []byte, number protowire.Number, list []string) []byte {
	for _, s := range list { // an empty one counts
		b = protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), clean(s))
	}
	return b
}

func appendLeaseEnd(b []byte, e *rota.LeaseEnd) []byte {
	b = appendBytes(b, 1, leaseIDToWire(&e.Lease))
	b = appendText(b, 2, e.Job)
	return appendText(b, 3, reasons.text(e.Reason))
}

// WriteAnswers writes the outcomes of a batch, in its order; or, where refusal is not
// nil, that it has none.
func WriteAnswers(sequence uint64, answers []rota.LeaseAnswer, refusal *rota.Error) *Written {
	b, at := openMessage(make([]byte, 0, 32+32*len(answers)), responseAnswers)
	b = appendNumber(b, answersSequence, sequence)
	for i := range answers {
		a := &answers[i]
		var begin int
		b, begin = openMessage(b, answersEach)
		b = appendRefusal(b, 1, a.Err)
		b = appendNumber(b, 2, a.Deadline)
		b = appendNumber(b, 3, a.Renewals)
		b = appendText(b, 4, jobStates.text(a.JobState))
		b = closeMessage(appendNumber(b, 5, a.Index), begin)
	}
	return &Written{closeMessage(appendRefusal(b, answersRefusal, refusal), at)}
}

// appendRefusal is not hot.
func appendRefusal(b []byte, number protowire.Number, e *rota.Error) []byte {
	if e == nil {
		return b
	}
	wire, err := proto.Marshal(RefusalToWire(e))
	if err != nil { // never: its texts are clean
		wire = nil
	}
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), wire)
}

// WriteCommands writes a batch of n commands. Worker and Session stay behind: the stream
// that carries them stands for them (SPEC §6.4).
func WriteCommands(sequence uint64, n int, command func(i int) *rota.LeaseCommand) *Written {
	b, at := openMessage(make([]byte, 0, 32+144*n), requestCommands)
	b = appendNumber(b, commandsSequence, sequence)
	for i := range n {
		c := command(i)
		var begin int
		b, begin = openMessage(b, commandsEach)
		b = appendNumber(b, 1, c.Verb)
		b = appendBytes(b, 2, leaseIDToWire(&c.Lease))
		b = appendNumber(b, 3, c.Ordinal)
		b = appendBytes(b, 4, c.Output)
		b = appendBytes(b, 5, c.OutputDigest)
		b = appendText(b, 6, c.Text)
		b = appendNumber(b, 7, c.Progress)
		b = appendYes(b, 8, c.NoRetry)
		b = appendText(b, 9, c.Job)
		b = appendYes(b, 10, c.TimedOut)
		b = closeMessage(appendPairs(b, 11, c.Meta), begin)
	}
	return &Written{closeMessage(b, at)}
}
