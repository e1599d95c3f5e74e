//go:build failpoints

package cluster

import (
	"os"
	"reflect"
	"strconv"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"

	"github.com/rotasched/rota/internal/failpoint"
)

// failpointSnapshots is the variable that has raft write a snapshot every second,
// of so many entries: no user can ask for one.
const failpointSnapshots = "ROTA_FAILPOINT_SNAPSHOTS"

var failpointPurpose atomic.Pointer[string]

func failpointWithin(purpose string) { failpointPurpose.Store(&purpose) }

//go:linkname finalizeSnapshot github.com/hashicorp/raft.(*FileSnapshotSink).finalize
func finalizeSnapshot(*raft.FileSnapshotSink) error

//go:linkname writeSnapshotMeta github.com/hashicorp/raft.(*FileSnapshotSink).writeMeta
func writeSnapshotMeta(*raft.FileSnapshotSink) error

// failpointSnapshot does what the library's Close does, up to the point.
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

// failpointLog dies when a transaction's pages are in raft.db and its head is not.
func failpointLog(store *raftboltdb.BoltStore) {
	conn := reflect.ValueOf(store).Elem().FieldByName("conn")
	failpoint.BeforeCommit(*(**bbolt.DB)(unsafe.Pointer(conn.UnsafeAddr())), func() { failpoint.Pass("log-mid-commit") })
}

// failpointArchive is the same for archive.db, where events are written.
func failpointArchive(db *bbolt.DB) {
	failpoint.BeforeCommit(db, func() {
		if purpose := failpointPurpose.Load(); purpose != nil && *purpose == "events" {
			failpoint.Pass("events-mid-commit")
		}
	})
}

func failpointRaft(c *raft.Config) {
	if n, err := strconv.ParseUint(os.Getenv(failpointSnapshots), 10, 32); err == nil && n > 0 {
		c.SnapshotThreshold, c.TrailingLogs, c.SnapshotInterval = n, n, 500*time.Millisecond
	}
}
