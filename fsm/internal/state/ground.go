package state

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/tree"
)

// State holds what every part may use: the header, the shared tables, the journal, the timers, and the entry in progress.
type State struct {
	Header Header
	Ledger Ledger

	JobTable Table[rota.JobID, JobRow, *JobRow]
	// Numbers is derived: the rows of jobs by their numbers, for lists.
	Numbers    tree.Numbers[*JobRow]
	QueueTable Table[rota.QueueName, QueueRow, *QueueRow]
	NodeTable  Table[rota.NodeID, NodeRow, *NodeRow]
	// BackupTable has the last backup, or nothing.
	BackupTable Table[string, BackupRow, *BackupRow]
	// ZoneTable has the installed release of the time zone database, or nothing.
	ZoneTable Table[string, TzdataRow, *TzdataRow]

	Journal journal
	// Timers are derived from the rows, rebuilt on restore, and walked by Check
	// (Invariant I4).
	Timers Timers

	// Knows is the newest version of the rules that this binary knows.
	Knows uint32

	// The entry that is being applied.
	At      rota.Index
	Stamped bool
	Walls   []int64
	Sweep   Sweep
	Specs   Specs
	// Keys are keys of leases; digest is room for an output's. answers are the outcomes
	// that most verbs have, shared by all that have them.
	Keys       entry.Texts
	DigestRoom [32]byte
	answers    [2][rota.JobCancelled + 1]*fsmpb.Outcome
}

// Sweep says how many timers an entry's sweep fired, and whether more are due, or
// workflows have work left for the next entry.
type Sweep struct {
	Fired int
	More  bool
}

// Internal refuses an internal operation in an entry of another term: it was
// decided by a leadership that is over (SPEC §3.2).
func (m *State) Internal() *fsmpb.Outcome {
	if m.Stamped {
		return nil
	}
	return entry.Refused(rota.Refusef(rota.KindStale, "term", "decided in a term that is over"))
}

// Became answers that a job is in a state now. Outcomes never change once given, so all
// that say the same are one.
func (m *State) Became(state rota.JobState, throttle bool) *fsmpb.Outcome {
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

// NewJob returns an empty row.
func (m *State) NewJob() *JobRow {
	j := m.JobTable.Fresh()
	j.JobLife = NoLife
	return j
}
