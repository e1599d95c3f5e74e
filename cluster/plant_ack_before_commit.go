//go:build plant_ack_before_commit

package cluster

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// ackBeforeCommit answers an entry of submissions as soon as raft has accepted it.
func (plants) ackBeforeCommit(f *launched) bool {
	for _, p := range f.proposals {
		for _, op := range p.ops {
			if op.GetSubmit() == nil {
				return false
			}
		}
	}
	for _, p := range f.proposals {
		outcomes := make([]*fsmpb.Outcome, len(p.ops))
		for i := range outcomes {
			outcomes[i] = &fsmpb.Outcome{JobState: uint32(rota.JobQueued)}
		}
		p.reply <- reply{outcomes: outcomes}
	}
	return true
}
