package cluster

import (
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// TestForwarded_attestations: a member that forwards a worker with a date or a stake of its own, with or without an
// attestation, is rejected, and nothing is registered. A valid attestation signed by the leader's keys counts with its
// own values.
func TestForwarded_attestations(t *testing.T) {
	t.Parallel()
	b := startAttesting(t)
	l := b.loyal()
	s, err := l.Status(within(t, ample))
	if err != nil {
		t.Fatal(err)
	}
	until := s.Date + 3_600_000
	forward := func(change func(*fsmpb.Register)) error {
		spec := rota.WorkerSpec{ID: "w1", Queues: []rota.QueueName{"default"}, Slots: 1}
		r := &fsmpb.Register{Spec: entry.WorkerOp(&spec), SecretHash: make([]byte, 32)}
		change(r)
		batch, err := encode([]*fsmpb.Op{{Op: &fsmpb.Op_Register{Register: r}}})
		if err != nil {
			t.Fatal(err)
		}
		answer, err := l.Forwarded(within(t, ample), batch.encoded)
		if err != nil {
			return err
		}
		outcomes, _, ok := entry.OpenOutcomes(answer, 1)
		if !ok {
			t.Fatal("the answer cannot be read")
		}
		if e := entry.OutcomeError(outcomes[0]); e != nil {
			return e
		}
		return nil
	}
	signed, err := rota.Attest(signingKey(1), s.ClusterID, "w1", until, 70)
	if err != nil {
		t.Fatal(err)
	}
	whole := func(r *fsmpb.Register) {
		r.Attestation = &fsmpb.Attestation{Cluster: string(signed.Cluster), Worker: string(signed.Worker),
			ExpiresMs: int64(signed.Expires), Stake: signed.Stake, Key: signed.Key, Signature: signed.Signature}
	}
	for name, forge := range map[string]func(*fsmpb.Register){
		"a date":                     func(r *fsmpb.Register) { r.AttestedUntilMs = int64(until) },
		"a stake":                    func(r *fsmpb.Register) { r.AttestedStake = 1 },
		"a date next to one":         func(r *fsmpb.Register) { whole(r); r.AttestedUntilMs = int64(until) + 1 },
		"a later one than is signed": func(r *fsmpb.Register) { whole(r); r.Attestation.ExpiresMs++ },
		"a larger stake":             func(r *fsmpb.Register) { whole(r); r.Attestation.Stake++ },
		"another worker's":           func(r *fsmpb.Register) { whole(r); r.Spec.Id = "w2" },
	} {
		if err := forward(forge); rota.KindOf(err) != rota.KindDenied {
			t.Errorf("%s: %v", name, err)
		}
	}
	l.replica.Look(func(s *fsm.View) {
		if n := s.WorkerCount(); n != 0 {
			t.Errorf("%d workers are registered", n)
		}
	})
	if err := forward(whole); err != nil {
		t.Fatal(err)
	}
	l.replica.Mu.RLock()
	defer l.replica.Mu.RUnlock()
	if w, ok := l.replica.Machine.Worker("w1"); !ok || w.AttestedUntil != until || w.AttestedStake != 70 {
		t.Errorf("%+v", w)
	}
}
