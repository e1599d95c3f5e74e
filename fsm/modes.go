package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// setMode changes the cluster's mode (SPEC §4.3).
func (m *Machine) setMode(op *fsmpb.SetMode) *fsmpb.Outcome {
	return refused(rota.Refusef(rota.Invalid, "mode", "mode %d is unknown", op.GetMode()))
}

// settleMode says `drained` once DRAINING has worked everything off.
func (m *Machine) settleMode() {}

// admitMode refuses what the mode does not take.
func (m *Machine) admitMode(spec *rota.JobSpec) error { return nil }

// blocked names the job-side reason for which a QUEUED job may not be assigned
// now (SPEC §6.1), "" if there is none.
func (m *Machine) blocked(j *jobRow, q *queueRow) string {
	if q.policy.Paused {
		return "QUEUE_PAUSED"
	}
	return ""
}
