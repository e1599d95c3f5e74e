package e2e

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// A node whose disk is full stops serving and reports why; the others go on; it is back once it is started with free
// space.
func TestFullDisk(t *testing.T) {
	long(t)
	t.Parallel()
	dir := smallDisk(t, "64m")
	c := &nodes{t: t}
	for _, id := range []string{"n1", "n2", "n3"} {
		c.all = append(c.all, newNode(t, id, "--bootstrap-expect", "3"))
	}
	small := c.all[0]
	small.Dir = filepath.Join(dir, "data")
	small.Flags = append(small.Flags, "--disk-low", "10", "--disk-critical", "5")
	for _, n := range c.all {
		n.Flags = append(n.Flags, c.joins(n)...)
		n.start(t)
	}
	c.awaitReady()
	c.rota(t, "operator", "raft", "transfer-leadership", "--to", small.ID) // the worst place for it
	l := startLoad(t, c, "load", 4, 2, 5*time.Millisecond)
	l.flows(t, 100)
	// A leader that checks its disk between the last byte and its end refuses new jobs and reports when to retry, which
	// is correct.
	l.Allow(func(err error) bool {
		var e *rota.Error
		return errors.As(err, &e) && e.Kind == rota.KindExhausted && e.Subject == "disk" && e.RetryAfter > 0 &&
			strings.Contains(e.Text, small.Dir)
	})

	filled := time.Now()
	ballast := fill(t, filepath.Join(dir, "ballast"))
	bulk := filepath.Join(t.TempDir(), "bulk")
	writeFile(t, bulk, string(make([]byte, 200<<10)))
	for i := 0; small.Running() && time.Since(filled) < 90*time.Second; i++ {
		c.rota(t, "job", "submit", "--type", "bulk", "--payload", "@"+bulk, "--timeout", "20s")
	}
	if code := small.end(t, 30*time.Second); code == 0 {
		t.Error("a node without disk space ended with exit code 0")
	}
	contains(t, "the last words", small.Stderr.String(), "full", "free space")
	l.flows(t, 100)
	t.Logf("longest time without a committed job around the full disk: %s", l.Gap(filled))

	check(t, os.Remove(ballast))
	small.start(t)
	small.awaitReady(t)
	l.settle(c)
	c.verified(t, 3)
}

// smallDisk mounts a file system of that size.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a full disk is made by mounting a small one, which requires root")
	}
	dir := t.TempDir()
	if said, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "tmpfs",
		dir).CombinedOutput(); err != nil {
		t.Skipf("no small disk: mount: %v: %s", err, said)
	}
	t.Cleanup(func() {
		if said, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, said)
		}
	})
	return dir
}

// fill writes a file until no byte is free.
func fill(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Create(path)
	check(t, err)
	defer f.Close()
	_, err = io.Copy(f, zeros{})
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk does not fill: %v", err)
	}
	return path
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
