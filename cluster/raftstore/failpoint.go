//go:build !failpoints

package raftstore

import (
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

// The failpoints of the stores themselves (internal/failpoint, failpoint_on.go).

func failpointSnapshot(raft.SnapshotSink) {}

func failpointLog(*raftboltdb.BoltStore) {}
