//go:build failpoints

package raftstore

import (
	_ "unsafe" // go:linkname

	"github.com/hashicorp/raft"

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
