//go:build !failpoints

package cluster

import (
	"github.com/hashicorp/raft"
)

// What of the points of internal/failpoint is this package's own (failpoint_on.go).

func failpointRaft(*raft.Config) {}
