package cluster

import (
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
)

const (
	// withOps and withBytes are what an entry may hold for a round to be decided with it: all its jobs are
	// looked at once more, and the round must have room behind them.
	withOps   = 256
	withBytes = limits.MaxEntryBytes / 2
	// withPatience is how long the latest decision may have taken: the entry would wait for one like it.
	withPatience = time.Millisecond
)

// withRound decides rounds for the jobs that an entry submits, to go behind them in that entry (SPEC §2.3):
// such a job has its worker after one commit, and not after two. Nil where another entry is under way, whose
// outcome nobody knows yet, or a round is due or under way that is not in this very entry, or the state
// cannot be had at once, or the machine decides nothing.
func (l *leadership) withRound(batch []*proposal, ops int, now rota.Clock) *proposal {
	if ops > withOps || len(l.slots) > 1 || !submits(batch) || !l.turn.allows(batch) || l.n.replica.hub.due.Load() {
		return nil
	}
	if level, _ := l.n.disk.inForce(); level == diskCritical {
		return nil
	}
	a := &fsm.Arrivals{Now: now, Ops: make([]*fsmpb.Op, 0, ops)}
	for _, p := range batch {
		a.Ops = append(a.Ops, p.ops...)
	}
	var rounds []*fsmpb.Round
	start := time.Now()
	if !l.n.replica.tryAlone(func(m *fsm.Machine) {
		rounds = m.DecideWith(a, limits.DecideMost)
	}) {
		return nil
	}
	took := time.Since(start)
	l.turn.took.Store(int64(took))
	l.n.measures.decide.Observe(took.Seconds())
	if len(rounds) == 0 {
		return nil
	}
	b, err := encode(roundOps(rounds))
	if err != nil {
		return nil // the match loop meets the same, and says so
	}
	l.n.measures.rounds.Inc()
	return &proposal{ops: b.ops, encoded: b.encoded, size: len(b.encoded), reply: make(chan reply, 1)}
}

// submits reports whether an entry brings jobs, and is small enough for a round with them.
func submits(batch []*proposal) bool {
	some, size := false, 0
	for _, p := range batch {
		size += p.size
		for _, op := range p.ops {
			some = some || op.GetSubmit() != nil
		}
	}
	return some && size <= withBytes
}

func roundOps(rounds []*fsmpb.Round) []*fsmpb.Op {
	ops := make([]*fsmpb.Op, len(rounds))
	for i, r := range rounds {
		ops[i] = &fsmpb.Op{Op: &fsmpb.Op_Round{Round: r}}
	}
	return ops
}
