package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/sched"
)

// What other packages need of the ground.

// Sweep says how many timers an entry's sweep fired, and whether more are due, or
// workflows have work left for the next entry.
type Sweep = state.Sweep

// DecodeEvents reads the events of the entry at an index. Bytes that
// AppendEvents does not write are refused; kinds, reasons and statuses that this
// binary does not know are taken, for a newer one may have told them.
func DecodeEvents(index rota.Index, b []byte) ([]rota.Event, error) {
	return state.DecodeEvents(index, b)
}

// NextChain lengthens a chain by the entry at an index, given its events' bytes:
// H(previous, index, bytes) as in SPEC §7.1. The bytes are hashed where they lie.
func NextChain(previous sched.Hash, index rota.Index, events []byte) sched.Hash {
	return state.NextChain(previous, index, events)
}

// ContentOf returns the hash by which a submission is known again, as Ended has it.
func ContentOf(p *fsmpb.JobSpec) rota.Digest { return state.ContentOf(p) }

// WorkflowContent stands for all that a submitter says of a workflow, nodes and
// edges too, but for headers: two submissions with the same go on with one upload.
func WorkflowContent(w *rota.WorkflowSpec, g *rota.Graph) [16]byte {
	return state.WorkflowContent(w, g)
}
