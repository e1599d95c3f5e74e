//go:build !failpoints

package cluster

import (
	"github.com/hashicorp/raft"
)

// The failpoints of this package (internal/failpoint, failpoint_on.go).

func failpointRaft(*raft.Config) {}
