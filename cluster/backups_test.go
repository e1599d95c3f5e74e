package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/internal/chores"
	"github.com/rotasched/rota/cluster/internal/fault"
	"github.com/rotasched/rota/cluster/recovery"
	"github.com/rotasched/rota/internal/depot"
	"github.com/rotasched/rota/snapshot"
)

// The leader stores backups, keeps the newest of its own cluster, and reports missed ones.
func TestBackups(t *testing.T) {
	t.Parallel()
	b, to := newBench(t), t.TempDir()
	b.plan("n1", 1)
	c := b.addrs["n1"]
	c.Backup.To, c.BackupEvery, c.BackupKeep = to, time.Second, 3
	b.addrs["n1"] = c
	foreign := filepath.Join(to, depot.Name{Cluster: "c-other", Index: 1}.String())
	if err := os.WriteFile(foreign, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b.startPlanned()
	n := b.loyal()
	own := func() []depot.Backup {
		all, err := n.backups.Depot.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return depot.Of(all, n.ClusterID())
	}
	var first rota.Index
	for i := range 5 {
		submitAll(t, n, specs(fmt.Sprint("b", i), 1))
		last := rota.Index(n.replica.Applied.Load())
		b.eventually("a backup holds the job", func() bool {
			o := own()
			return len(o) > 0 && o[len(o)-1].Index >= last
		})
		if first == 0 {
			first = own()[0].Index
		}
	}
	b.eventually("the oldest goes", func() bool { o := own(); return len(o) == 3 && o[0].Index > first })
	n.backups.One <- struct{}{} // no backup is made or removed meanwhile
	newest := own()[2]
	info, err := recovery.CheckBackup(snapshot.At(newest.File))
	if err != nil || info.ClusterID != n.ClusterID() || info.Index != newest.Index {
		t.Errorf("%+v: %+v, %v", newest, info, err)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("another cluster's backup: %v", err)
	}
	if last, _ := n.backups.Stored(); last.Index != newest.Index || last.Name != newest.Name.String() ||
		last.Bytes != newest.Bytes {
		t.Errorf("the state has %+v, the directory %+v", last, newest)
	}
	<-n.backups.One
	missed := func(p string) bool { return strings.Contains(p, "backups were missed") }
	b.eventually("none is missed", func() bool { return !slices.ContainsFunc(n.problems(), missed) })
	if err := os.Rename(to, to+"-gone"); err != nil {
		t.Fatal(err)
	}
	submitAll(t, n, specs("missed", 1))
	b.eventually("two missed are a problem", func() bool { return slices.ContainsFunc(n.problems(), missed) })
	if err := os.Rename(to+"-gone", to); err != nil {
		t.Fatal(err)
	}
	b.eventually("it is over with the next", func() bool { return !slices.ContainsFunc(n.problems(), missed) })
}

// TestBackups_due: the state determines when a backup is due. Neither a new leader nor a name in the directory causes
// one that is not due, an idle cluster is never due, and a caller that requests one gets it.
func TestBackups_due(t *testing.T) {
	t.Parallel()
	b, to := newBench(t), t.TempDir()
	ids := []rota.NodeID{"n1", "n2", "n3"}
	for _, id := range ids {
		b.plan(id, 3)
		c := b.addrs[id]
		c.Backup.To, c.BackupEvery = to, time.Hour
		b.addrs[id] = c
	}
	b.startPlanned()
	b.loyal()
	leader := func() (n *Node, l *leadership) {
		b.eventually("a leader", func() bool {
			n = b.leader()
			l = n.terms.leading()
			return l != nil
		})
		return n, l
	}
	n, _ := leader()
	var first rota.StoredBackup
	b.eventually("the first backup", func() bool { first, _ = n.backups.Stored(); return first.Index > 0 })
	forged := filepath.Join(to, depot.Name{Cluster: n.ClusterID(), Index: 1 << 60}.String())
	if err := os.WriteFile(forged, []byte("forged"), 0o600); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-4 * time.Hour)
	if err := os.Chtimes(forged, old, old); err != nil {
		t.Fatal(err)
	}
	submitAll(t, n, specs("b", 1))
	looked := func(what string) {
		t.Helper()
		n, l := leader()
		if err := n.backups.Look(l, n.backups.Now()); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if last, _ := n.backups.Stored(); last.Name != first.Name {
			t.Errorf("%s: %+v was made after %+v", what, last, first)
		}
		if p := n.backups.Problems(); len(p) > 0 {
			t.Errorf("%s: %q", what, p)
		}
	}
	looked("a forged name")
	if _, err := n.TransferLeadership(within(t, ample), ""); err != nil {
		t.Fatal(err)
	}
	b.loyal()
	looked("a new leader")
	if files, err := os.ReadDir(to); err != nil || len(files) != 2 {
		t.Errorf("%v, %v", files, err)
	}
	n, _ = leader()
	asked, err := n.StoreBackup(within(t, ample))
	if err != nil || asked.Index <= first.Index || asked.Name == first.Name {
		t.Fatalf("%+v, %v", asked, err)
	}
	b.eventually("an idle cluster is not due", func() bool {
		n, l := leader()
		idle := chores.NewBackups(n.duties, n.backups.Depot, time.Nanosecond, 3)
		idle.Save = n.backups.Save
		last, whole := idle.Stored()
		if !whole { // something was written in between
			_, err = n.StoreBackup(within(t, ample))
		} else {
			err = idle.Look(l, idle.Now())
		}
		after, _ := idle.Stored()
		return err == nil && after.Name == last.Name
	})
	for _, other := range ids {
		if n := b.node(other); n.terms.leading() == nil {
			if _, err := n.StoreBackup(within(t, ample)); !fault.IsNotLeader(err) {
				t.Errorf("%s: %v", other, err)
			}
		}
	}
}
