package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// reportProof takes a verifier's word on a completed job (SPEC §9.5).
func (m *Machine) reportProof(op *fsmpb.ReportProof) *fsmpb.Outcome {
	return refused(rota.Refusef(rota.NotFound, "job", "job %q is not known", op.GetJob()))
}
