package words

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// Written is an encoded message. It is written once; sending it gives up ownership.
type Written struct{ bytes []byte }

// Size returns its size in bytes.
func (w *Written) Size() int { return len(w.bytes) }

// WriteNotices writes messages of at most most bytes each, or of one notice. The order between messages is kept. Within
// one, a worker reads assigned, revoked, ended, which loses nothing: a lease is assigned once, then perhaps revoked,
// then ended.
func WriteNotices(notices []peer.Notice, most int) []*Written {
	var all []*Written
	var b []byte
	at, room := 0, 0
	for i := range notices {
		if b == nil {
			b, at = openMessage(make([]byte, 0, min(most, room)), workResponseNotices)
		}
		before := len(b)
		if b = appendNotice(b, &notices[i]); i == 0 { // the others are probably of similar size
			room = (len(b)-before)*len(notices)*17/16 + 32
			b = append(make([]byte, 0, min(most, room)), b...)
		}
		if len(b)+lengthRoom > most && before > at+lengthRoom {
			last := append([]byte(nil), b[before:]...)
			all = append(all, &Written{closeMessage(b[:before], at)})
			b, at = openMessage(make([]byte, 0, min(most, room)), workResponseNotices)
			b = append(b, last...)
		}
	}
	if b != nil {
		all = append(all, &Written{closeMessage(b, at)})
	}
	return all
}

func appendNotice(b []byte, n *peer.Notice) []byte {
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

// WriteAnswers writes the outcomes of a batch, in its order, or only refusal if that is not nil.
func WriteAnswers(sequence uint64, answers []peer.LeaseAnswer, refusal *rota.Error) *Written {
	b, at := openMessage(make([]byte, 0, 32+32*len(answers)), workResponseAnswers)
	b = appendNumber(b, leaseAnswersSequence, sequence)
	for i := range answers {
		var begin int
		b, begin = openMessage(b, leaseAnswersAnswers)
		b = closeMessage(appendLeaseAnswer(b, &answers[i]), begin)
	}
	return &Written{closeMessage(appendRefusal(b, leaseAnswersRefusal, refusal), at)}
}

// WriteCommands writes a batch of n commands. Worker and Session are omitted: the stream that carries them implies them
// (SPEC §6.4).
func WriteCommands(sequence uint64, n int, command func(i int) *peer.LeaseCommand) *Written {
	b, at := openMessage(make([]byte, 0, 32+144*n), workRequestCommands)
	b = appendNumber(b, leaseCommandsSequence, sequence)
	for i := range n {
		var begin int
		b, begin = openMessage(b, leaseCommandsCommands)
		b = closeMessage(appendLeaseCommand(b, command(i)), begin)
	}
	return &Written{closeMessage(b, at)}
}
