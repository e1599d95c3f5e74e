package raftstore

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/logs"
)

// snapshotSeal is the file next to a snapshot's metadata that holds its checksum: CRC32C in 8 hex digits. The metadata
// hold the members of the cluster, and hashicorp/raft trusts them: one flipped bit is a different voter. A snapshot
// without the file comes from a crash before its end, and is trusted.
const snapshotSeal = "meta.sum"

// snapshotsKept is the number of snapshots kept: if the newest is damaged, the previous one is used.
const snapshotsKept = 3

// Snapshots is raft's snapshot store with sealed metadata.
type Snapshots struct {
	*raft.FileSnapshotStore
	data   string
	room   func() uint64
	newest atomic.Pointer[Kept]
}

// Kept describes a stored snapshot: its index, when it was begun by this node's wall clock, and the bytes of its state.
type Kept struct {
	Index rota.Index
	Date  rota.Date
	Bytes int64
}

// Newest returns the newest snapshot, the zero value for none. It does not read the disk.
func (s *Snapshots) Newest() Kept {
	if k := s.newest.Load(); k != nil {
		return *k
	}
	return Kept{}
}

// look finds the newest snapshot on the disk.
func (s *Snapshots) look() {
	kept, err := s.List()
	if err != nil {
		return // unchanged: faults of the disk are reported elsewhere
	}
	newest := Kept{}
	if len(kept) > 0 {
		newest = Kept{Index: rota.Index(kept[0].Index), Bytes: kept[0].Size}
		date, _ := strconv.ParseInt(kept[0].ID[strings.LastIndexByte(kept[0].ID, '-')+1:], 10,
			64) // term-index-milliseconds
		newest.Date = rota.Date(date)
	}
	s.newest.Store(&newest)
}

// OpenSnapshots opens or creates the snapshots in a data directory. Writing a snapshot fails once room returns 0: the
// rest of the disk is for the log. nil means unlimited room.
func OpenSnapshots(data string, log *slog.Logger, room func() uint64) (*Snapshots, error) {
	files, err := raft.NewFileSnapshotStoreWithLogger(data, snapshotsKept, logs.ForRaft(log))
	if room == nil {
		room = func() uint64 { return math.MaxUint64 }
	}
	s := &Snapshots{FileSnapshotStore: files, data: data, room: room}
	if err == nil {
		s.look()
	}
	return s, err
}

// Create implements raft.SnapshotStore.
func (s *Snapshots) Create(version raft.SnapshotVersion, index, term uint64, members raft.Configuration,
	membersIndex uint64,
	transport raft.Transport) (raft.SnapshotSink, error) {
	sink, err := s.FileSnapshotStore.Create(version, index, term, members, membersIndex, transport)
	if err != nil {
		return nil, err
	}
	return &snapshotSink{sink, s, s.dir(sink.ID()), 0}, nil
}

// dir returns the directory of a snapshot.
func (s *Snapshots) dir(id string) string { return filepath.Join(s.data, snapshotsDir, id) }

// StateFile returns the path of a snapshot's state.
func (s *Snapshots) StateFile(id string) string { return filepath.Join(s.dir(id), snapshotState) }

// StateFiles returns the paths of the states of all snapshots in a data directory.
func StateFiles(data string) ([]string, error) {
	return filepath.Glob(filepath.Join(data, snapshotsDir, "*", snapshotState))
}

// Verify reads every snapshot and calls each with its id and its damage, empty for a whole one, until each returns
// false.
func (s *Snapshots) Verify(each func(id, damage string) bool) error {
	names, err := os.ReadDir(s.dir(""))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, name := range names {
		if !name.IsDir() || strings.HasSuffix(name.Name(), snapshotTemp) {
			continue
		}
		found, ok := snapshotAt(s.dir(name.Name()))
		if !ok {
			continue // Preflight left it alone
		}
		damage := found.examine(true)
		if _, err := os.Stat(found.path); err != nil {
			continue // reaped in the meantime
		}
		if !each(name.Name(), damage) {
			return nil
		}
	}
	return nil
}

// SetAside moves snapshots to where raft does not see them, and returns their new paths.
func (s *Snapshots) SetAside(ids ...string) (moved []string, err error) {
	for _, id := range ids {
		to, err := moveAside(s.data, id)
		if err != nil {
			return moved, err
		}
		moved = append(moved, to)
	}
	if len(ids) == 0 {
		return nil, nil
	}
	s.look()
	return moved, syncAside(s.data)
}

// moveAside moves a snapshot to where raft does not look, and returns its new path.
func moveAside(data, id string) (to string, err error) {
	to = filepath.Join(data, snapshotsAside, id)
	if err = os.MkdirAll(filepath.Dir(to), 0o700); err == nil {
		err = errors.Join(os.RemoveAll(to), os.Rename(filepath.Join(data, snapshotsDir, id), to))
	}
	if err != nil {
		return "", fmt.Errorf("set snapshot aside: %w", err)
	}
	return to, nil
}

// syncAside makes the moves durable.
func syncAside(data string) error {
	return errors.Join(syncDir(filepath.Join(data, snapshotsDir)), syncDir(filepath.Join(data, snapshotsAside)))
}

type snapshotSink struct {
	raft.SnapshotSink
	of   *Snapshots
	path string
	// unseen is the number of bytes written since the free room was last checked.
	unseen int
}

// snapshotLook is how many bytes of a snapshot are written between two checks of the disk.
const snapshotLook = 1 << 20

// Write implements raft.SnapshotSink.
func (s *snapshotSink) Write(p []byte) (int, error) {
	if s.unseen += len(p); s.unseen >= snapshotLook {
		if s.of.room() == 0 {
			return 0, rota.Refusef(rota.KindExhausted, "disk",
				"the snapshot has no room, the rest of the disk is the log's: free space "+
					"there, or enlarge the disk")
		}
		s.unseen = 0
	}
	return s.SnapshotSink.Write(p)
}

// Close implements raft.SnapshotSink.
func (s *snapshotSink) Close() error {
	failpointSnapshot(s.SnapshotSink)
	if err := s.SnapshotSink.Close(); err != nil {
		return err
	}
	s.of.look()
	data, err := os.ReadFile(filepath.Join(s.path, snapshotMeta))
	if err == nil {
		err = replaceFile(filepath.Join(s.path, snapshotSeal), []byte(metaSum(data)+"\n"))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // otherwise it was reaped already
		return fmt.Errorf("seal snapshot: %w", err)
	}
	return nil
}

func metaSum(data []byte) string {
	return fmt.Sprintf("%08x", crc32.Checksum(data, castagnoli))
}

// metaDamage returns how the metadata differ from the seal, empty if there is no seal or they match.
func metaDamage(dir string, data []byte) string {
	sum, err := readSmallFile(filepath.Join(dir, snapshotSeal), 64)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		return fmt.Sprintf("the checksum of its meta data cannot be read (%v)", err)
	}
	if strings.TrimSpace(string(sum)) != metaSum(data) {
		return "its meta data does not match its checksum"
	}
	return ""
}
