package cluster

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"go.etcd.io/bbolt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// sound verifies every node, and requires all of them to be equal and without fault.
func (b *bench) sound() {
	b.t.Helper()
	n := b.leader()
	b.eventually("gossip knows all nodes", func() bool { // some were just restarted
		return !slices.ContainsFunc(n.membership.servers(), func(s raft.Server) bool {
			_, ok := n.membership.address(rota.NodeID(s.ID))
			return !ok
		})
	})
	v, err := n.Verify(within(b.t, ample))
	if err != nil || !v.Equal {
		b.t.Fatalf("%+v, %v", v, err)
	}
}

// lose removes the record of a number from a node's archive, as damage does.
func lose(t *testing.T, n *Node, seq uint64) {
	t.Helper()
	if err := n.historyFile.Jobs.Drop([]uint64{seq}); err != nil {
		t.Fatal(err)
	}
}

// TestArchive_aRevivedJobTellsItsEarlierLifeOnEveryNode reads a retried job on a node whose history lacks its earlier
// end.
func TestArchive_aRevivedJobTellsItsEarlierLifeOnEveryNode(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	h := newHand(t, b.leader(), "w1", 1)
	submitAll(t, b.leader(), specs("j", 1))
	leases := h.take(1)
	h.do(rota.VerbAck, leases...)
	id := leases[0].Lease.Job
	if _, err := b.leader().Cancel(within(t, ample), []rota.JobID{id}); err != nil {
		t.Fatal(err)
	}
	for _, node := range b.ids() {
		b.complete(node)
	}
	if _, err := b.leader().DrainWorker(within(t, ample), "w1"); err != nil {
		t.Fatal(err)
	}
	outcomes, err := b.leader().Retry(within(t, ample), retriesOf(id))
	if err != nil || outcomes[0].Err != nil {
		t.Fatal(outcomes, err)
	}
	want, _, err := b.leader().Job(within(t, ample), id, peer.ReadOptions{})
	if err != nil || len(want.Attempts) != 1 || want.State.Terminal() {
		t.Fatalf("%+v, %v", want, err)
	}
	f := b.follower()
	lose(t, f, 1)
	got, _, err := f.Job(within(t, ample), id, peer.ReadOptions{})
	if err != nil || len(got.Attempts) != 1 {
		t.Fatalf("one node reports %d attempts, the other 1: %v", len(got.Attempts), err)
	}
}

// TestArchive_aListIsNeverShort cuts a node off from those that could fill the gaps of its history: it returns an error
// rather than less than the cluster has.
func TestArchive_aListIsNeverShort(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	endAll(t, b.leader(), specs("j", 5))
	for _, id := range b.ids() {
		b.complete(id)
	}
	n := b.leader()
	b.mu.Lock()
	b.cut[n.cfg.Node] = true // calls fail, raft continues
	b.mu.Unlock()
	lose(t, n, 3)
	page, _, err := n.Jobs(within(t, ample), rota.JobFilter{}, peer.ReadOptions{})
	if rota.KindOf(err) != rota.KindUnavailable || !strings.Contains(err.Error(), "has gaps") {
		t.Errorf("got %d jobs, 5 ended: %v", len(page.Jobs), err)
	}
	page, _, err = n.Jobs(within(t, ample), rota.JobFilter{}, peer.ReadOptions{Stale: true})
	if err != nil || len(page.Jobs) != 5 { // the tombstone still covers the fifth
		t.Errorf("got %d of the jobs that are here: %v", len(page.Jobs), err)
	}
	b.heal(n.cfg.Node)
	b.complete(n.cfg.Node)
	if page, _, err = n.Jobs(within(t, ample), rota.JobFilter{}, peer.ReadOptions{}); err != nil ||
		len(page.Jobs) != 5 {
		t.Errorf("%d jobs, %v", len(page.Jobs), err)
	}
}

// TestVerify_ofALargeState checks the invariants on a copy, as applying must not wait for a check of all rows.
func TestVerify_ofALargeState(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.plan("n1", 1)
	c := b.addrs["n1"]
	c.checkedHere = 1
	b.addrs["n1"] = c
	b.startPlanned()
	n := b.leader()
	endAll(t, n, specs("j", 5))
	submitAll(t, n, specs("k", 5))
	b.complete("n1")
	b.sound()
	n.explainer.Reader.Turn <- struct{}{} // a replay uses the memory for a state
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := n.CheckAt(ctx, 1); err == nil {
		t.Error("the check included the state here")
	}
	<-n.explainer.Reader.Turn
	if err := n.historyFile.DB.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("jobs.records")).Delete([]byte{0, 0, 0, 0, 0, 0, 0, 3})
	}); err != nil {
		t.Fatal(err)
	}
	v, err := n.Verify(within(t, ample))
	if err != nil || v.Equal || !strings.Contains(strings.Join(v.Nodes[0].Violations, ""), "number 3 is neither") {
		t.Errorf("%+v, %v", v, err)
	}
}

// TestArchive_theLatestEndIsToldOnEveryNode: a node holds a job's first end and lacks the one after its retry, when no
// tombstone is left.
func TestArchive_theLatestEndIsToldOnEveryNode(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	f := b.follower()
	jobs := specs("j", 1)
	id := jobs[0].ID
	whole := func() {
		t.Helper()
		for _, node := range b.ids() {
			b.complete(node)
		}
	}
	endAll(t, b.leader(), jobs)
	whole()
	first, ok, err := f.historyFile.Jobs.Record(id)
	if err != nil || !ok || first.Seq != 1 {
		t.Fatal("the first end is not archived", err)
	}
	if outcomes, err := b.leader().Retry(within(t, ample), retriesOf(id)); err != nil || outcomes[0].Err != nil {
		t.Fatal(outcomes, err)
	}
	newHand(t, b.leader(), "w1", 1)
	b.eventually("the job has a lease", func() bool {
		job, _, err := b.leader().Job(within(t, 5*time.Second), id, peer.ReadOptions{})
		return err == nil && len(job.Attempts) == 1
	})
	if _, err := b.leader().Cancel(within(t, ample), []rota.JobID{id}); err != nil {
		t.Fatal(err)
	}
	whole()
	b.leap(sevenDays + 1000)
	b.eventually("the tombstone is gone", func() bool {
		f.replica.Mu.RLock()
		defer f.replica.Mu.RUnlock()
		_, _, ok := f.replica.Machine.Tombstone(id)
		return !ok
	})
	if err := errors.Join(f.historyFile.Jobs.Drop([]uint64{1, 2}),
		f.historyFile.Jobs.Put([]peer.ArchiveRecord{first}, nil)); err != nil {
		t.Fatal(err)
	}
	job, _, err := f.Job(within(t, ample), id, peer.ReadOptions{})
	if err != nil || len(job.Attempts) != 1 {
		t.Fatalf("the node reports an earlier end: %d attempts, %v", len(job.Attempts), err)
	}
}

// TestArchive_aDiskThatCannotBeReadIsNoLackOfAJob reads a job that only the archive has while that cannot be read: the
// job must not be reported as unknown.
func TestArchive_aDiskThatCannotBeReadIsNoLackOfAJob(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	jobs := specs("j", 1)
	endAll(t, b.leader(), jobs)
	b.complete("n1")
	b.leap(sevenDays + 1000)
	n := b.leader()
	if err := n.historyFile.DB.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := n.Job(within(t, 5*time.Second), jobs[0].ID,
		peer.ReadOptions{}); rota.KindOf(err) != rota.KindUnavailable {
		t.Errorf("the job is reported as unknown: %v", err)
	}
	if _, err := n.Submit(within(t, 5*time.Second), jobs); rota.KindOf(err) != rota.KindUnavailable {
		t.Errorf("the job is admitted a second time: %v", err)
	}
}
