package cluster

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
)

// batch is operations of one caller with their encoding: made once, by the caller's own
// goroutine, it is what is forwarded and what stands in the entry.
type batch struct {
	ops     []*fsmpb.Op
	encoded []byte
	// ends are where each operation ends, encoded itself at start; nil
	// where nobody asks.
	ends  []int
	start int
}

// likeMost is the length of a first operation from which no room for as long ones is made.
const likeMost = 2 << 10

// encode makes a batch of operations.
func encode(ops []*fsmpb.Op) (batch, error) {
	b := batch{ops: ops, ends: make([]int, len(ops))}
	for i, op := range ops {
		encoded, err := entry.AppendOp(b.encoded, op)
		if err != nil {
			return batch{}, rota.Refusef(rota.KindInternal, "commands", "commands cannot be encoded: %v", err)
		}
		if i == 0 && len(encoded) < likeMost { // the others may be like it
			encoded = append(make([]byte, 0, len(encoded)*len(ops)*9/8), encoded...)
		}
		b.encoded, b.ends[i] = encoded, len(encoded)
	}
	return b, nil
}

// at is where an operation begins.
func (b batch) at(i int) int {
	if i == 0 {
		return b.start
	}
	return b.ends[i-1]
}

// part is the operations from…to−1.
func (b batch) part(from, to int) batch {
	if from == 0 && to == len(b.ops) {
		return b
	}
	start, end := b.at(from), b.at(to)
	return batch{ops: b.ops[from:to], encoded: b.encoded[start-b.start : end-b.start : end-b.start], ends: b.ends[from:to],
		start: start}
}

// chunk says how many operations from a place on fit into one entry.
func (b batch) chunk(from int) int {
	for i := from + 1; i < len(b.ops); i++ {
		if b.ends[i]-b.at(from) > limits.MaxEntryBytes || i-from >= limits.MaxEntryOps {
			return i - from
		}
	}
	return len(b.ops) - from
}

// reply is what became of a batch.
type reply struct {
	outcomes []*fsmpb.Outcome
	index    rota.Index
	sweep    fsm.Sweep
	err      error
}
