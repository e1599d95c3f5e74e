package cluster

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
	"go.etcd.io/bbolt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/raftstore/wal"
)

// damages returns how much damage scrubbing found in a part of the disk.
func damages(n *Node, what string) uint64 {
	return uint64(seriesOf(n.scrub.Collectors(), "rota_scrub_damaged_total")[what])
}

// TestScrub_mendsTheLog damages an entry on one node's disk.
func TestScrub_mendsTheLog(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	pauses := map[rota.NodeID]writePause{}
	for _, id := range []rota.NodeID{"n1", "n2", "n3"} {
		b.plan(id, 3)
		c := b.addrs[id]
		pauses[id] = make(writePause)
		c.Environment.BeforeWrite = pauses[id].beforeWrite
		b.addrs[id] = c
	}
	b.startPlanned()
	submitAll(t, b.loyal(), specs("a", 50)) // if a leader is lost, jobs are submitted again
	f := b.follower()
	b.eventually("the follower has some log", func() bool { return f.replica.Applied.Load() > 3 })
	n := b.leader()
	for i := range 8 {
		submitAll(t, n, specs(fmt.Sprintf("b%d", i), 1))
	}
	newest := n.replica.Applied.Load()
	b.eventually("the follower has those, too", func() bool { return f.replica.Applied.Load() >= newest })
	f.scrub.Pass()
	if damages(f, "log") != 0 {
		t.Fatal("a sound log is reported as damaged")
	}
	release := pauses[f.cfg.Node].await() // the sweeps of the waiting jobs continue writing
	bad := damageEntry(t, f, "b1-00000")
	release()
	f.scrub.Pass()
	if damages(f, "log") != 1 || len(f.scrub.Problems()) != 0 {
		t.Errorf("%d damaged entries, %v", damages(f, "log"), f.scrub.Problems())
	}
	if now, _, _ := f.stores.Stored(); now != bad+1 {
		t.Errorf("the log begins at %d, the damaged entry was %d", now, bad)
	}
	id := f.cfg.Node
	b.stop(id)
	f = b.start(id) // preflight would reject a damaged entry, and a gap
	b.awaitReady(id)
	b.verifyEqual(f)
	f.scrub.Pass()
	if damages(f, "log") != 0 {
		t.Error("the damage is still there")
	}
}

// writePause makes the one goroutine that writes a log wait before a write.
type writePause chan chan struct{}

func (p writePause) beforeWrite() {
	select {
	case released := <-p:
		<-released
	default:
	}
}

// await returns once the next write waits; release lets it continue.
func (p writePause) await() (release func()) {
	released := make(chan struct{})
	p <- released
	return func() { close(released) }
}

// damageEntry flips a bit of the entry that submitted a job, in the file under an open log that is not being written,
// and returns its index.
func damageEntry(t *testing.T, n *Node, job rota.JobID) uint64 {
	t.Helper()
	first, last, err := n.stores.Stored()
	if err != nil {
		t.Fatal(err)
	}
	var found []uint64
	for index := first; index <= last; index++ {
		var entry raft.Log
		if err := n.stores.ReadStored(index, &entry); err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(entry.Data, []byte(job)) {
			found = append(found, index)
		}
	}
	if len(found) != 1 || found[0] == last {
		t.Fatalf("entries %v of %d name job %s", found, last, job)
	}
	path := logFile(t, n.cfg.Data)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for at := 0; ; at++ {
		next := bytes.Index(content[at:], []byte(job))
		if next < 0 {
			break
		}
		at += next
		if _, err := file.WriteAt([]byte{content[at] ^ 1}, int64(at)); err != nil {
			t.Fatal(err)
		}
	}
	return found[0]
}

// logFile returns the only file of a node's log.
func logFile(t *testing.T, data string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(data, "log", "*"+wal.Suffix))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	return files[0]
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
	path := n.snapshots.StateFile(kept[0].ID)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)/2] ^= 1
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	n.scrub.Pass()
	now, err := n.snapshots.List()
	if err != nil || len(now) != 1 || now[0].ID == kept[0].ID || damages(n, "snapshot") != 1 {
		t.Fatalf("%v, %v, %d damaged", now, err, damages(n, "snapshot"))
	}
	if _, err := os.Stat(filepath.Join(n.cfg.Data, "snapshots-damaged", kept[0].ID)); err != nil {
		t.Error(err)
	}
	n.scrub.Pass()
	if damages(n, "snapshot") != 1 {
		t.Error("the new log is reported as damaged")
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
	b.eventually("all are archived", func() bool { _ = f.archive.Flush(); return f.ArchiveStatus().Records == 20 })
	if err := f.historyFile.DB.Update(func(tx *bbolt.Tx) error {
		records := tx.Bucket([]byte("jobs.records"))
		k, v := records.Cursor().Last()
		v = bytes.Clone(v)
		v[len(v)/2] ^= 1
		return records.Put(bytes.Clone(k), v)
	}); err != nil {
		t.Fatal(err)
	}
	f.scrub.Pass()
	if damages(f, "archive") != 1 {
		t.Fatalf("%d damaged records", damages(f, "archive"))
	}
	b.eventually("the record is fetched again", func() bool {
		return f.ArchiveStatus().Records == 20 && f.ArchiveStatus().Lacking == 0
	})
	f.scrub.Pass()
	if damages(f, "archive") != 1 {
		t.Error("the record is still damaged")
	}
}
