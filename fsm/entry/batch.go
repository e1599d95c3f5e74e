package entry

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// BatchOp returns the operation that opens a batch.
func BatchOp(s *rota.BatchSpec) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_OpenBatch{OpenBatch: &fsmpb.OpenBatch{Id: string(s.ID), Size: s.Size,
		Callback: SpecOp(&s.Callback)}}}
}

// SealOp returns the operation that seals a batch.
func SealOp(id rota.BatchID) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_SealBatch{SealBatch: &fsmpb.SealBatch{Id: string(id)}}}
}

// BatchWords is the inverse of BatchOp.
func BatchWords(op *fsmpb.OpenBatch) *rota.BatchSpec {
	return &rota.BatchSpec{ID: rota.BatchID(op.GetId()), Size: op.GetSize(), Callback: *SpecWords(op.GetCallback())}
}
