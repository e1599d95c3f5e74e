//go:build !failpoints

package cluster

import (
	"github.com/hashicorp/raft"
	"go.etcd.io/bbolt"
)

// What of the points of internal/failpoint is this package's own (failpoint_on.go).

// failpointWithin says what the archive's file is written for.
func failpointWithin(string) {}

func failpointArchive(*bbolt.DB) {}

func failpointRaft(*raft.Config) {}
