package cluster

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// attested verifies workers' attestations on the leader, and replaces them by their date and stake. A date or stake
// sent by another node is rejected (SPEC §6.5).
func (pr *proposer) attested(b batch) (_ batch, answers []*fsmpb.Outcome, err error) {
	ops := b.ops
	for i, op := range b.ops {
		r := op.GetRegister()
		if r.GetAttestation() == nil && r.GetAttestedUntilMs() == 0 && r.GetAttestedStake() == 0 {
			continue
		}
		if len(ops) > 0 && &ops[0] == &b.ops[0] {
			ops = slices.Clone(b.ops) // the caller may have to propose its own again
		}
		ops[i] = proto.CloneOf(op)
		if err := pr.attest(ops[i].GetRegister()); err != nil {
			answers = answer(answers, ops, i, entry.Refused(err))
		}
	}
	if len(ops) == 0 || &ops[0] == &b.ops[0] {
		return b, nil, nil
	}
	b, err = encode(ops)
	return b, answers, err
}

func (pr *proposer) attest(r *fsmpb.Register) error {
	if r.GetAttestedUntilMs() != 0 || r.GetAttestedStake() != 0 {
		return rota.Refusef(rota.KindDenied, "attested_until_ms",
			"worker %s comes with attested_until_ms %d and attested_stake %d: "+
				"the leader alone writes them, once it has verified an attestation", r.GetSpec().GetId(),
			r.GetAttestedUntilMs(), r.GetAttestedStake())
	}
	w := r.GetAttestation()
	a := rota.Attestation{Cluster: rota.ClusterID(w.GetCluster()), Worker: rota.WorkerID(w.GetWorker()),
		Expires: rota.Date(w.GetExpiresMs()), Stake: w.GetStake(), Key: w.GetKey(), Signature: w.GetSignature()}
	head := pr.n.replica.Head()
	if err := a.Verify(pr.n.cfg.attestationKeys(), head.ClusterID, rota.WorkerID(r.GetSpec().GetId()),
		head.Date); err != nil {
		return err
	}
	r.Attestation, r.AttestedUntilMs, r.AttestedStake = nil, int64(a.Expires), a.Stake
	return nil
}
