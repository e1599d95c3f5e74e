package cluster

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/raft"

	"github.com/rotasched/rota/internal/logs"
)

// snapshotSeal is the file beside a snapshot's meta data with its checksum: CRC32C
// in 8 hex digits. The meta data hold the members of the cluster, and hashicorp/raft
// believes them: one flipped bit is another voter. One without the file is of a crash
// before its end, and is believed.
const snapshotSeal = "meta.sum"

// snapshotStore is raft's store of snapshots, which seals their meta data.
type snapshotStore struct {
	*raft.FileSnapshotStore
	dir string
}

func openSnapshots(data string, log *slog.Logger) (*snapshotStore, error) {
	files, err := raft.NewFileSnapshotStoreWithLogger(data, snapshotsKept, logs.ForRaft(log))
	return &snapshotStore{files, filepath.Join(data, snapshotsDir)}, err
}

// Create implements raft.SnapshotStore.
func (s *snapshotStore) Create(version raft.SnapshotVersion, index, term uint64, members raft.Configuration, membersIndex uint64,
	transport raft.Transport) (raft.SnapshotSink, error) {
	sink, err := s.FileSnapshotStore.Create(version, index, term, members, membersIndex, transport)
	if err != nil {
		return nil, err
	}
	return &snapshotSink{sink, filepath.Join(s.dir, sink.ID())}, nil
}

type snapshotSink struct {
	raft.SnapshotSink
	path string
}

// Close implements raft.SnapshotSink.
func (s *snapshotSink) Close() error {
	failpointSnapshot(s.SnapshotSink)
	if err := s.SnapshotSink.Close(); err != nil {
		return err
	}
	data, err := os.ReadFile(filepath.Join(s.path, snapshotMeta))
	if err == nil {
		err = replaceFile(filepath.Join(s.path, snapshotSeal), []byte(metaSum(data)+"\n"))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // else it is reaped already
		return fmt.Errorf("seal snapshot: %w", err)
	}
	return nil
}

func metaSum(data []byte) string {
	return fmt.Sprintf("%08x", crc32.Checksum(data, castagnoli))
}

// metaDamage says what does not match the seal, nothing where there is none.
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
