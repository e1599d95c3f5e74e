package fsm

import (
	"github.com/rotasched/rota/fsm/fsmpb"
	"google.golang.org/protobuf/encoding/protowire"
)

// The numbers of a round's fields that an opener reads; one with holds or preemptions is
// left to package proto.
const (
	roundEpoch, roundHeight, roundQueue, roundPairs = 1, 2, 3, 4
)

// roundRoom is room for one more round. An entry mostly has one, and where queues are many
// hundreds; what was given of the old room stays there when it is used up.
func (o *opener) roundRoom() *roundRoom {
	if len(o.rounds) == cap(o.rounds) {
		o.rounds = make([]roundRoom, 0, max(1, 2*cap(o.rounds)))
	}
	o.rounds = o.rounds[:len(o.rounds)+1]
	return &o.rounds[len(o.rounds)-1]
}

// round reads a round: its pairs, of which each job has one, into room that is kept.
func (o *opener) round(room *roundRoom, b []byte) bool {
	n := 0
	for rest := b; len(rest) > 0; {
		f, ok := nextField(&rest)
		if !ok || (f.kind == protowire.BytesType) != (f.number >= roundQueue) || f.number > roundPairs {
			return false
		}
		if f.number == roundPairs {
			n++
		}
	}
	if cap(o.pairs)-len(o.pairs) < n { // what was given of the old room stays there
		o.pairs = make([]fsmpb.Pair, 0, n)
	}
	r := &room.round
	r.Reset()
	if n > 0 {
		r.Pairs = make([]*fsmpb.Pair, 0, n)
	}
	for len(b) > 0 {
		f, _ := nextField(&b)
		ok := true
		switch f.number {
		case roundEpoch:
			r.Epoch = f.value
		case roundHeight:
			r.Height = f.value
		case roundQueue:
			r.Queue, ok = o.word(f)
		case roundPairs:
			o.pairs = o.pairs[:len(o.pairs)+1]
			p := &o.pairs[len(o.pairs)-1]
			ok = o.pair(p, f.bytes)
			r.Pairs = append(r.Pairs, p)
		}
		if !ok {
			return false
		}
	}
	room.kind.Round, room.op.Op = r, &room.kind
	return true
}

func (o *opener) pair(p *fsmpb.Pair, b []byte) bool {
	*p = fsmpb.Pair{}
	for len(b) > 0 {
		f, ok := nextField(&b)
		if !ok || (f.kind == protowire.BytesType) != (f.number <= 2) {
			return false
		}
		switch f.number {
		case 1:
			p.Job, ok = o.brief.text(f)
		case 2:
			p.Worker, ok = o.word(f)
		case 3:
			p.Score = int64(f.value)
		case 4:
			p.Rank = int32(f.value)
		case 5:
			p.Rule = uint32(f.value)
		case 6:
			p.N = int64(f.value)
		case 7:
			p.Of = int64(f.value)
		case 8:
			p.Interleaved = f.value != 0
		default:
			return false
		}
		if !ok {
			return false
		}
	}
	return true
}
