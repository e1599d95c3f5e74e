package cluster

import (
	"fmt"
	"testing"

	"github.com/hashicorp/raft"
)

// TestInstall_anOlderSnapshot: a snapshot that the leader offered before comes late, over a
// slow link, or a second time, as the answer to the first was lost. What the follower has
// applied since stays, and the leader takes it for answered: it would offer it for ever.
func TestInstall_anOlderSnapshot(t *testing.T) {
	t.Parallel()
	for name, trailing := range map[string]uint64{"the log reaches back": 1 << 20, "the log begins later": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startBench(t, 3)
			leader, follower := b.loyal(), b.follower()
			submitAll(t, leader, specs("early", 3))
			offer := snapshotOf(t, leader)
			for i := range 5 {
				submitAll(t, leader, specs(fmt.Sprintf("late%d", i), 1))
			}
			b.eventually("the follower has caught up", func() bool {
				return follower.replica.applied.Load() >= leader.replica.applied.Load()
			})
			c := follower.raft.ReloadableConfig()
			c.TrailingLogs = trailing
			if err := follower.raft.ReloadConfig(c); err != nil {
				t.Fatal(err)
			}
			snapshotOf(t, follower)
			before, own := follower.replica.head(), follower.raft.Stats()["last_snapshot_index"]

			for range 2 {
				if resp := offer(follower); !resp.Success {
					t.Error("the leader is refused, and would offer the snapshot for ever")
				}
				now := follower.replica.head()
				if now.Index < before.Index || now.Clock < before.Clock {
					t.Errorf("the state went back from entry %d, clock %d, to entry %d, clock %d", before.Index, before.Clock, now.Index, now.Clock)
				}
			}
			if now := follower.raft.Stats()["last_snapshot_index"]; now != own {
				t.Errorf("raft's snapshot is that of entry %s, it was that of %s", now, own)
			}
			submitAll(t, leader, specs("after", 1))
			b.eventually("the follower follows", func() bool {
				return follower.replica.applied.Load() >= leader.replica.applied.Load()
			})
			if v, err := follower.Verify(within(t, ample)); err != nil || !v.Equal {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
}

// snapshotOf has a node write a snapshot, and returns what offers it to another node as
// raft's leader does.
func snapshotOf(t *testing.T, n *Node) func(to *Node) raft.InstallSnapshotResponse {
	t.Helper()
	written := n.raft.Snapshot()
	if err := written.Error(); err != nil {
		t.Fatal(err)
	}
	meta, rc, err := written.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := rc.Close(); err != nil {
		t.Fatal(err)
	}
	return func(to *Node) (resp raft.InstallSnapshotResponse) {
		t.Helper()
		meta, rc, err := n.snapshots.Open(meta.ID)
		if err != nil {
			t.Fatal(err)
		}
		defer rc.Close()
		req := &raft.InstallSnapshotRequest{
			RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(n.cfg.Node), Addr: []byte(n.cfg.Raft)},
			Term:      n.raft.CurrentTerm(), SnapshotVersion: meta.Version, LastLogIndex: meta.Index, LastLogTerm: meta.Term,
			Configuration: raft.EncodeConfiguration(meta.Configuration), ConfigurationIndex: meta.ConfigurationIndex, Size: meta.Size}
		if err := n.transport.InstallSnapshot(raft.ServerID(to.cfg.Node), raft.ServerAddress(to.cfg.Raft), req, &resp, rc); err != nil {
			t.Fatal(fmt.Errorf("offer the snapshot of entry %d: %w", meta.Index, err))
		}
		return resp
	}
}
