package recovery

import (
	"crypto/rand"
	"log/slog"

	"github.com/hashicorp/raft"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/raftstore"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/snapshot"
)

// first is the destination of a new cluster's first snapshot, and its node.
type first struct {
	Data  string
	Node  rota.NodeID
	Raft  string
	Index uint64
	Log   *slog.Logger
}

// firstTerm is the term of the first snapshot.
const firstTerm = 1

// writeFirst writes the state into a directory as Raft's first snapshot, with one voter.
func writeFirst(o first, m *fsm.Machine) (info rota.SnapshotInfo, err error) {
	stores, err := raftstore.Open(o.Data, raftstore.Options{Logger: o.Log})
	if err != nil {
		return info, err
	}
	defer stores.Close()
	snapshots, err := raftstore.OpenSnapshots(o.Data, o.Log, nil)
	if err != nil {
		return info, err
	}
	_, trans := raft.NewInmemTransport(raft.ServerAddress(o.Raft))
	index := max(o.Index, 1)
	sink, err := snapshots.Create(raft.SnapshotVersionMax, index, firstTerm, raft.Configuration{Servers: []raft.Server{{
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
	return info, stores.Stable.SetUint64([]byte("CurrentTerm"), firstTerm)
}

// newCluster draws a random cluster id.
func newCluster() rota.ClusterID {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	return rota.ClusterID("c-" + rota.Hex(id).String())
}
