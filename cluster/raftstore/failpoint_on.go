//go:build failpoints

package raftstore

import (
	"reflect"
	"unsafe"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"

	"github.com/rotasched/rota/internal/failpoint"
)

//go:linkname finalizeSnapshot github.com/hashicorp/raft.(*FileSnapshotSink).finalize
func finalizeSnapshot(*raft.FileSnapshotSink) error

//go:linkname writeSnapshotMeta github.com/hashicorp/raft.(*FileSnapshotSink).writeMeta
func writeSnapshotMeta(*raft.FileSnapshotSink) error

// failpointSnapshot does the steps of the library's Close up to the failpoint.
func failpointSnapshot(sink raft.SnapshotSink) {
	file, ok := sink.(*raft.FileSnapshotSink)
	if !ok {
		return
	}
	if failpoint.Due("snapshot-before-meta") {
		_ = finalizeSnapshot(file)
		failpoint.Die("snapshot-before-meta")
	}
	if failpoint.Due("snapshot-before-rename") {
		_ = finalizeSnapshot(file)
		_ = writeSnapshotMeta(file)
		failpoint.Die("snapshot-before-rename")
	}
}

// failpointLog crashes after a transaction's pages are in raft.db and before its head is.
func failpointLog(store *raftboltdb.BoltStore) {
	conn := reflect.ValueOf(store).Elem().FieldByName("conn")
	failpoint.BeforeCommit(*(**bbolt.DB)(unsafe.Pointer(conn.UnsafeAddr())), func() { failpoint.Pass("log-mid-commit") })
}
