package recovery

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/raftstore"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/snapshot"
	"github.com/rotasched/rota/snapshot/archive"
)

// RestoreOptions configures RestoreBackup.
type RestoreOptions struct {
	// Backup opens the backup.
	Backup snapshot.Opener
	// Data is an empty or absent directory.
	Data string
	// Node will own the directory, in the cluster of this name, at this Raft address.
	Node    rota.NodeID
	Cluster string
	Raft    string
	// KeepTokens keeps the backup's access tokens valid. One that was revoked after the backup would be valid again.
	KeepTokens bool
	Log        *slog.Logger
}

// RestoreBackup restores a backup into a fresh data directory (SPEC §13.5): a new cluster of one node with a new id.
// All leases are void and the incarnation rises, so that no earlier token is ever issued again (SPEC §8.6).
func RestoreBackup(o RestoreOptions) (rota.SnapshotInfo, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	m, err := loadState(o.Backup)
	if err != nil {
		return rota.SnapshotInfo{}, err
	}
	data, err := raftstore.OpenDataDir(o.Data, o.Node, o.Cluster, false)
	if err != nil {
		return rota.SnapshotInfo{}, err
	}
	defer data.Close()
	if !data.Fresh() {
		return rota.SnapshotInfo{}, rota.Refusef(rota.KindConflict, "data",
			"%s holds a node's state already: a backup is restored "+
				"into an empty directory only", o.Data)
	}
	if err := m.Reincarnate(fsm.Rebirth{Cluster: newCluster(), Incarnation: uint64(time.Now().Unix()),
		VoidTokens: !o.KeepTokens}); err != nil {
		return rota.SnapshotInfo{}, err
	}
	err = writeHistory(o.Data, m, func(take func(kind byte, record []byte) error) error {
		return sections(o.Backup, take)
	})
	if err != nil {
		return rota.SnapshotInfo{}, err
	}
	return writeFirst(first{Data: o.Data, Node: o.Node, Raft: o.Raft, Index: uint64(m.Head().Index), Log: o.Log}, m)
}

// loadState reads a snapshot or backup into a machine.
func loadState(open snapshot.Opener) (*fsm.Machine, error) {
	f, err := open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, _, err := snapshot.ReadState(f, func(info rota.SnapshotInfo) (snapshot.Sink[*fsm.Machine], error) {
		return fsm.NewLoader(info)
	})
	return m, err
}

// sections passes on the sections of a backup other than the state.
func sections(open snapshot.Opener, take func(kind byte, record []byte) error) error {
	f, err := open()
	if err != nil {
		return err
	}
	defer f.Close()
	_, _, err = snapshot.Read(f, func(rota.SnapshotInfo) (snapshot.Sink[struct{}], error) {
		return snapshot.Sections[struct{}](snapshot.Discard{}, take), nil
	})
	return err
}

// writeHistory writes a history of ended jobs, given as sections, into a data directory under the new cluster's name.
// It replaces the file of a failed attempt.
func writeHistory(data string, m *fsm.Machine, from func(take func(kind byte, record []byte) error) error) (err error) {
	path := filepath.Join(data, archive.FileName)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &rota.Error{Kind: rota.KindInternal, Subject: "archive", Text: "the archive cannot be made", Cause: err}
	}
	db, err := archive.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	history, err := archive.OpenJobs(db)
	if err != nil {
		return err
	}
	head := m.Head()
	if err := history.Claim(head.ClusterID, head.Incarnation); err != nil {
		return err
	}
	loader := archive.NewLoader(history)
	if err := from(loader.Take); err != nil {
		return err
	}
	return loader.Flush()
}
