package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/raftstore"
	"github.com/rotasched/rota/cluster/recovery"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/peer"
	"github.com/rotasched/rota/snapshot"
)

// newest are the rules that the binary of these tests supports, later those of a newer one.
const newest, later = entry.RulesVersion, entry.RulesVersion + 1

// needsLater is the table of a later binary, where changing a tenant needs newer rules.
func needsLater(op *fsmpb.Op) uint32 {
	if op.GetSetTenant() != nil {
		return later
	}
	return entry.FirstRules
}

// teach makes the binary of a node's next start support later rules, or no longer.
func (b *bench) teach(id rota.NodeID, newer bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.addrs[id]
	c.knows, c.needs = entry.FirstRules, nil
	if newer {
		c.knows, c.needs = later, needsLater
	}
	b.addrs[id] = c
}

func heavier() []rota.Setting { return []rota.Setting{{Key: "weight", Value: "2"}} }

// mixed starts three nodes whose binaries support rules 1, 1 and later ones, with the last as leader.
func mixed(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	for _, id := range []rota.NodeID{"n1", "n2", "n3"} {
		b.plan(id, 3)
		b.teach(id, id == "n3")
		b.released(id)
	}
	b.startPlanned()
	for b.leadBy("n3"); b.loyal().cfg.Node != "n3"; { // the others do not know operations of newer rules
		b.disloyal()
		b.leadBy("n3")
	}
	return b
}

// released gives a node that was not started yet a data directory as v0.1.0 creates it: its log is in raft.db.
func (b *bench) released(id rota.NodeID) {
	b.t.Helper()
	d, err := raftstore.OpenDataDir(b.addrs[id].Data, id, b.addrs[id].Cluster, false)
	if err == nil {
		err = d.Close()
	}
	path := filepath.Join(b.addrs[id].Data, "node.json")
	text, failed := os.ReadFile(path)
	if err := errors.Join(err, failed); err != nil {
		b.t.Fatal(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, bytes.Replace(text, []byte(`"format": 2`), []byte(`"format": 1`), 1)); err != nil {
		b.t.Fatal(err)
	}
	front, _, _ := bytes.Cut(compact.Bytes(), []byte(`,"sum":"`))
	sum := crc32.Checksum(append(slices.Clone(front), '}'), crc32.MakeTable(crc32.Castagnoli))
	if err := os.WriteFile(path, fmt.Appendf(nil, `%s,"sum":"%08x"}`, front, sum), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// leadBy hands leadership to a node.
func (b *bench) leadBy(id rota.NodeID) {
	b.t.Helper()
	b.eventually(string(id)+" leads", func() bool {
		l := b.leader()
		if l.cfg.Node == id {
			return true
		}
		_, _ = l.TransferLeadership(within(b.t, 5*time.Second), id)
		return false
	})
}

// inForce waits until all nodes report that a version is in force.
func (b *bench) inForce(version uint32) {
	b.t.Helper()
	b.eventually("the rules are the same everywhere", func() bool {
		for _, id := range b.ids() {
			n := b.node(id)
			n.replica.Mu.RLock()
			head := n.replica.Machine.Head()
			n.replica.Mu.RUnlock()
			if head.Rules != version {
				return false
			}
		}
		return true
	})
}

// rulesOf returns the version in force according to a node's status.
func (b *bench) rulesOf(n *Node) uint32 {
	s, err := n.Status(within(b.t, ample))
	if err != nil {
		b.t.Fatal(err)
	}
	return s.RulesVersion
}

// stays lets the leader check its voters a few times, and requires that nothing is switched.
func (b *bench) stays(version uint32) {
	b.t.Helper()
	l := b.leader()
	for range 3 {
		l.membership.switchRules(l.terms.leading())
	}
	if got := b.rulesOf(l); got != version {
		b.t.Fatalf("rules version %d is in force, want %d", got, version)
	}
}

// TestRules_switchOnOnceEveryVoterKnowsThem upgrades a cluster node by node.
func TestRules_switchOnOnceEveryVoterKnowsThem(t *testing.T) {
	t.Parallel()
	b := mixed(t)
	submitAll(t, b.node("n1"), specs("mixed", 50))
	b.stays(1)
	for _, id := range b.ids() {
		_, err := b.node(id).SetTenant(within(t, ample), "acme", heavier())
		if rota.KindOf(err) != rota.KindConflict || !strings.Contains(err.Error(),
			"switches on when every node runs a newer binary") {
			t.Errorf("node %s answered a request that needs newer rules with %v", id, err)
		}
	}
	s, err := b.node("n1").Status(within(t, ample))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range s.Nodes {
		if want := map[rota.NodeID]uint32{"n1": 1, "n2": 1, "n3": later}[n.ID]; n.RulesVersion != want {
			t.Errorf("node %s reports that it knows version %d", n.ID, n.RulesVersion)
		}
	}
	b.verifyEqual(b.leader())
	b.formats(1)

	b.replace("n1", true)
	b.leadBy("n3")
	b.stays(1)
	// A voter that cannot be asked may support less.
	b.replace("n2", true, func() {
		b.leadBy("n3")
		b.stays(1)
	})
	b.inForce(later)
	b.verifyEqual(b.leader())
	submitAll(t, b.node("n1"), specs("switched", 50))
	if _, err := b.node("n2").SetTenant(within(t, ample), "acme", heavier()); err != nil {
		t.Errorf("the effect of the newer rules: %v", err)
	}
	for _, id := range b.ids() {
		changed := 0
		for _, e := range tail(t, b.node(id), rota.EventFilter{Kinds: []rota.EventKind{rota.EventRulesChanged}}) {
			if e.Payload == fmt.Sprintf(`{"from":1,"to":%d}`, later) {
				changed++
			}
		}
		if changed != 1 {
			t.Errorf("node %s reports %d switches", id, changed)
		}
	}
	b.formats(raftstore.NodeFormat)
	b.replace("n1", true) // its log moves
	logFile(t, b.addrs["n1"].Data)
	submitAll(t, b.node("n1"), specs("again", 50))
	b.verifyEqual(b.leader())
}

// formats waits until node.json of all nodes has a format: older binaries can read the one before a switch.
func (b *bench) formats(want int) {
	b.t.Helper()
	for _, id := range b.ids() {
		b.eventually(fmt.Sprintf("node.json of %s has format %d", id, want), func() bool {
			text, err := os.ReadFile(filepath.Join(b.addrs[id].Data, "node.json"))
			if err != nil {
				b.t.Fatal(err)
			}
			return strings.Contains(string(text), fmt.Sprintf(`"format": %d,`, want))
		})
	}
}

// replace restarts a node with another binary; meanwhile runs while it is down.
func (b *bench) replace(id rota.NodeID, newer bool, meanwhile ...func()) {
	b.t.Helper()
	b.stop(id)
	for _, see := range meanwhile {
		see()
	}
	b.teach(id, newer)
	b.start(id)
	b.awaitReady(id)
}

// switched starts a cluster with later rules.
func switched(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	for _, id := range []rota.NodeID{"n1", "n2", "n3"} {
		b.plan(id, 3)
		b.teach(id, true)
	}
	b.startPlanned()
	b.inForce(later)
	return b
}

// TestRules_anOlderBinaryStops starts older binaries after the switch: each reports why it stops, and the cluster
// continues.
func TestRules_anOlderBinaryStops(t *testing.T) {
	t.Parallel()
	b := switched(t)
	b.fatal = true
	submitAll(t, b.leader(), specs("before", 20))
	f := b.follower().cfg.Node
	b.stop(f)
	b.teach(f, false)
	b.mu.Lock()
	c := b.addrs[f]
	c.Join = nil
	for _, other := range b.addrs {
		c.Join = append(c.Join, other.Gossip)
	}
	b.addrs[f] = c
	b.mu.Unlock()
	refused := func(what string, err error) {
		t.Helper()
		if rota.KindOf(err) != rota.KindConflict || !strings.Contains(err.Error(),
			fmt.Sprintf("knows rules version 1, the cluster is at version %d: start a newer binary", later)) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := b.tryStart(f)
	refused("a member", err)

	b.plan("n4", 0)
	b.teach("n4", false)
	_, err = b.tryStart("n4")
	refused("a fresh node", err)

	// If no other node can be asked, the log reveals it.
	b.mu.Lock()
	b.cut[f] = true
	b.mu.Unlock()
	n := b.start(f)
	halted := func() (err error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		return errors.Join(b.fatals[f]...)
	}
	b.eventually("the older binary stops", func() bool { return halted() != nil })
	var halt *entry.HaltError
	if err := halted(); !errors.As(err, &halt) || !halt.NewerRules ||
		!strings.Contains(err.Error(), fmt.Sprintf("needs rules version %d, this binary knows 1", later)) {
		t.Errorf("it stopped with %v", err)
	}
	n.replica.Mu.RLock()
	rules := n.replica.Machine.Head().Rules
	n.replica.Mu.RUnlock()
	if rules != 1 {
		t.Errorf("it applied the switch: version %d", rules)
	}
	submitAll(t, b.leader(), specs("after", 20))

	// The newer binary resumes with the same directory.
	b.stop(f)
	b.mu.Lock()
	delete(b.cut, f)
	b.mu.Unlock()
	b.teach(f, true)
	b.start(f)
	b.awaitReady(f)
	b.verifyEqual(b.leader())
}

// TestRules_anOlderBinaryRefusesASnapshot gives a state of newer rules to an older binary: from its own disk, and as a
// backup.
func TestRules_anOlderBinaryRefusesASnapshot(t *testing.T) {
	t.Parallel()
	b := switched(t)
	b.fatal = true
	submitAll(t, b.leader(), specs("before", 20))
	f := b.follower()
	id := f.cfg.Node
	if err := f.raft.Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "backup")
	var backup bytes.Buffer
	if err := f.SaveSnapshot(within(t, ample), peer.ReadOptions{}, &backup); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, backup.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	why := func(knows int) string {
		return fmt.Sprintf("rules have version %d, this binary knows %d: start a newer binary", later, knows)
	}
	_, err := recovery.RestoreBackup(recovery.RestoreOptions{Backup: snapshot.At(file), Data: t.TempDir(), Node: "n1",
		Cluster: "test", Raft: freeAddr(t)})
	if rota.KindOf(err) != rota.KindConflict || !strings.Contains(err.Error(), why(newest)) {
		t.Errorf("a backup of newer rules: %v", err)
	}
	if info, err := snapshot.Inspect(bytes.NewReader(backup.Bytes())); err != nil || info.RulesVersion != later {
		t.Errorf("the backup contains %+v, %v", info, err)
	}

	b.stop(id)
	b.teach(id, false)
	b.mu.Lock()
	b.cut[id] = true // no node warns it beforehand
	b.mu.Unlock()
	if _, err = b.tryStart(id); err == nil {
		t.Error("it started on a snapshot that it cannot read")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := errors.Join(b.fatals[id]...); err == nil || !strings.Contains(err.Error(), why(1)) {
		t.Errorf("it stopped with %v", err)
	}
}

// TestRules_forwardedOperationsOfNewerRules: a leader with an older binary receives unknown operations from a newer
// follower.
func TestRules_forwardedOperationsOfNewerRules(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	l := b.leader()
	if f := new(fsmpb.Op).ProtoReflect().Descriptor().Fields().ByNumber(500); f != nil {
		t.Fatalf("field 500 of Op is now %s: choose another one", f.Name())
	}
	// An operation 500; a Cancel with a field 500.
	for _, commands := range [][]byte{{0x0a, 0x03, 0xa2, 0x1f, 0x00}, {0x0a, 0x05, 0x42, 0x03, 0xa2, 0x1f, 0x00}} {
		_, err := l.Forwarded(context.Background(), commands)
		if rota.KindOf(err) != rota.KindConflict || !strings.Contains(err.Error(),
			"newer rules than this binary knows") {
			t.Errorf("% x was answered with %v", commands, err)
		}
	}
}

// TestRules_loseNoCompletionForCosts: while version 1 is in force, a completion with costs is kept without them.
func TestRules_loseNoCompletionForCosts(t *testing.T) {
	t.Parallel()
	b := mixed(t)
	n := b.node("n3")
	h := newHand(t, n, "w1", 4)
	submitAll(t, n, specs("job", 1))
	a := h.take(1)[0]
	answers, err := h.s.Do(within(t, ample), []peer.LeaseCommand{{Verb: rota.VerbComplete, Lease: a.Lease.ID,
		Job: a.Lease.Job, Costs: rota.Costs{"model": 1}}})
	if err != nil || answers[0].Err != nil {
		t.Fatal(err, answers)
	}
	job, _, err := n.Job(within(t, ample), a.Lease.Job, peer.ReadOptions{})
	if err != nil || job.State != rota.JobCompleted || len(job.Spent) > 0 {
		t.Errorf("%v: %s spent %s", err, job.State, job.Spent)
	}
}
