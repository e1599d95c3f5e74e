package raftstore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/raft"
)

// The layout of raft.FileSnapshotStore.
const (
	snapshotsDir    = "snapshots"
	snapshotMeta    = "meta.json"
	snapshotState   = "state.bin"
	snapshotTemp    = ".tmp"
	snapshotMetaMax = 4 << 20
	// snapshotsAside is the directory for damaged snapshots that are not needed.
	snapshotsAside = "snapshots-damaged"
)

// snapshotFound is the directory of one snapshot.
type snapshotFound struct {
	path        string
	term, index uint64
	// damage is empty for a whole snapshot, and for one whose state was not read because a newer one is whole.
	damage string
}

// surveySnapshots lists the snapshots, newest first, and reads them until one is whole. unfinished names directories
// that never became a snapshot.
func surveySnapshots(dir string) (all []*snapshotFound, unfinished []string, err error) {
	base := filepath.Join(dir, snapshotsDir)
	names, err := os.ReadDir(base)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("list snapshots: %w", err)
	}
	for _, name := range names {
		path := filepath.Join(base, name.Name())
		switch {
		case !name.IsDir():
			continue
		case strings.HasSuffix(name.Name(), snapshotTemp):
			unfinished = append(unfinished, name.Name())
			continue
		}
		found, ok := snapshotAt(path)
		if !ok {
			return nil, nil, damaged(path, "its name is not that of a snapshot (term-index-time), so its content is "+
				"unknown. If it is a directory of your own, put it elsewhere and start again")
		}
		all = append(all, found)
	}
	slices.SortFunc(all, func(a, b *snapshotFound) int {
		if a.term != b.term {
			return compareDown(a.term, b.term)
		}
		if a.index != b.index {
			return compareDown(a.index, b.index)
		}
		return strings.Compare(b.path, a.path)
	})
	whole := false
	for _, found := range all {
		found.damage = found.examine(!whole)
		whole = whole || found.damage == ""
	}
	return all, unfinished, nil
}

// reap removes unfinished snapshots: hashicorp/raft leaves them behind after a failure and never looks at them again.
func reap(dir string, unfinished []string, report *Report) error {
	for _, name := range unfinished {
		if err := os.RemoveAll(filepath.Join(dir, snapshotsDir, name)); err != nil {
			return fmt.Errorf("remove unfinished snapshot: %w", err)
		}
		report.Reaped = append(report.Reaped, name)
	}
	return nil
}

// snapshotAt parses the name of a snapshot's directory, and reports whether it is one.
func snapshotAt(path string) (*snapshotFound, bool) {
	found := &snapshotFound{path: path}
	var msec uint64
	n, _ := fmt.Sscanf(filepath.Base(path), "%d-%d-%d", &found.term, &found.index, &msec)
	return found, n == 3
}

func compareDown(a, b uint64) int {
	if a > b {
		return -1
	}
	return 1
}

// examine returns the faults of a snapshot: of its metadata and size and, if state is set, of its state.
func (s *snapshotFound) examine(state bool) (damage string) {
	data, err := readSmallFile(filepath.Join(s.path, snapshotMeta), snapshotMetaMax)
	if err != nil {
		return fmt.Sprintf("its meta data cannot be read (%v)", err)
	}
	if damage := metaDamage(s.path, data); damage != "" {
		return damage
	}
	var meta struct {
		raft.SnapshotMeta
		CRC []byte
	}
	if err := json.Unmarshal(data, &meta); err != nil {
		return fmt.Sprintf("its meta data cannot be read (%v)", err)
	}
	if meta.ID != filepath.Base(s.path) || meta.Index != s.index || meta.Term != s.term {
		return fmt.Sprintf("its meta data is that of snapshot %q", meta.ID)
	}
	if meta.Version < raft.SnapshotVersionMin || meta.Version > raft.SnapshotVersionMax {
		return fmt.Sprintf("its version is %d", meta.Version)
	}
	file, err := os.Open(filepath.Join(s.path, snapshotState))
	if err != nil {
		return fmt.Sprintf("its state cannot be read (%v)", err)
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || info.Size() != meta.Size {
		return fmt.Sprintf("its state is not %d bytes long", meta.Size)
	}
	if !state {
		return ""
	}
	sum := crc64.New(crc64.MakeTable(crc64.ECMA))
	if _, err := io.Copy(sum, file); err != nil {
		return fmt.Sprintf("its state cannot be read (%v)", err)
	}
	if !bytes.Equal(sum.Sum(nil), meta.CRC) {
		return "its state does not match its checksum"
	}
	return ""
}

// setAside moves damaged snapshots that are not needed to where raft does not see them: raft would keep sending the
// newest to followers, whole or not.
func setAside(dir string, snapshots []*snapshotFound, report *Report, logger *slog.Logger) error {
	for _, found := range snapshots {
		if found.damage == "" {
			continue
		}
		name := filepath.Base(found.path)
		to, err := moveAside(dir, name)
		if err != nil {
			return err
		}
		report.SetAside = append(report.SetAside, name)
		logger.Error("a snapshot is damaged; the one before it and the log are used",
			"snapshot", name, "damage", found.damage, "moved", to, "index", report.SnapshotIndex)
	}
	if len(report.SetAside) == 0 {
		return nil
	}
	return syncAside(dir)
}
