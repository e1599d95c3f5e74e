package cluster

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/audit"
	"github.com/rotasched/rota/internal/peer"
	"github.com/rotasched/rota/snapshot"
)

// auditedBackup creates a backup of a node and audits it; it must begin with the given state.
func auditedBackup(t *testing.T, n *Node, from rota.Index) {
	t.Helper()
	var file bytes.Buffer
	if err := n.SaveSnapshot(within(t, ample), peer.ReadOptions{}, &file); err != nil {
		t.Fatalf("node %s cannot be backed up: %v", n.cfg.Node, err)
	}
	path := filepath.Join(t.TempDir(), "backup")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	report, err := audit.Backup(within(t, ample), snapshot.At(path), slog.New(slog.DiscardHandler))
	if err != nil || report.Difference != nil || from != 0 && report.From != from || report.Entries == 0 {
		t.Fatalf("%+v, %+v, %v", report, report.Difference, err)
	}
}

// TestAudit_theFirstSnapshotCutsNoLogThatIsKept: raft writes its first snapshot long after its trailing logs;
// audit_retention requires the earlier ones.
func TestAudit_theFirstSnapshotCutsNoLogThatIsKept(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.plan("n1", 1)
	c := b.addrs["n1"]
	c.Timing.SnapshotThreshold, c.Timing.TrailingLogs, c.Timing.SnapshotInterval = 32, 8, 50*time.Millisecond
	b.addrs["n1"] = c
	b.startPlanned()
	n := b.leader()
	b.eventually("a snapshot is written", func() bool {
		submitAll(t, n, specs(fmt.Sprint("j", n.replica.Applied.Load()), 20))
		kept, err := n.snapshots.List()
		return err == nil && len(kept) > 0
	})
	submitAll(t, n, specs("after", 5))
	if first, err := n.stores.Log.FirstIndex(); first != 1 || err != nil {
		t.Errorf("the log begins at %d, %v", first, err)
	}
	auditedBackup(t, n, 1)
}

// TestAudit_afterAnInstalledSnapshot: a node whose log reaches back to the first entry is sent a snapshot and restarts.
// The log has a gap, and only the part after it is kept.
func TestAudit_afterAnInstalledSnapshot(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 3 {
		id := rota.NodeID(fmt.Sprintf("n%d", i+1))
		b.plan(id, 3)
		c := b.addrs[id]
		c.AuditRetention = 1
		if id != "n3" {
			c.Timing.SnapshotThreshold, c.Timing.TrailingLogs, c.Timing.SnapshotInterval = 32, 8, 50*time.Millisecond
		}
		b.addrs[id] = c
	}
	b.startPlanned()
	b.leadBy("n1")
	leader, away := b.loyal(), b.node("n3")
	b.isolate("n3")
	b.eventually("the log that the other node needs is gone", func() bool {
		submitAll(t, leader, specs(fmt.Sprintf("more-%d", leader.replica.Applied.Load()), 20))
		first, err := leader.stores.Log.FirstIndex()
		return err == nil && first > away.raft.LastIndex()+8
	})
	b.heal("n3")
	b.eventually("it was sent a snapshot",
		func() bool { return away.replica.Applied.Load() >= leader.replica.Applied.Load() })
	auditedBackup(t, away, 0)
	submitAll(t, b.leader(), specs("after", 20))
	b.stop("n3")
	b.start("n3")
	b.awaitReady("n3")
	auditedBackup(t, b.node("n3"), 0)
}
