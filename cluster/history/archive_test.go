package history

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/snapshot/archive"
)

func TestArchive_whatCannotBeWrittenIsReported(t *testing.T) {
	t.Parallel()
	r := newRig(t, "n1")
	n := r.nodes["n1"]
	r.submit("held", 3)
	r.cancel("held", 3)
	n.Archive.mu.Lock()
	n.Archive.failing = errors.New("no space left on device")
	n.Archive.mu.Unlock()
	if p := n.Archive.Problems(); len(p) != 1 || !strings.Contains(p[0], "no space left") {
		t.Fatalf("%q", p)
	}
	if s := n.ArchiveStatus(); s.Staged != 3 || s.Records != 0 {
		t.Fatalf("%+v", s)
	}
	if err := n.Archive.Flush(); err != nil {
		t.Fatal(err)
	}
	if p := n.Archive.Problems(); len(p) != 0 {
		t.Fatalf("%q", p)
	}
	if s := n.ArchiveStatus(); s.Staged != 0 || s.Records != 3 {
		t.Fatalf("%+v", s)
	}
	if _, known, err := n.EndState("held-2"); !known || err != nil {
		t.Errorf("%v, %v", known, err)
	}
}

// TestArchive_whatIsReplayedIsNotLate: a node that has just started holds jobs that ended long ago, as after replaying
// its log. It counts as late only once it has been up for long.
func TestArchive_whatIsReplayedIsNotLate(t *testing.T) {
	t.Parallel()
	r := newRig(t, "n1")
	n := r.nodes["n1"]
	r.submit("old", 3)
	r.cancel("old", 3)
	for i := range 2 * int(archiveLate/time.Second) { // an entry advances the clock by at most a second
		r.later += time.Second / 2
		r.submit(fmt.Sprint("new", i), 1)
	}
	if s := n.ArchiveStatus(); s.LagMs <= archiveLate.Milliseconds() {
		t.Fatalf("%+v", s)
	}
	if p := n.Archive.Problems(); len(p) != 0 {
		t.Errorf("a node that has just come up reports %q", p)
	}
	n.up.Store(int64(archiveLate + time.Second))
	if p := n.Archive.Problems(); len(p) != 1 || !strings.Contains(p[0], "archive is 30 s behind with 3 ended jobs") {
		t.Errorf("a node that has been up for long reports %q", p)
	}
}

// TestArchive_whatNobodyHasIsGone: a record that a node lacks is fetched while another node has it, and counted as lost
// only if no node has it.
func TestArchive_whatNobodyHasIsGone(t *testing.T) {
	t.Parallel()
	r := newRig(t, "n1", "n2")
	n, other := r.nodes["n1"], r.nodes["n2"]
	r.submit("j", 3)
	r.cancel("j", 3)
	if err := errors.Join(n.Archive.Flush(), other.Archive.Flush(), n.file.Jobs.Drop([]uint64{2})); err != nil {
		t.Fatal(err)
	}
	if page, err := n.List(t.Context(), rota.JobFilter{}, n.head().Index, false, nil); err != nil ||
		len(page.Jobs) != 3 {
		t.Fatalf("%d jobs, %v", len(page.Jobs), err)
	}
	for n.fetchOnce() {
	}
	if s := n.ArchiveStatus(); s.Lacking != 0 || s.Records != 3 || s.Lost != 0 {
		t.Fatalf("%+v", s)
	}
	if err := errors.Join(n.file.Jobs.Drop([]uint64{2}), other.file.Jobs.Drop([]uint64{2})); err != nil {
		t.Fatal(err)
	}
	for n.fetchOnce() {
	}
	if s := n.ArchiveStatus(); s.Lacking != 0 || s.Records != 2 || s.Lost != 1 {
		t.Fatalf("%+v", s)
	}
}

// The last bytes of a disk are reserved for the log: history waits in memory, and is written once there is room.
func TestHistory_leavesTheLogRoom(t *testing.T) {
	t.Parallel()
	r := newRig(t, "n1")
	n := r.nodes["n1"]
	r.submit("held", 3)
	r.cancel("held", 3)
	n.room.Store(0)
	n.Events.Flush()
	if err := n.Archive.Flush(); rota.KindOf(err) != rota.KindExhausted {
		t.Fatalf("flushed: %v", err)
	}
	if s := n.ArchiveStatus(); s.Staged != 3 || s.Records != 0 || len(n.Archive.Problems()) != 1 ||
		len(n.Events.Problems()) != 1 {
		t.Fatalf("%+v, %q, %q", s, n.Archive.Problems(), n.Events.Problems())
	}
	n.room.Store(1)
	n.Events.Flush()
	if err := n.Archive.Flush(); err != nil {
		t.Fatal(err)
	}
	if s := n.ArchiveStatus(); s.Staged != 0 || s.Records != 3 || len(n.Archive.Problems()) != 0 ||
		len(n.Events.Problems()) != 0 {
		t.Fatalf("%+v, %q, %q", s, n.Archive.Problems(), n.Events.Problems())
	}
}

// TestReadOnly_checksThePages damages a page in a way that bbolt does not notice.
func TestReadOnly_checksThePages(t *testing.T) {
	t.Parallel()
	r := newRig(t, "n1")
	r.submit("a", 3)
	r.cancel("a", 3)
	r.onDisk(r.nodes["n1"])
	path := r.nodes["n1"].file.DB.Path()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if path = filepath.Join(t.TempDir(), archive.FileName); os.WriteFile(path, data, 0o600) != nil {
		t.Fatal("write the copy")
	}
	ended, err := ReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	_ = ended.Close()
	for at := 2 * os.Getpagesize(); at < len(data); at += os.Getpagesize() {
		if binary.NativeEndian.Uint16(data[at+8:]) == 2 { // a leaf
			data[at+12] ^= 1 // its number of further pages
		}
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadOnly(path); rota.KindOf(err) != rota.KindConflict || !strings.Contains(err.Error(), path) {
		t.Errorf("a damaged page: %v", err)
	}
}
