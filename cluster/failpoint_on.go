//go:build failpoints

package cluster

import (
	"os"
	"strconv"
	"time"

	"github.com/hashicorp/raft"
)

// failpointSnapshots is the variable that makes raft write a snapshot every second, after the given number of entries:
// no user setting allows that.
const failpointSnapshots = "ROTA_FAILPOINT_SNAPSHOTS"

func failpointRaft(c *raft.Config) {
	if n, err := strconv.ParseUint(os.Getenv(failpointSnapshots), 10, 32); err == nil && n > 0 {
		c.SnapshotThreshold, c.TrailingLogs, c.SnapshotInterval = n, n, 500*time.Millisecond
	}
}
