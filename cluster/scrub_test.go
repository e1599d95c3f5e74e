package cluster

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/raft"
	"go.etcd.io/bbolt"

	"github.com/rotasched/rota"
)

func damages(n *Node, what string) uint64 {
	n.scrub.mu.Lock()
	defer n.scrub.mu.Unlock()
	return n.scrub.found[what]
}

// TestScrub_mendsTheLog damages an entry on one node's disk.
func TestScrub_mendsTheLog(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	submitAll(t, b.leader(), specs("a", 50))
	f := b.follower()
	b.eventually("the follower has some log", func() bool { return f.applied.Load() > 3 })
	n := b.leader()
	for i := range 8 {
		submitAll(t, n, specs(fmt.Sprintf("b%d", i), 1))
	}
	f.scrubOnce()
	if damages(f, scrubLog) != 0 {
		t.Fatal("a sound log is called damaged")
	}
	first, _ := f.stores.bolt.FirstIndex()
	bad := first + 3
	var stored raft.Log
	if err := f.stores.bolt.GetLog(bad, &stored); err != nil {
		t.Fatal(err)
	}
	stored.Data = append(bytes.Clone(stored.Data), 'x')
	if err := f.stores.bolt.StoreLog(&stored); err != nil {
		t.Fatal(err)
	}
	f.scrubOnce()
	if damages(f, scrubLog) != 1 || len(f.scrubProblems()) != 0 {
		t.Errorf("%d damaged entries, %v", damages(f, scrubLog), f.scrubProblems())
	}
	if now, _ := f.stores.bolt.FirstIndex(); now != bad+1 {
		t.Errorf("the log begins at %d, the damaged entry was %d", now, bad)
	}
	id := f.cfg.Node
	b.stop(id)
	f = b.start(id) // preflight would refuse a damaged entry, and a gap
	b.awaitReady(id)
	b.verifyEqual(f)
	f.scrubOnce()
	if damages(f, scrubLog) != 0 {
		t.Error("the damage is there still")
	}
}

func TestScrub_replacesADamagedSnapshot(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	n := b.leader()
	submitAll(t, n, specs("a", 50))
	if err := n.raft.Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	kept, err := n.snapshots.List()
	if err != nil || len(kept) != 1 {
		t.Fatal(kept, err)
	}
	path := filepath.Join(n.cfg.Data, snapshotsDir, kept[0].ID, snapshotState)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)/2] ^= 1
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	n.scrubOnce()
	now, err := n.snapshots.List()
	if err != nil || len(now) != 1 || now[0].ID == kept[0].ID || damages(n, scrubSnapshot) != 1 {
		t.Fatalf("%v, %v, %d damaged", now, err, damages(n, scrubSnapshot))
	}
	if _, err := os.Stat(filepath.Join(n.cfg.Data, snapshotsAside, kept[0].ID)); err != nil {
		t.Error(err)
	}
	n.scrubOnce()
	if damages(n, scrubSnapshot) != 1 {
		t.Error("the new one is called damaged")
	}
}

// TestScrub_fetchesADamagedRecord damages an ended job in one node's archive.
func TestScrub_fetchesADamagedRecord(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	n := b.leader()
	submitAll(t, n, specs("a", 20))
	ids := make([]rota.JobID, 20)
	for i := range ids {
		ids[i] = rota.JobID(fmt.Sprintf("a-%05d", i))
	}
	if _, err := n.Cancel(within(t, ample), ids); err != nil {
		t.Fatal(err)
	}
	f := b.follower()
	b.eventually("all are archived", func() bool { _ = f.flushHistory(); return f.ArchiveStatus().Records == 20 })
	if err := f.archiveDB.Update(func(tx *bbolt.Tx) error {
		records := tx.Bucket([]byte("jobs.records"))
		k, v := records.Cursor().Last()
		v = bytes.Clone(v)
		v[len(v)/2] ^= 1
		return records.Put(bytes.Clone(k), v)
	}); err != nil {
		t.Fatal(err)
	}
	f.scrubOnce()
	if damages(f, scrubArchive) != 1 {
		t.Fatalf("%d damaged records", damages(f, scrubArchive))
	}
	b.eventually("the record is fetched again", func() bool { return f.ArchiveStatus().Records == 20 && f.ArchiveStatus().Lacking == 0 })
	f.scrubOnce()
	if damages(f, scrubArchive) != 1 {
		t.Error("the record is damaged still")
	}
}

// TestScrub_cutsInSlices cuts a long log in several writes: in one it would hold up the
// log for so long that the disk is taken for dead.
func TestScrub_cutsInSlices(t *testing.T) {
	t.Parallel()
	var writes atomic.Int64
	s, err := OpenStores(t.TempDir(), StoreOptions{NoSync: true, BeforeWrite: func() { writes.Add(1) }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const many = 2*cutAtOnce + 500
	for i := uint64(1); i <= many; {
		var batch []*raft.Log
		for ; i <= many && len(batch) < 5000; i++ {
			batch = append(batch, &raft.Log{Index: i, Term: 1, Data: make([]byte, 16)})
		}
		if err := s.bolt.StoreLogs(batch); err != nil {
			t.Fatal(err)
		}
	}
	n := &Node{stores: s}
	writes.Store(0)
	if err := n.cutOff(1, many-10); err != nil {
		t.Fatal(err)
	}
	if first, err := s.bolt.FirstIndex(); err != nil || first != many-9 || writes.Load() != 3 {
		t.Errorf("the log begins at %d after %d writes, %v", first, writes.Load(), err)
	}
}
