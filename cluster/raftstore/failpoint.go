//go:build !failpoints

package raftstore

import "github.com/hashicorp/raft"

// What of the points of internal/failpoint is the stores' own (failpoint_on.go).

func failpointSnapshot(raft.SnapshotSink) {}

func failpointLog(*boltStore) {}
