//go:build !failpoints

package raftstore

import "github.com/hashicorp/raft"

// The failpoints of the stores themselves (internal/failpoint, failpoint_on.go).

func failpointSnapshot(raft.SnapshotSink) {}
