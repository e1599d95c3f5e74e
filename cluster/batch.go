package cluster

import (
	"errors"
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
)

// batch holds operations of one caller and their encoding. The caller's own goroutine encodes them once; the same bytes
// are forwarded and stored in the entry.
type batch struct {
	ops     []*fsmpb.Op
	encoded []byte
	// ends holds the end of each operation, encoded itself at start; nil if not needed.
	ends  []int
	start int
}

// maxLike is the size of a first operation from which no space is reserved for others of the same size.
const maxLike = 2 << 10

// encode returns a batch of operations.
func encode(ops []*fsmpb.Op) (batch, error) {
	b := batch{ops: ops, ends: make([]int, len(ops))}
	for i, op := range ops {
		encoded, err := entry.AppendOp(b.encoded, op)
		if err != nil {
			return batch{}, rota.Refusef(rota.KindInternal, "commands", "commands cannot be encoded: %v", err)
		}
		if i == 0 && len(encoded) < maxLike { // the others may be similar
			encoded = append(make([]byte, 0, len(encoded)*len(ops)*9/8), encoded...)
		}
		b.encoded, b.ends[i] = encoded, len(encoded)
	}
	return b, nil
}

// at returns where an operation begins.
func (b batch) at(i int) int {
	if i == 0 {
		return b.start
	}
	return b.ends[i-1]
}

// part returns the operations from…to−1.
func (b batch) part(from, to int) batch {
	if from == 0 && to == len(b.ops) {
		return b
	}
	start, end := b.at(from), b.at(to)
	return batch{ops: b.ops[from:to], encoded: b.encoded[start-b.start : end-b.start : end-b.start],
		ends:  b.ends[from:to],
		start: start}
}

// chunk returns how many operations, from one on, fit into one entry.
func (b batch) chunk(from int) int {
	for i := from + 1; i < len(b.ops); i++ {
		if b.ends[i]-b.at(from) > limits.MaxEntryBytes || i-from >= limits.MaxEntryOps {
			return i - from
		}
	}
	return len(b.ops) - from
}

// reply is the result of a batch.
type reply struct {
	outcomes []*fsmpb.Outcome
	index    rota.Index
	sweep    fsm.Sweep
	err      error
}

// errNotLeader means that a proposal definitely did not enter the log and may be proposed again. It never leaves the
// package.
var errNotLeader = errors.New("not the leader")

// proposal is a batch of one caller; its operations stay together in one entry.
type proposal struct {
	ops     []*fsmpb.Op
	encoded []byte
	size    int
	reply   chan reply
}

// rounds reports whether these are decisions of the match loop.
func (p *proposal) rounds() bool { return p.ops[0].GetRound() != nil }

// answer records an outcome at its place.
func answer(answers []*fsmpb.Outcome, ops []*fsmpb.Op, at int, o *fsmpb.Outcome) []*fsmpb.Outcome {
	if answers == nil {
		answers = make([]*fsmpb.Outcome, len(ops))
	}
	answers[at] = o
	return answers
}
