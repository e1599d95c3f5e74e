package cluster

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/recovery"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/peer"
	"github.com/rotasched/rota/snapshot"
	"github.com/rotasched/rota/snapshot/archive"
)

// endAll submits jobs and cancels them.
func endAll(t *testing.T, n *Node, jobs []rota.JobSpec) {
	t.Helper()
	submitAll(t, n, jobs)
	ids := make([]rota.JobID, len(jobs))
	for i := range jobs {
		ids[i] = jobs[i].ID
	}
	outcomes, err := n.Cancel(within(t, ample), ids)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range outcomes {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
	}
}

// historyOf reads a node's whole list of ended jobs, in pages of an odd size.
func historyOf(t *testing.T, n *Node, f rota.JobFilter) (ids []rota.JobID) {
	t.Helper()
	f.Limit = 7
	for {
		page, _, err := n.Jobs(within(t, ample), f, peer.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range page.Jobs {
			if j.RecordDropped || string(j.Payload) != "payload" {
				t.Fatalf("node %s returns job %s as %+v", n.cfg.Node, j.ID, j)
			}
			ids = append(ids, j.ID)
		}
		if f.Cursor = page.NextCursor; f.Cursor == "" {
			return ids
		}
	}
}

// wantHistory compares each node's answer with the ended jobs, immediately and whichever records the node has fetched
// so far.
func (b *bench) wantHistory(f rota.JobFilter, want []rota.JobSpec) {
	b.t.Helper()
	var ids []rota.JobID
	for _, j := range want {
		ids = append(ids, j.ID)
	}
	slices.Sort(ids)
	for _, id := range b.ids() {
		n := b.node(id)
		got := historyOf(b.t, n, f)
		slices.Sort(got)
		if !slices.Equal(got, ids) {
			b.t.Fatalf("node %s returns %d jobs, want %d: %v", id, len(got), len(ids), got)
		}
		for _, j := range []rota.JobSpec{want[0], want[len(want)-1]} {
			job, _, err := n.Job(within(b.t, ample), j.ID, peer.ReadOptions{})
			if err != nil || job.RecordDropped || string(job.Payload) != "payload" {
				b.t.Fatalf("node %s shows job %s: %+v, %v", id, j.ID, job, err)
			}
		}
	}
}

// complete waits until a node's history has no gaps and nothing is staged.
func (b *bench) complete(id rota.NodeID) {
	b.t.Helper()
	applied := b.leader().replica.Applied.Load()
	b.eventually(string(id)+" has the whole history", func() bool {
		n := b.node(id)
		return n.replica.Applied.Load() >= applied && n.archive.Flush() == nil && n.ArchiveStatus().Staged == 0 &&
			len(n.archive.Lacks(9)) == 0
	})
}

// sevenDays is gc_horizon unless a queue sets it.
const sevenDays = rota.Date(7 * 24 * 3_600_000)

// leap advances the date, as if all wall clocks had jumped, and waits for a sweep.
func (b *bench) leap(by rota.Date) {
	b.t.Helper()
	wall := time.Now().UnixMilli() + int64(by)
	b.eventually("the date has moved", func() bool {
		n := b.leader()
		l := n.terms.leading()
		if l == nil {
			return false
		}
		entry := &fsmpb.Entry{Term: l.term, NowMs: int64(clockOf(n) + 1), WallMs: []int64{wall, wall, wall},
			Ops: []*fsmpb.Op{{Op: &fsmpb.Op_Sweep{Sweep: &fsmpb.Sweep{}}}}}
		return n.settled(n.raft.Apply(mustSeal(b.t, entry), 5*time.Second)) == nil
	})
}

func TestArchive_historyIsWholeOnEveryNode(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	jobs := specs("j", 60)
	endAll(t, b.leader(), jobs[:40])
	cancelled := rota.JobFilter{State: rota.JobCancelled}
	b.wantHistory(cancelled, jobs[:40]) // still staged, or no longer
	for _, id := range b.ids() {
		b.complete(id)
	}
	b.wantHistory(cancelled, jobs[:40])
	endAll(t, b.leader(), jobs[40:])
	for _, id := range slices.Sorted(slices.Values(b.ids())) { // one after the other
		b.stop(id)
		b.start(id)
		b.awaitReady(id)
	}
	b.wantHistory(cancelled, jobs)
	b.wantHistory(rota.JobFilter{}, jobs)
	for _, id := range b.ids() {
		b.complete(id)
	}
	job, _, err := b.follower().Job(within(t, ample), jobs[0].ID, peer.ReadOptions{})
	if err != nil || !job.Archived || job.State != rota.JobCancelled {
		t.Fatalf("%+v, %v", job, err)
	}
	ended := 0
	if err := b.follower().AwaitJobs(within(t, ample), []rota.JobID{jobs[3].ID, jobs[50].ID}, func(j rota.Job) error {
		ended++
		if string(j.Payload) != "payload" {
			t.Errorf("job %+v", j)
		}
		return nil
	}); err != nil || ended != 2 {
		t.Fatal(ended, err)
	}
	b.sound()
}

func TestArchive_retriesOfWhatLeftMemory(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	jobs := specs("j", 5)
	endAll(t, b.leader(), jobs)
	b.complete(b.leader().cfg.Node) // the others have it staged, or not
	for _, n := range []*Node{b.leader(), b.follower()} {
		outcomes, err := n.Retry(within(t, ample), retriesOf(jobs[0].ID, jobs[1].ID, "nothing"))
		if err != nil || outcomes[0].Err != nil || outcomes[0].State != rota.JobQueued || outcomes[1].Err != nil ||
			outcomes[2].Err == nil || rota.KindOf(outcomes[2].Err) != rota.KindNotFound {
			t.Fatalf("%+v, %v", outcomes, err)
		}
	}
	for _, id := range b.ids() {
		job, _, err := b.node(id).Job(within(t, ample), jobs[0].ID, peer.ReadOptions{})
		if err != nil || job.State != rota.JobQueued || string(job.Payload) != "payload" || job.Archived {
			t.Fatalf("%+v, %v", job, err)
		}
		b.complete(id)
	}
	b.wantHistory(rota.JobFilter{State: rota.JobCancelled}, jobs[2:])
	if _, err := b.leader().Cancel(within(t, ample), []rota.JobID{jobs[0].ID, jobs[1].ID}); err != nil {
		t.Fatal(err)
	}
	b.wantHistory(rota.JobFilter{State: rota.JobCancelled}, jobs)
	b.sound()
}

// TestArchive_nodesFetchWhatTheyLack removes a node's archive, damages a record in it, and lets a new node join from a
// snapshot: at no time does a node return less.
func TestArchive_nodesFetchWhatTheyLack(t *testing.T) {
	t.Parallel()
	b := startSmallLogs(t)
	jobs := specs("j", 300)
	endAll(t, b.leader(), jobs)
	cancelled := rota.JobFilter{State: rota.JobCancelled}
	for _, id := range b.ids() {
		b.complete(id)
	}
	f := b.follower()
	b.eventually("a snapshot took the log's place", func() bool {
		first, err := f.stores.Log.FirstIndex()
		submitAll(t, b.leader(), specs(fmt.Sprintf("fill-%d", f.replica.Applied.Load()), 20))
		return err == nil && first > 100
	})
	id := f.cfg.Node
	b.stop(id)
	if err := os.Remove(filepath.Join(b.addrs[id].Data, archive.FileName)); err != nil {
		t.Fatal(err)
	}
	b.start(id)
	b.awaitReady(id)
	b.wantHistory(cancelled, jobs) // fetched or not
	b.complete(id)
	n := b.node(id)
	if s := n.ArchiveStatus(); s.Records != 300 || s.Lost != 0 {
		t.Fatalf("%+v", s)
	}
	damage(t, n, 17)
	if job, _, err := n.Job(within(t, ample), jobs[16].ID, peer.ReadOptions{}); err != nil ||
		string(job.Payload) != "payload" {
		t.Fatalf("%+v, %v", job, err)
	}
	b.complete(id)
	b.plan("n4", 0)
	b.start("n4")
	b.awaitReady("n4")
	b.wantHistory(cancelled, jobs)
	b.complete("n4")
	b.wantHistory(cancelled, jobs)
	b.sound()
}

// damage flips a byte of a record on disk.
func damage(t *testing.T, n *Node, seq byte) {
	t.Helper()
	key := []byte{0, 0, 0, 0, 0, 0, 0, seq}
	if err := n.historyFile.DB.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte("jobs.records"))
		c := b.Cursor()
		k, v := c.Seek(key)
		if !bytes.Equal(k, key) {
			if k, v = c.Prev(); k == nil {
				k, v = c.Last()
			}
		}
		bad, at := bytes.Clone(v), len(v)/2
		if place := bytes.LastIndex(bad, key); bad[0] == 3 { // of a block: the records' ends follow the numbers
			at = int(binary.BigEndian.Uint32(bad[place+8:])) - 5
		}
		bad[at] ^= 1
		return b.Put(bytes.Clone(k), bad)
	}); err != nil {
		t.Fatal(err)
	}
}

// TestArchive_aFlushWhoseEndWasLostIsRepeated crashes between writing and releasing: the log delivers the same records
// again.
func TestArchive_aFlushWhoseEndWasLostIsRepeated(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	n := b.leader()
	jobs := specs("j", 20)
	endAll(t, n, jobs)
	n.replica.Mu.RLock()
	head, staged := n.replica.Machine.Head(), n.replica.Machine.Staged(7, 1<<30)
	n.replica.Mu.RUnlock()
	var entries []peer.ArchiveRecord
	for _, s := range staged {
		entries = append(entries, peer.ArchiveRecord{Seq: s.Seq, Data: s.Append(nil)})
	}
	if err := errors.Join(n.historyFile.Jobs.Claim(head.ClusterID, head.Incarnation),
		n.historyFile.Jobs.Put(entries, nil)); err != nil {
		t.Fatal(err)
	}
	b.stop("n1")
	b.start("n1")
	b.awaitReady("n1")
	b.complete("n1")
	if s := b.node("n1").ArchiveStatus(); s.Records != 20 || s.Lost != 0 {
		t.Fatalf("%+v", s)
	}
	b.wantHistory(rota.JobFilter{}, jobs)
}

func TestArchive_whatCannotBeWrittenStays(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	n := b.leader()
	endAll(t, n, specs("before", 3))
	b.complete("n1")
	if err := n.historyFile.Jobs.Claim("another", 1); rota.KindOf(err) != rota.KindConflict {
		t.Fatal(err)
	}
	hang, err := n.historyFile.DB.Begin(true) // the disk hangs
	if err != nil {
		t.Fatal(err)
	}
	endAll(t, n, specs("held", 3))
	if s := n.ArchiveStatus(); s.Staged != 3 || s.Records != 3 {
		t.Fatalf("%+v", s)
	}
	if err := hang.Rollback(); err != nil {
		t.Fatal(err)
	}
	b.complete("n1")
	if p := n.problems(); len(p) != 0 {
		t.Fatalf("%q", p)
	}
}

// TestArchive_idsBeyondTombstonesAreKnown passes the tombstones' horizon by date: submitting again is answered from the
// archive, changes are rejected.
func TestArchive_idsBeyondTombstonesAreKnown(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	jobs := specs("j", 3)
	endAll(t, b.leader(), jobs)
	for _, id := range b.ids() {
		b.complete(id)
	}
	b.leap(sevenDays + 1000)
	for _, n := range []*Node{b.follower(), b.leader()} {
		outcomes, err := n.Submit(within(t, ample), append(specs("j", 2), specs(string(n.cfg.Node), 1)...))
		if err != nil || !outcomes[0].Existed || outcomes[0].State != rota.JobCancelled || !outcomes[1].Existed ||
			outcomes[2].Existed || outcomes[2].State != rota.JobQueued {
			t.Fatalf("%+v, %v", outcomes, err)
		}
		other := specs("j", 1)
		other[0].Type = "else"
		refused, err := n.Submit(within(t, ample), other)
		if e := rota.ErrorOf(refused[0].Err); err != nil || e == nil || e.Kind != rota.KindConflict ||
			e.Subject != "id" ||
			!strings.Contains(e.Text, `its type was "work", not "else"`) {
			t.Fatalf("another job with an archived id: %+v, %v", refused, err)
		}
		job, _, err := n.Job(within(t, ample), jobs[0].ID, peer.ReadOptions{})
		if err != nil || !job.Archived {
			t.Fatalf("%+v, %v", job, err)
		}
		retried, err := n.Retry(within(t, ample), retriesOf(jobs[0].ID))
		if err != nil || retried[0].Err == nil || rota.KindOf(retried[0].Err) != rota.KindOutOfRange {
			t.Fatalf("%+v, %v", retried, err)
		}
	}
	b.wantHistory(rota.JobFilter{State: rota.JobCancelled}, jobs)
}

func TestArchive_backupAndRestore(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	n := b.leader()
	jobs := specs("j", 50)
	endAll(t, n, jobs)
	b.complete("n1")
	submitAll(t, n, specs("live", 2))
	var file bytes.Buffer
	if err := n.SaveSnapshot(within(t, ample), peer.ReadOptions{}, &file); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"rota_snapshot_hold_seconds", "rota_snapshot_write_seconds"} {
		if times := gauges(t, n, name)[""]; times != 1 {
			t.Errorf("%s counts %v of one backup", name, times)
		}
	}
	path := filepath.Join(t.TempDir(), "backup.rota")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	to := newBench(t)
	to.plan("n1", 0)
	c := to.addrs["n1"]
	if _, err := recovery.RestoreBackup(recovery.RestoreOptions{Backup: snapshot.At(path), Data: c.Data, Node: "n1",
		Cluster: "test", Raft: c.Raft}); err != nil {
		t.Fatal(err)
	}
	to.start("n1")
	to.awaitReady("n1")
	to.wantHistory(rota.JobFilter{State: rota.JobCancelled}, jobs)
	restored := to.leader()
	if s := restored.ArchiveStatus(); s.Records != 50 || s.Lacking+s.Lost != 0 {
		t.Fatalf("%+v", s)
	}
	endAll(t, restored, specs("after", 3))
	to.complete("n1")
	outcomes, err := restored.Retry(within(t, ample), retriesOf(jobs[4].ID))
	if err != nil || outcomes[0].Err != nil {
		t.Fatalf("%+v, %v", outcomes, err)
	}
	to.plan("n2", 0)
	to.start("n2")
	to.awaitReady("n2")
	to.complete("n2")
	to.wantHistory(rota.JobFilter{State: rota.JobCancelled}, slices.Concat(specs("after", 3), jobs[:4], jobs[5:]))
	to.sound()
	for _, cut := range []int{len(file.Bytes()) / 2, len(file.Bytes()) - 1} {
		if err := os.WriteFile(path, file.Bytes()[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := recovery.RestoreBackup(recovery.RestoreOptions{Backup: snapshot.At(path),
			Data: filepath.Join(t.TempDir(), "x"), Node: "n1", Cluster: "test",
			Raft: c.Raft}); err == nil {
			t.Fatal("a truncated backup is restored")
		}
	}
}

func TestArchive_ofAnotherClusterIsRefusedByName(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	endAll(t, b.leader(), specs("j", 3))
	b.complete("n1")
	b.stop("n1")
	path := filepath.Join(b.addrs["n1"].Data, archive.FileName)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	db, err := archive.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	a, err := archive.OpenJobs(db)
	if err := errors.Join(err, a.Claim("c-other", 1), db.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.tryStart("n1"); rota.KindOf(err) != rota.KindConflict ||
		!strings.Contains(err.Error(), "history of cluster c-other") {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	b.start("n1")
}
