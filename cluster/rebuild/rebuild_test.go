package rebuild

import (
	"log/slog"
	"testing"
	"time"

	"github.com/rotasched/rota/cluster/raftstore"
)

// TestRebuild_endIsOfItsOwnRecord: end overwrites only its own record.
func TestRebuild_endIsOfItsOwnRecord(t *testing.T) {
	t.Parallel()
	data, err := raftstore.OpenDataDir(t.TempDir(), "n1", "test", false)
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	rb := New(Host{Log: slog.New(slog.DiscardHandler), Disk: Disk{Data: data}, Wall: time.Now,
		State: State{Dropped: func() bool { return false }}})
	first, second := raftstore.RebuildRecord{Open: true, At: 5}, raftstore.RebuildRecord{Open: true, At: 9, Again: 1}
	if err := data.SetRebuild(second); err != nil {
		t.Fatal(err)
	}
	if err := rb.end(first); err != nil || data.Rebuild() != second || rb.done != 0 {
		t.Errorf("%+v, %v", data.Rebuild(), err)
	}
	if err := rb.end(second); err != nil || data.Rebuild().Open || rb.done != 1 {
		t.Errorf("%+v, %v", data.Rebuild(), err)
	}
}
