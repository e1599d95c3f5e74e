package entry

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// Peeked holds the parts of an entry that can be read before it is applied.
type Peeked struct {
	// Term in which it was stamped, its number of operations, and its rounds.
	Term       uint64
	Operations int
	Rounds     []*fsmpb.Round
	// Ops are the operations that its rounds were decided with, nil if there were none, and Now is its stamp.
	Ops []*fsmpb.Op
	Now rota.Clock
	// Fires are its decisions about schedules, each with its index among the operations.
	Fires []PeekedFire
}

// PeekedFire is a Fire and the index of its operation in the entry.
type PeekedFire struct {
	*fsmpb.Fire
	Place int
}

// Peek reads an entry without applying it: an auditor must know the heights at which rounds were decided before
// reaching them. Errors are those of Apply.
func Peek(index rota.Index, data []byte) (Peeked, error) {
	entry, err := Open(index, data, RulesVersion, nil)
	if err != nil {
		return Peeked{}, err
	}
	p := Peeked{Term: entry.GetTerm(), Operations: len(entry.GetOps()), Now: rota.Clock(entry.GetNowMs())}
	for i, op := range entry.GetOps() {
		if r := op.GetRound(); r != nil {
			if p.Ops == nil && r.GetWith() > 0 {
				p.Ops = entry.GetOps()[:i]
			}
			p.Rounds = append(p.Rounds, r)
		}
		if f := op.GetFire(); f != nil {
			p.Fires = append(p.Fires, PeekedFire{f, i})
		}
	}
	return p, nil
}
