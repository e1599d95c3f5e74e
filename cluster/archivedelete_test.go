package cluster

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/recovery"
	"github.com/rotasched/rota/internal/peer"
	"github.com/rotasched/rota/snapshot"
	"github.com/rotasched/rota/snapshot/archive"
)

// remove deletes jobs through a node; each must be accepted.
func (b *bench) remove(n *Node, jobs ...rota.JobSpec) {
	b.t.Helper()
	ids := make([]rota.JobID, len(jobs))
	for i := range jobs {
		ids[i] = jobs[i].ID
	}
	outcomes, err := n.DeleteJobs(within(b.t, ample), ids)
	for _, o := range outcomes {
		if o.Err != nil {
			b.t.Fatal(o.Err)
		}
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// wantNone checks that no node knows the jobs.
func (b *bench) wantNone(jobs ...rota.JobSpec) {
	b.t.Helper()
	for _, id := range b.ids() {
		n := b.node(id)
		for _, j := range jobs {
			if job, _, err := n.Job(within(b.t, ample), j.ID,
				peer.ReadOptions{}); rota.KindOf(err) != rota.KindNotFound {
				b.t.Fatalf("node %s shows job %s: %+v, %v", id, j.ID, job, err)
			}
			if _, _, err := n.Why(within(b.t, ample), j.ID, rota.WhyQuery{Others: true},
				peer.ReadOptions{}); rota.KindOf(err) != rota.KindNotFound {
				b.t.Fatalf("node %s explains job %s: %v", id, j.ID, err)
			}
			if err := n.AwaitJobs(within(b.t, ample), []rota.JobID{j.ID}, nil); rota.KindOf(err) != rota.KindNotFound {
				b.t.Fatalf("node %s waits for job %s: %v", id, j.ID, err)
			}
			if out, err := n.Retry(within(b.t, ample), retriesOf(j.ID)); err != nil || out[0].Err == nil ||
				rota.KindOf(out[0].Err) != rota.KindNotFound {
				b.t.Fatalf("node %s retries job %s: %+v, %v", id, j.ID, out, err)
			}
		}
		if got := historyOf(b.t, n, rota.JobFilter{}); slices.ContainsFunc(jobs, func(j rota.JobSpec) bool {
			return slices.Contains(got, j.ID)
		}) {
			b.t.Fatalf("node %s lists %v", id, got)
		}
	}
}

// wantNumber checks that each node learns from the others the number of a deleted job's end, and nothing else: its own
// record of the job's earlier lives is not final.
func (b *bench) wantNumber(id rota.JobID, seq uint64) {
	b.t.Helper()
	for _, node := range b.ids() {
		var latest peer.ArchiveRecord
		for _, other := range b.ids() {
			if other == node {
				continue
			}
			found, err := b.node(other).ArchiveRecords(within(b.t, ample), []rota.JobID{id})
			if err != nil {
				b.t.Fatal(err)
			}
			if found[0].Seq >= latest.Seq {
				latest = found[0]
			}
		}
		if latest.Seq != seq || len(latest.Data) != 0 {
			b.t.Fatalf("node %s receives %+v", node, latest)
		}
	}
}

// TestDelete_everywhere deletes jobs whose records are staged, archived, and only in archives: no node knows them
// afterwards, and their ids are free.
func TestDelete_everywhere(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	jobs := specs("j", 4)
	endAll(t, b.leader(), jobs)
	b.remove(b.follower(), jobs[0])
	b.wantNone(jobs[0])
	b.wantNumber(jobs[0].ID, 1)
	for _, id := range b.ids() {
		b.complete(id)
	}
	b.wantNone(jobs[0]) // archived in the meantime
	b.wantNumber(jobs[0].ID, 1)
	b.leap(sevenDays + 1000)
	b.wantHistory(rota.JobFilter{State: rota.JobCancelled}, jobs[1:])
	b.remove(b.leader(), jobs[1])
	b.remove(b.follower(), jobs[1]) // again
	b.wantNone(jobs[:2]...)
	b.wantHistory(rota.JobFilter{State: rota.JobCancelled}, jobs[2:])
	out, err := b.follower().DeleteJobs(within(t, ample), []rota.JobID{"nobody"})
	if err != nil || out[0].Err == nil || rota.KindOf(out[0].Err) != rota.KindNotFound {
		t.Fatalf("%+v, %v", out, err)
	}
	again := slices.Clone(jobs[:2])
	again[0].Type, again[1].Type = "else", "else" // other jobs, with ids that are free
	submitAll(t, b.leader(), again)
	if out, err = b.follower().DeleteJobs(within(t, ample), []rota.JobID{again[1].ID}); err != nil ||
		out[0].Err == nil ||
		rota.KindOf(out[0].Err) != rota.KindConflict {
		t.Fatalf("%+v, %v", out, err)
	}
	if _, err := b.leader().Cancel(within(t, ample), []rota.JobID{again[0].ID}); err != nil {
		t.Fatal(err)
	}
	for _, id := range b.ids() {
		b.complete(id)
		job, _, err := b.node(id).Job(within(t, ample), again[0].ID, peer.ReadOptions{})
		if err != nil || job.Type != "else" || job.State != rota.JobCancelled || job.RecordDropped {
			t.Fatalf("node %s shows %+v, %v", id, job, err)
		}
	}
	b.sound()
}

// TestDelete_aNodeThatFetches deletes the second life of a job: a node whose archive has only the first, and one that
// fetches everything, show neither.
func TestDelete_aNodeThatFetches(t *testing.T) {
	t.Parallel()
	b := startSmallLogs(t)
	jobs := specs("j", 300)
	endAll(t, b.leader(), jobs)
	for _, id := range b.ids() {
		b.complete(id)
	}
	id := jobs[7].ID
	if out, err := b.leader().Retry(within(t, ample), retriesOf(id)); err != nil || out[0].Err != nil {
		t.Fatalf("%+v, %v", out, err)
	}
	if out, err := b.leader().Cancel(within(t, ample), []rota.JobID{id}); err != nil || out[0].Err != nil {
		t.Fatalf("%+v, %v", out, err)
	}
	b.remove(b.leader(), jobs[7])
	b.wantNone(jobs[7]) // its first life is archived, its second staged
	rest := slices.Concat(jobs[:7], jobs[8:])
	f := b.follower()
	b.eventually("a snapshot took the log's place", func() bool {
		first, err := f.stores.Log.FirstIndex()
		submitAll(t, b.leader(), specs(fmt.Sprintf("fill-%d", f.replica.Applied.Load()), 20))
		return err == nil && first > 100
	})
	node := f.cfg.Node
	b.stop(node)
	if err := os.Remove(filepath.Join(b.addrs[node].Data, archive.FileName)); err != nil {
		t.Fatal(err)
	}
	b.start(node)
	b.awaitReady(node)
	b.wantNone(jobs[7])
	b.complete(node)
	b.wantNone(jobs[7])
	b.wantHistory(rota.JobFilter{State: rota.JobCancelled}, rest)
	b.plan("n4", 0)
	b.start("n4")
	b.awaitReady("n4")
	b.complete("n4")
	b.wantNone(jobs[7])
	submitAll(t, b.node("n4"), jobs[7:8])
	b.sound()
}

// TestDelete_backupAndRetention restores a backup of a cluster where a job was deleted, and lets retention pass it:
// then the state drops the number.
func TestDelete_backupAndRetention(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	n := b.leader()
	jobs := specs("j", 9)
	endAll(t, n, jobs)
	b.remove(n, jobs[4])
	b.complete("n1")
	var file bytes.Buffer
	if err := n.SaveSnapshot(within(t, ample), peer.ReadOptions{}, &file); err != nil {
		t.Fatal(err)
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
	to.wantNone(jobs[4])
	rest := slices.Concat(jobs[:4], jobs[5:])
	to.wantHistory(rota.JobFilter{State: rota.JobCancelled}, rest)
	to.plan("n2", 0)
	to.start("n2")
	to.awaitReady("n2")
	to.complete("n2")
	to.wantNone(jobs[4])

	first := func() uint64 { return to.leader().replica.Machine.FirstDeleted() }
	l := to.leader()
	l.leaderChores.dropDeleted(l.terms.leading())
	if first() != 5 {
		t.Fatal("a number is forgotten although archives hold it")
	}
	to.leap(sevenDays + rota.Date(DefaultArchiveRetention.Milliseconds()))
	prune := func(n *Node) {
		n.archive.Prune()
		n.leaderChores.dropDeleted(l.terms.leading())
	}
	prune(l)
	if first() != 5 {
		t.Fatal("a number is forgotten although the other node's archive holds it")
	}
	for _, id := range to.ids() {
		to.eventually("the date has come",
			func() bool { return to.node(id).replica.Applied.Load() >= l.replica.Applied.Load() })
		to.node(id).archive.Prune()
	}
	l.leaderChores.dropDeleted(l.terms.leading())
	if first() != 0 {
		t.Fatal("the number is kept beyond retention")
	}
	to.wantNone(jobs[4])
	to.sound()
}
