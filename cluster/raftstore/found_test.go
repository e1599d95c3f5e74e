package raftstore

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rotasched/rota"
)

// TestPreflight_seesMetaDataThatChanged flips a bit in the members listed in a snapshot's metadata: raft would trust
// them.
func TestPreflight_seesMetaDataThatChanged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := writeSnapshot(t, dir, 3, 100)
	meta := filepath.Join(path, snapshotMeta)
	data, err := os.ReadFile(meta)
	if err != nil {
		t.Fatal(err)
	}
	found := &snapshotFound{path: path, term: 3, index: 100}
	if err := replaceFile(filepath.Join(path, snapshotSeal), []byte(metaSum(data)+"\n")); err != nil ||
		found.examine(true) != "" {
		t.Fatal(err, found.examine(true))
	}
	flipByte(t, meta, int64(bytes.Index(data, []byte("ConfigurationIndex")))+1)
	if damage := found.examine(true); !strings.Contains(damage, "checksum") {
		t.Errorf("it is accepted as sound: %q", damage)
	}
}

// TestDataDir_seesThatItsRecordChanged damages a field's name, which JSON reads as a field that was never set.
func TestDataDir_seesThatItsRecordChanged(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "d")
	d, err := OpenDataDir(dir, "n1", "test", false)
	if err != nil {
		t.Fatal(err)
	}
	if err = d.SetRebuild(RebuildRecord{Open: true, At: 7}); err != nil {
		t.Fatal(err)
	}
	_ = d.Close()
	path := filepath.Join(dir, nodeFile)
	data, _ := os.ReadFile(path)
	flipByte(t, path, int64(bytes.Index(data, []byte(`"rebuild"`)))+1)
	if _, err := OpenDataDir(dir, "n1", "test", false); rota.KindOf(err) != rota.KindConflict ||
		!strings.Contains(err.Error(), "checksum") {
		t.Errorf("it is accepted as sound: %v", err)
	}
}
