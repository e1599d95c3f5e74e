package cluster

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/replica"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/snapshot"
)

// machineOf applies a BeginTerm and then one submission per entry.
func machineOf(t *testing.T, prefix string, jobs int) *fsm.Machine {
	t.Helper()
	m := fsm.New()
	apply := func(op *fsmpb.Op) {
		t.Helper()
		a, err := m.Apply(m.Head().Index+1, 1, mustSeal(t, &fsmpb.Entry{Term: 1, NowMs: 1_000_000,
			Ops: []*fsmpb.Op{op}}))
		if err != nil {
			t.Fatal(err)
		}
		if e := entry.OutcomeError(a.Outcomes[0]); e != nil {
			t.Fatal(e)
		}
	}
	apply(&fsmpb.Op{Op: &fsmpb.Op_BeginTerm{BeginTerm: &fsmpb.BeginTerm{Term: 1, Node: "n1", Random: make([]byte, 32),
		ClusterId: "test", StartMs: 1_000_000}}})
	for _, spec := range specs(prefix, jobs) {
		apply(&fsmpb.Op{Op: &fsmpb.Op_Submit{Submit: &fsmpb.Submit{Spec: entry.SpecOp(&spec)}}})
	}
	return m
}

// TestRestore_aDamagedSnapshotLeavesTheNodeAsItWas: whichever part of a snapshot from the leader is damaged, the node
// keeps its own state whole and continues with it.
func TestRestore_aDamagedSnapshotLeavesTheNodeAsItWas(t *testing.T) {
	t.Parallel()
	var whole bytes.Buffer
	if _, err := snapshot.Write(&whole, machineOf(t, "sent", 3000).Freeze()); err != nil {
		t.Fatal(err)
	}
	m := machineOf(t, "own", 50)
	n := (&Node{base: base{cfg: Config{knows: entry.RulesVersion, Fatal: func(err error) { t.Error(err) }},
		log:     slog.New(slog.DiscardHandler),
		replica: replica.Replica{Machine: m}}}).wire()
	before := m.Head()
	type damage struct {
		name string
		sent []byte
	}
	all := []damage{{"empty", nil}, {"not a snapshot", []byte("PK\x03\x04")},
		{"two in one", append(bytes.Clone(whole.Bytes()), whole.Bytes()...)}}
	for i := range 64 {
		at := i * (whole.Len() - 1) / 63
		flipped := bytes.Clone(whole.Bytes())
		flipped[at] ^= 1 << (i % 8)
		all = append(all, damage{fmt.Sprintf("bit %d of byte %d flipped", i%8, at), flipped},
			damage{fmt.Sprintf("cut after %d bytes", at), whole.Bytes()[:at:at]})
	}
	for _, d := range all {
		name := d.name
		if err := (adapter{n}).Restore(io.NopCloser(bytes.NewReader(d.sent))); err == nil {
			t.Errorf("%s: the snapshot was accepted", name)
		}
		if after := n.replica.Machine.Head(); after != before {
			t.Fatalf("%s: the refused snapshot has changed the node's state: it was\n%+v, and is\n%+v", name, before,
				after)
		}
		if faults := n.replica.Machine.Check(); len(faults) > 0 {
			t.Fatalf("%s: the refused snapshot has left a state that contradicts itself: %q", name, faults)
		}
	}
	if n.replica.Machine.JobState("own-00049") != rota.JobQueued ||
		n.replica.Machine.JobState("sent-00000") != rota.JobNone {
		t.Error("a refused snapshot has changed jobs")
	}
	if _, err := n.replica.Machine.Apply(before.Index+1, 1, mustSeal(t,
		&fsmpb.Entry{Term: 1, Ops: []*fsmpb.Op{replica.BarrierOp()}})); err != nil {
		t.Errorf("the node does not continue: %v", err)
	}
}
