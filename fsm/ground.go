package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/tree"
)

// state holds what every part may use: the header, the shared tables, the journal, the timers, and the entry in progress.
type state struct {
	head   header
	ledger ledger

	jobs table[rota.JobID, jobRow, *jobRow]
	// numbers is derived: the rows of jobs by their numbers, for lists.
	numbers tree.Numbers[*jobRow]
	queues  table[rota.QueueName, queueRow, *queueRow]
	nodes   table[rota.NodeID, nodeRow, *nodeRow]
	// backups has the last backup, or nothing.
	backups table[string, backupRow, *backupRow]
	// tzdata has the installed release of the time zone database, or nothing.
	tzdata table[string, tzdataRow, *tzdataRow]

	journal journal
	// timers are derived from the rows, rebuilt on restore, and walked by Check
	// (Invariant I4).
	timers timers

	// knows is the newest version of the rules that this binary knows.
	knows uint32

	// The entry that is being applied.
	at      rota.Index
	stamped bool
	walls   []int64
	sweep   Sweep
	specs   specs
	// keys are keys of leases; digest is room for an output's. answers are the outcomes
	// that most verbs have, shared by all that have them.
	keys    entry.Texts
	digest  [32]byte
	answers [2][rota.JobCancelled + 1]*fsmpb.Outcome
}

// Sweep says how many timers an entry's sweep fired, and whether more are due, or
// workflows have work left for the next entry.
type Sweep struct {
	Fired int
	More  bool
}

// internal refuses an internal operation in an entry of another term: it was
// decided by a leadership that is over (SPEC §3.2).
func (m *state) internal() *fsmpb.Outcome {
	if m.stamped {
		return nil
	}
	return entry.Refused(rota.Refusef(rota.KindStale, "term", "decided in a term that is over"))
}

// became answers that a job is in a state now. Outcomes never change once given, so all
// that say the same are one.
func (m *state) became(state rota.JobState, throttle bool) *fsmpb.Outcome {
	at := 0
	if throttle {
		at = 1
	}
	o := &m.answers[at][state]
	if *o == nil {
		*o = &fsmpb.Outcome{JobState: uint32(state), Throttle: throttle}
	}
	return *o
}

// newJob returns an empty row.
func (m *state) newJob() *jobRow {
	j := m.jobs.fresh()
	j.jobLife = noLife
	return j
}
