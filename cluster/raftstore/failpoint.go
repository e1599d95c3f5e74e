//go:build !failpoints

package raftstore

import (
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

// What of the points of internal/failpoint is the stores' own (failpoint_on.go).

func failpointSnapshot(raft.SnapshotSink) {}

func failpointLog(*raftboltdb.BoltStore) {}
