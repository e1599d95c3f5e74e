package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/sched"
)

// The parts of package state that other packages need.

// Sweep reports how many timers an entry's sweep fired, and whether more timers are due or workflows have work left for
// the next entry.
type Sweep = state.Sweep

// DecodeEvents reads the events of the entry at an index. It rejects bytes that AppendEvents does not write. It accepts
// kinds, reasons and statuses that this binary does not know, as a newer binary may have written them.
func DecodeEvents(index rota.Index, b []byte) ([]rota.Event, error) {
	return state.DecodeEvents(index, b)
}

// SpentIn returns what an attempt has spent, by the payload of the event that ends it.
func SpentIn(payload string) rota.Costs { return state.SpentIn(payload) }

// NextChain extends a chain by the entry at an index, given its events' bytes: H(previous, index, bytes) as in SPEC
// §7.1. It hashes the bytes in place.
func NextChain(previous sched.Hash, index rota.Index, events []byte) sched.Hash {
	return state.NextChain(previous, index, events)
}

// ContentOf returns the hash that identifies a repeated submission, as stored in Ended.
func ContentOf(p *fsmpb.JobSpec) rota.Digest { return state.ContentOf(p) }

// WorkflowContent returns the hash of everything that a submitter specifies about a workflow, nodes and edges included,
// headers excluded: two submissions with equal content continue one upload.
func WorkflowContent(w *rota.WorkflowSpec, g *rota.Graph) [16]byte {
	return state.WorkflowContent(w, g)
}
