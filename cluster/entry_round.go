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
	// withOps and withBytes bound an entry that a round is decided with: all its jobs are examined again, and the round
	// needs room after them.
	withOps   = 256
	withBytes = limits.MaxEntryBytes / 2
)

// withRound decides rounds and appends them to an entry's operations (SPEC §2.3): for the jobs that it submits or, if
// it submits none, for waiting jobs, with the room that its completions leave. Such a job gets its worker a commit
// earlier. It returns the entry's proposals including the rounds. They are unchanged if another entry is in progress,
// whose outcome is not known yet, if a round is due or in progress that is not in this entry, if the state is in use,
// or if the machine decides nothing.
func (l *leadership) withRound(batch []*proposal, ops int, now rota.Clock) []*proposal {
	if ops > withOps || len(l.slots) > 1 || !l.turn.allows(batch) || l.n.replica.Hub.Due.Load() {
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
		// The rounds decided now replace these, since they account for more room.
		kept, reply = slices.Delete(slices.Clone(batch), at, at+1), batch[at].reply
	}
	rounds := l.decideWith(kept, ops, now)
	if len(rounds) == 0 {
		return batch
	}
	b, err := encode(roundOps(rounds))
	if err != nil {
		return batch // the match loop meets the same fault, and reports it
	}
	l.n.measures.Rounds.Inc()
	return append(kept, &proposal{ops: b.ops, encoded: b.encoded, size: len(b.encoded), reply: reply})
}

// decideWith makes the machine decide with an entry's operations.
func (l *leadership) decideWith(batch []*proposal, ops int, now rota.Clock) (rounds []*fsmpb.Round) {
	a := &fsm.Arrivals{Now: now, Ops: make([]*fsmpb.Op, 0, ops)}
	for _, p := range batch {
		a.Ops = append(a.Ops, p.ops...)
	}
	start := time.Now()
	if !l.n.replica.TryAlone(func(m *fsm.Machine) {
		rounds = m.DecideWith(a, limits.MaxDecide)
	}) {
		return nil
	}
	took := time.Since(start)
	l.turn.took.Store(int64(took))
	l.n.measures.Decide.Observe(took.Seconds())
	return rounds
}

// brings reports whether an entry has submissions or completions, and its size in bytes.
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
