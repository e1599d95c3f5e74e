package audit

import (
	"os"
	"path/filepath"
	"testing"
)

// TestAuditKeep checks which snapshots are kept as new ones are offered.
func TestAuditKeep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "state")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := Open(dir, 1_000, 1, nil)
	if err != nil || k.Floor() != 1 {
		t.Fatalf("a log from its beginning: floor %d, %v", k.Floor(), err)
	}
	for i := uint64(1); i <= 40; i++ {
		if err := k.offer(file, state{i * 10, i * 100}); err != nil {
			t.Fatal(err)
		}
		oldest := k.list[0]
		if got := i*100 - oldest.operations; i > 14 && (got < 1_000 || got > 1_400) {
			t.Fatalf("at %d operations the oldest state is %d back", i*100, got)
		}
		if len(k.list) > 6 {
			t.Fatalf("%d states are kept", len(k.list))
		}
	}
	again, err := Open(dir, 1_000, k.Floor(), nil)
	if err != nil || again.Floor() != k.Floor() || len(again.list) != len(k.list) {
		t.Fatalf("after a restart: floor %d of %d, %v", again.Floor(), k.Floor(), err)
	}
	if _, ok := again.before(1); ok {
		t.Error("a state before all kept ones was found")
	}
	if s, ok := again.before(399); !ok || s.index > 399 {
		t.Errorf("state %v for index 399", s)
	}
	if _, ok := again.pin(); !ok {
		t.Fatal("no state to pin")
	}
	floor := again.Floor()
	if err := again.offer(file, state{9_000, 90_000}); err != nil || again.Floor() != floor {
		t.Fatalf("a pinned state is gone: %v", err)
	}
	again.unpin()
	if err := again.offer(file, state{9_500, 92_000}); err != nil || again.Floor() != 9_001 {
		t.Fatalf("an old state stays: floor %d, %v", again.Floor(), err)
	}
	if err := again.Reset(); err != nil || again.Floor() != 0 {
		t.Fatal("a reset keeps a state")
	}
	left, err := os.ReadDir(filepath.Join(dir, Dir))
	if err != nil || len(left) != 0 {
		t.Fatalf("%d files stay, %v", len(left), err)
	}
}
