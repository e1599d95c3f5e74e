package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// A node's newest snapshot that is damaged is set aside, and the one before it used with the log behind it. No flag
// sets how often snapshots are made, so this makes entries until there are two.
func TestDamagedNewestSnapshot(t *testing.T) {
	long(t)
	t.Parallel()
	c := newCluster(t, 1, "--snapshot-entries", "256", "--snapshot-every", "1s")
	n := c.all[0]
	marked := submitTo(t, c.dial(t), "default", "marked", 10)
	busy := launch(t, "bench jobs", []string{c.env()}, "bench", "jobs", "--jobs", "500000", "--batch", "1",
		"--producers", "4", "--workers", "4", "--slots", "1")
	eventually(t, 4*time.Minute, "two snapshots are there", func() error {
		if !busy.Running() {
			t.Fatal("the measurement ended early")
		}
		if found := snapshots(t, n.Dir); len(found) < 2 {
			return fmt.Errorf("%d snapshots", len(found))
		}
		return nil
	})
	busy.Signal(syscall.SIGTERM)
	busy.end(t, 30*time.Second)
	late := submitTo(t, c.dial(t), "default", "late", 10)
	n.Kill()

	newest := snapshots(t, n.Dir)[0]
	path := filepath.Join(newest, "state.bin")
	state, err := os.ReadFile(path)
	check(t, err)
	state[len(state)/2] ^= 0x04
	check(t, os.WriteFile(path, state, 0o600))
	n.start(t)
	n.awaitReady(t)
	contains(t, "the node", n.Stderr.String(), "damaged", filepath.Base(newest))
	if slices.Contains(snapshots(t, n.Dir), newest) {
		t.Error("the damaged snapshot is still among the others")
	}
	for _, id := range append(marked, late...) {
		if job := c.job(t, string(id)); job.State != rota.JobQueued {
			t.Errorf("job %s is %s", id, job.State)
		}
	}
	submitTo(t, c.dial(t), "default", "after", 10)
	c.verified(t, 1)
}

// snapshots lists a node's snapshots, newest first.
func snapshots(t *testing.T, dir string) []string {
	t.Helper()
	found, err := os.ReadDir(filepath.Join(dir, "snapshots"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	type one struct {
		path        string
		term, index uint64
	}
	var all []one
	for _, entry := range found {
		s := one{path: filepath.Join(dir, "snapshots", entry.Name())}
		var at uint64
		if k, _ := fmt.Sscanf(entry.Name(), "%d-%d-%d", &s.term, &s.index, &at); k == 3 &&
			!strings.HasSuffix(entry.Name(), ".tmp") {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b one) int { return int(b.index) - int(a.index) })
	var paths []string
	for _, s := range all {
		paths = append(paths, s.path)
	}
	return paths
}
