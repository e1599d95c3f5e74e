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
	"github.com/rotasched/rota/cluster/recovery"
	"github.com/rotasched/rota/internal/depot"
	"github.com/rotasched/rota/snapshot"
)

// The leader stores backups, keeps the last of its own cluster's, and says that they are
// missed.
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
		all, err := n.backups.depot.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return depot.Of(all, n.ClusterID())
	}
	var first rota.Index
	for i := range 5 {
		submitAll(t, n, specs(fmt.Sprint("b", i), 1))
		last := rota.Index(n.replica.applied.Load())
		b.eventually("a backup holds the job", func() bool { o := own(); return len(o) > 0 && o[len(o)-1].Index >= last })
		if first == 0 {
			first = own()[0].Index
		}
	}
	b.eventually("the oldest goes", func() bool { o := own(); return len(o) == 3 && o[0].Index > first })
	newest := own()[2]
	info, err := recovery.CheckBackup(snapshot.At(newest.File))
	if err != nil || info.ClusterID != n.ClusterID() || info.Index != newest.Index {
		t.Errorf("%+v: %+v, %v", newest, info, err)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("another cluster's backup: %v", err)
	}
	missed := func(p string) bool { return strings.Contains(p, "backups were missed") }
	if p := n.problems(); slices.ContainsFunc(p, missed) {
		t.Errorf("%q", p)
	}
	idle := &backups{n: n, depot: n.backups.depot, save: n.backups.save, every: time.Hour, keep: 3, leads: true,
		since: n.backups.now() - rota.Date(5*time.Hour/time.Millisecond)}
	b.eventually("an old backup holds all that there is", func() bool {
		newest, old := own()[2], time.Now().Add(-4*time.Hour)
		if err := os.Chtimes(newest.File, old, old); err != nil {
			return false // it has gone
		}
		idle.last, idle.held = 0, 0
		if err := idle.look(t.Context()); err != nil {
			t.Fatal(err)
		}
		o := own()
		return o[len(o)-1].Index == newest.Index // else one was due
	})
	if p := idle.Problems(); len(p) > 0 {
		t.Errorf("nothing was written since the last backup, and it says %q", p)
	}
	if err := os.Rename(to, to+"-gone"); err != nil {
		t.Fatal(err)
	}
	b.eventually("two missed are a problem", func() bool { return slices.ContainsFunc(n.problems(), missed) })
}
