package virtual

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"sync"
	"testing"
	"time"
)

// The size of a run: virtual time in total, divided into lives of maxLife, as many at once as there are cores.
// ROTA_VIRTUAL=100h sets another one, ROTA_VIRTUAL_SEED another first seed; make test runs a core of it.
const (
	coreLength = 30 * time.Minute
	maxLife    = 30 * time.Minute
)

func TestLives(t *testing.T) {
	length, first := coreLength, uint64(1)
	if v := os.Getenv("ROTA_VIRTUAL"); v != "" {
		d, err := time.ParseDuration(v)
		if err != nil {
			t.Fatalf("ROTA_VIRTUAL: got %q, want a duration such as 10h", v)
		}
		length = d
	}
	if v := os.Getenv("ROTA_VIRTUAL_SEED"); v != "" {
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			t.Fatalf("ROTA_VIRTUAL_SEED: got %q, want a number", v)
		}
		first = n
	}
	// Garbage is cheap here and collection is expensive: lives are small.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	var mu sync.Mutex
	var all figures
	began, asked := time.Now(), length
	t.Run("lives", func(t *testing.T) {
		for seed := first; length > 0; seed++ {
			one := min(length, maxLife)
			length -= one
			t.Run(fmt.Sprintf("seed-%d", seed), func(t *testing.T) {
				t.Parallel()
				f := runLife(t, options{seed: seed, nodes: nodesOf(seed), workers: 4, users: 2, length: one})
				mu.Lock()
				defer mu.Unlock()
				all.add(f)
			})
		}
	})
	fmt.Printf("%s, in %s\n", all.String(), time.Since(began).Round(time.Second))
	if short := all.short(asked); short != "" && !t.Failed() {
		t.Error(short)
	}
}

// nodesOf returns the number of nodes: five in every fifth cluster.
func nodesOf(seed uint64) int {
	if seed%5 == 0 {
		return 5
	}
	return 3
}

// runLife runs one life in a bubble of its own.
func runLife(t *testing.T, o options) (f figures) {
	t.Helper()
	o.dir, o.log = memoryDir(t), slog.New(slog.DiscardHandler)
	if dir := os.Getenv("ROTA_VIRTUAL_LOG"); dir != "" {
		file, err := os.Create(filepath.Join(dir, fmt.Sprintf("seed-%d.log", o.seed)))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		o.log = slog.New(slog.NewTextHandler(file, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	var found []string
	inBubble(t, func(*testing.T) {
		l := newLife(o)
		l.live()
		f, found = l.figures, l.violations
	})
	for _, v := range found { // reported here, because a bubble that failed would end the test
		t.Errorf("seed %d, %s", o.seed, v)
	}
	return f
}

// memoryDir returns a directory in memory if the system has one: otherwise the syncs of a node's snapshots and its own
// record would take most of the time.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "rota-virtual-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
