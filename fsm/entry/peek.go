package entry

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// Peeked is what an entry says of itself before it is applied.
type Peeked struct {
	// Term it was stamped in, how many operations it holds, and its rounds.
	Term       uint64
	Operations int
	Rounds     []*fsmpb.Round
	// Ops are the operations that rounds of it were decided with, nil where none was, and Now is its stamp.
	Ops []*fsmpb.Op
	Now rota.Clock
	// Fires are what it decides of schedules, each with its place among the operations.
	Fires []PeekedFire
}

// PeekedFire is a Fire, and which operation of its entry it is.
type PeekedFire struct {
	*fsmpb.Fire
	Place int
}

// Peek reads an entry without applying it: an auditor must know which heights
// rounds were decided at before it comes past them. Errors are those of Apply.
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
