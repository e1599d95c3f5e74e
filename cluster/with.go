package cluster

import (
	"slices"
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

// withRound decides rounds to go behind an entry's operations in that entry (SPEC §2.3): for the jobs that it
// submits, or where it submits none for those who wait, with the room that its completions leave. Such a job has its worker
// a commit earlier. It returns what the entry has with them, which is what it had where another entry is under way, whose
// outcome nobody knows yet, or a round is due or under way that is not in this very entry, or the state cannot be had at
// once, or the machine decides nothing.
func (l *leadership) withRound(batch []*proposal, ops int, now rota.Clock) []*proposal {
	if ops > withOps || len(l.slots) > 1 || !l.turn.allows(batch) || l.n.replica.hub.due.Load() {
		return batch
	}
	if level, _ := l.disk.inForce(); level == diskCritical {
		return batch
	}
	submits, completes, size := brings(batch)
	if size > withBytes || !submits && !completes {
		return batch
	}
	kept, reply := batch, make(chan reply, 1)
	if at := slices.IndexFunc(batch, (*proposal).rounds); at >= 0 && !submits {
		// What is decided now stands in its place: it knows of more room.
		kept, reply = slices.Delete(slices.Clone(batch), at, at+1), batch[at].reply
	}
	rounds := l.decideWith(kept, ops, now)
	if len(rounds) == 0 {
		return batch
	}
	b, err := encode(roundOps(rounds))
	if err != nil {
		return batch // the match loop meets the same, and says so
	}
	l.n.measures.rounds.Inc()
	return append(kept, &proposal{ops: b.ops, encoded: b.encoded, size: len(b.encoded), reply: reply})
}

// decideWith has the machine decide with an entry's operations.
func (l *leadership) decideWith(batch []*proposal, ops int, now rota.Clock) (rounds []*fsmpb.Round) {
	a := &fsm.Arrivals{Now: now, Ops: make([]*fsmpb.Op, 0, ops)}
	for _, p := range batch {
		a.Ops = append(a.Ops, p.ops...)
	}
	start := time.Now()
	if !l.n.replica.tryAlone(func(m *fsm.Machine) {
		rounds = m.DecideWith(a, limits.DecideMost)
	}) {
		return nil
	}
	took := time.Since(start)
	l.turn.took.Store(int64(took))
	l.n.measures.decide.Observe(took.Seconds())
	return rounds
}

// brings reports whether an entry has submissions, or completions, and its bytes.
func brings(batch []*proposal) (submits, completes bool, size int) {
	for _, p := range batch {
		size += p.size
		for _, op := range p.ops {
			submits = submits || op.GetSubmit() != nil
			completes = completes || rota.LeaseVerb(op.GetLease().GetVerb()) == rota.VerbComplete
		}
	}
	return submits, completes, size
}

func roundOps(rounds []*fsmpb.Round) []*fsmpb.Op {
	ops := make([]*fsmpb.Op, len(rounds))
	for i, r := range rounds {
		ops[i] = &fsmpb.Op{Op: &fsmpb.Op_Round{Round: r}}
	}
	return ops
}
