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
	// Numbers is derived: job rows by their numbers, for lists.
	Numbers    tree.Numbers[*JobRow]
	QueueTable Table[rota.QueueName, QueueRow, *QueueRow]
	NodeTable  Table[rota.NodeID, NodeRow, *NodeRow]
	// BackupTable holds the last backup, if any.
	BackupTable Table[string, BackupRow, *BackupRow]
	// ZoneTable holds the installed release of the time zone database, if any.
	ZoneTable Table[string, TzdataRow, *TzdataRow]

	Journal journal
	// Timers are derived from the rows, rebuilt on restore, and walked by Check
	// (Invariant I4).
	Timers Timers

	// Knows is the newest rules version that this binary knows.
	Knows uint32

	// Fields of the entry in progress.
	At      rota.Index
	Stamped bool
	Walls   []int64
	Sweep   Sweep
	Specs   Specs
	// Keys holds keys of leases; digest is a buffer for an output's digest. answers are the outcomes of most verbs,
	// shared by all operations with that outcome.
	Keys       entry.Texts
	DigestRoom [32]byte
	answers    [2][rota.JobCancelled + 1]*fsmpb.Outcome
}

// Sweep reports how many timers an entry's sweep fired, and whether more timers are due or workflows have work left for
// the next entry.
type Sweep struct {
	Fired int
	More  bool
}

// Internal refuses an internal operation in an entry of another term: a leader of a past term decided it (SPEC §3.2).
func (m *State) Internal() *fsmpb.Outcome {
	if m.Stamped {
		return nil
	}
	return entry.Refused(rota.Refusef(rota.KindStale, "term", "decided in a term that is over"))
}

// Became returns the outcome that a job is now in a state. Outcomes never change once returned, so equal ones are
// shared.
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

// OutlivingRules is the first rules version under which a lease outlives its job.
const OutlivingRules = 2

// ShortenRules is the first rules version under which a change that shortens an interval applies to jobs that already
// wait (SPEC §16.10).
const ShortenRules = 2
