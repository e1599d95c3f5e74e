package fsm

import (
	"github.com/rotasched/rota/fsm/fsmpb"
	"google.golang.org/protobuf/encoding/protowire"
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

// round reads a round without holds or preemptions: its pairs, of which each job has one, into room that is kept.
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
			*p = fsmpb.Pair{}
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
