package cluster

import (
	"crypto/rand"
	"io"
	"log/slog"
	"os"

	"github.com/hashicorp/raft"
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/raftstore"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/snapshot"
)

// RestoreOptions say where a backup goes.
type RestoreOptions struct {
	// File is the backup; Data an empty or absent directory.
	File, Data string
	// Node will own it, in the cluster of this name, at this Raft address.
	Node    rota.NodeID
	Cluster string
	Raft    string
	Log     *slog.Logger
}

// RestoreBackup makes a fresh data directory hold a backup (SPEC §13.5): a new
// cluster of one node with a new id. All leases are void and the incarnation
// rises, so that no token of before is ever given again (SPEC §8.6).
func RestoreBackup(o RestoreOptions) (rota.SnapshotInfo, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	m, err := loadBackup(o.File)
	if err != nil {
		return rota.SnapshotInfo{}, err
	}
	data, err := raftstore.OpenDataDir(o.Data, o.Node, o.Cluster, false)
	if err != nil {
		return rota.SnapshotInfo{}, err
	}
	defer data.Close()
	if !data.Fresh() {
		return rota.SnapshotInfo{}, rota.Refusef(rota.KindConflict, "data", "%s holds a node's state already: a backup is restored "+
			"into an empty directory only", o.Data)
	}
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return rota.SnapshotInfo{}, err
	}
	if err := m.Reincarnate(rota.ClusterID("c-" + rota.Hex(id).String())); err != nil {
		return rota.SnapshotInfo{}, err
	}
	if err := restoreHistory(o, m); err != nil {
		return rota.SnapshotInfo{}, err
	}
	return writeFirst(o, m)
}

func loadBackup(path string) (*fsm.Machine, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &rota.Error{Kind: rota.KindNotFound, Subject: "file", Text: "backup cannot be read", Cause: err}
	}
	defer f.Close()
	m, _, err := snapshot.Read(io.Reader(f), func(info rota.SnapshotInfo) (snapshot.Sink[*fsm.Machine], error) {
		l, err := fsm.NewLoader(info)
		return snapshot.Sections(snapshot.Sink[*fsm.Machine](l), nil), err
	})
	return m, err
}

// writeFirst puts the state into the directory as Raft's first snapshot.
func writeFirst(o RestoreOptions, m *fsm.Machine) (info rota.SnapshotInfo, err error) {
	stores, err := raftstore.Open(o.Data, raftstore.Options{Logger: o.Log})
	if err != nil {
		return info, err
	}
	defer stores.Close()
	snapshots, err := raftstore.OpenSnapshots(o.Data, o.Log)
	if err != nil {
		return info, err
	}
	_, trans := raft.NewInmemTransport(raft.ServerAddress(o.Raft))
	const term = 1
	index := max(uint64(m.Head().Index), 1)
	sink, err := snapshots.Create(raft.SnapshotVersionMax, index, term, raft.Configuration{Servers: []raft.Server{{
		ID: raft.ServerID(o.Node), Address: raft.ServerAddress(o.Raft), Suffrage: raft.Voter}}}, index, trans)
	if err != nil {
		return info, err
	}
	if info, err = snapshot.Write(sink, m.Freeze()); err != nil {
		_ = sink.Cancel()
		return info, err
	}
	if err := sink.Close(); err != nil {
		return info, err
	}
	return info, stores.Stable.SetUint64([]byte("CurrentTerm"), term)
}
