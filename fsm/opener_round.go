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

// round reads a round: its pairs, of which each job has one, into room that is kept.
func (o *opener) round(b []byte) (*fsmpb.Op, bool) {
	n := 0
	for rest := b; len(rest) > 0; {
		f, ok := nextField(&rest)
		if !ok || (f.kind == protowire.BytesType) != (f.number >= roundQueue) || f.number > roundPairs {
			return nil, false
		}
		if f.number == roundPairs {
			n++
		}
	}
	if cap(o.pairs)-len(o.pairs) < n { // what was given of the old room stays there
		o.pairs = make([]fsmpb.Pair, 0, n)
	}
	r := &fsmpb.Round{Pairs: make([]*fsmpb.Pair, 0, n)}
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
			return nil, false
		}
	}
	return &fsmpb.Op{Op: &fsmpb.Op_Round{Round: r}}, true
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
