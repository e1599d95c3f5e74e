package cluster

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/rotasched/rota"
)

// TestScrub_mendsADamagedMark damages the index entry of an ended job: the record is whole, but would not be found by
// its id.
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
	b.eventually("all are archived", func() bool { _ = f.archive.Flush(); return f.ArchiveStatus().Records == 5 })
	if err := f.historyFile.DB.Update(func(tx *bbolt.Tx) error {
		marks := tx.Bucket([]byte("jobs.ids"))
		k, v := marks.Cursor().Last()
		v = bytes.Clone(v)
		at := bytes.LastIndex(v, []byte(ids[4])) + len(ids[4]) + 2 // after the mark's length
		v[at] ^= 1                                                 // of the number: a later end that never existed
		return marks.Put(bytes.Clone(k), v)
	}); err != nil {
		t.Fatal(err)
	}
	f.scrub.Pass()
	if damages(f, "archive") != 1 {
		t.Fatalf("%d damaged records", damages(f, "archive"))
	}
	b.eventually("the record is found again", func() bool {
		_, ok, err := f.historyFile.Jobs.Get(ids[4])
		return ok && err == nil && f.ArchiveStatus().Lacking == 0
	})
}

// TestOpen_refusesADamagedArchive damages a page's header, which would make bbolt end the process.
func TestOpen_refusesADamagedArchive(t *testing.T) {
	t.Parallel()
	sound := rotten(t)
	places := boltPlaces(sound.files["archive.db"])["leaf headers"]
	got := sound.open(t, t.TempDir(), &rotSpot{file: "archive.db", how: "bit", at: places[len(places)-8], bit: 1})
	if rota.KindOf(got.err) != rota.KindConflict || !strings.Contains(got.err.Error(), "Move it away") {
		t.Errorf("%v, panic %v", got.err, got.panicked)
	}
}
