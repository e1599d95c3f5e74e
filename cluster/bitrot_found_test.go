package cluster

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/rotasched/rota"
)

// TestScrub_mendsADamagedMark damages what finds an ended job by its id: the record is
// whole, and nobody would be told of it.
func TestScrub_mendsADamagedMark(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	n := b.leader()
	submitAll(t, n, specs("a", 5))
	ids := make([]rota.JobID, 5)
	for i := range ids {
		ids[i] = rota.JobID(fmt.Sprintf("a-%05d", i))
	}
	if _, err := n.Cancel(within(t, ample), ids); err != nil {
		t.Fatal(err)
	}
	f := b.follower()
	b.eventually("all are archived", func() bool { _ = f.flushHistory(); return f.ArchiveStatus().Records == 5 })
	if err := f.archiveDB.Update(func(tx *bbolt.Tx) error {
		marks := tx.Bucket([]byte("jobs.ids"))
		k, v := marks.Cursor().Last()
		v = bytes.Clone(v)
		at := bytes.LastIndex(v, []byte(ids[4])) + len(ids[4]) + 2 // behind the mark's length
		v[at] ^= 1                                                 // of the number: a later end that there never was
		return marks.Put(bytes.Clone(k), v)
	}); err != nil {
		t.Fatal(err)
	}
	f.scrubOnce()
	if damages(f, scrubArchive) != 1 {
		t.Fatalf("%d damaged records", damages(f, scrubArchive))
	}
	b.eventually("the record is found again", func() bool {
		_, ok, err := f.history.store.Get(ids[4])
		return ok && err == nil && f.ArchiveStatus().Lacking == 0
	})
}

// TestOpen_refusesADamagedArchive damages a page's header, over which bbolt would end
// the process.
func TestOpen_refusesADamagedArchive(t *testing.T) {
	t.Parallel()
	sound := rotten(t)
	places := boltPlaces(sound.files["archive.db"])["leaf headers"]
	got := sound.open(t, t.TempDir(), &rotSpot{file: "archive.db", how: "bit", at: places[len(places)-8], bit: 1})
	if rota.KindOf(got.err) != rota.Conflict || !strings.Contains(got.err.Error(), "Move it away") {
		t.Errorf("%v, panic %v", got.err, got.panicked)
	}
}

// TestPreflight_seesMetaDataThatChanged flips a bit in the members that a snapshot's
// meta data name: raft would believe it.
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
	if err := replaceFile(filepath.Join(path, snapshotSeal), []byte(metaSum(data)+"\n")); err != nil || found.examine(true) != "" {
		t.Fatal(err, found.examine(true))
	}
	flipByte(t, meta, int64(bytes.Index(data, []byte("ConfigurationIndex")))+1)
	if damage := found.examine(true); !strings.Contains(damage, "checksum") {
		t.Errorf("it is taken for whole: %q", damage)
	}
}

// TestDataDir_seesThatItsRecordChanged takes a field's name away, which JSON reads as a
// field that was never set.
func TestDataDir_seesThatItsRecordChanged(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "d")
	d, err := OpenDataDir(dir, "n1", "test", false)
	if err != nil {
		t.Fatal(err)
	}
	if err = d.SetRebuild(rebuildRecord{Open: true, At: 7}); err != nil {
		t.Fatal(err)
	}
	_ = d.Close()
	path := filepath.Join(dir, nodeFile)
	data, _ := os.ReadFile(path)
	flipByte(t, path, int64(bytes.Index(data, []byte(`"rebuild"`)))+1)
	if _, err := OpenDataDir(dir, "n1", "test", false); rota.KindOf(err) != rota.Conflict || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("it is taken for whole: %v", err)
	}
}
