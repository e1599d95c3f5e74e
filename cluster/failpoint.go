//go:build !failpoints

package cluster

import (
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
)

// failpoint is a place where test/crash has the process die, by the tag failpoints
// (failpoint_on.go). Without it all of these are nothing: the compiler drops the
// calls and their names.
func failpoint(string) {}

// failpointWithin says what the archive's file is written for.
func failpointWithin(string) {}

func failpointSnapshot(raft.SnapshotSink) {}

func failpointLog(*raftboltdb.BoltStore) {}

func failpointArchive(*bbolt.DB) {}

func failpointRaft(*raft.Config) {}
