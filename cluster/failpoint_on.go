//go:build failpoints

package cluster

import (
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"go.etcd.io/bbolt"

	"github.com/rotasched/rota/internal/failpoint"
)

// failpointSnapshots is the variable that has raft write a snapshot every second,
// of so many entries: no user can ask for one.
const failpointSnapshots = "ROTA_FAILPOINT_SNAPSHOTS"

var failpointPurpose atomic.Pointer[string]

func failpointWithin(purpose string) { failpointPurpose.Store(&purpose) }

// failpointArchive dies when a transaction's pages are in archive.db, where events are
// written, and its head is not.
func failpointArchive(db *bbolt.DB) {
	failpoint.BeforeCommit(db, func() {
		if purpose := failpointPurpose.Load(); purpose != nil && *purpose == "events" {
			failpoint.Pass("events-mid-commit")
		}
	})
}

func failpointRaft(c *raft.Config) {
	if n, err := strconv.ParseUint(os.Getenv(failpointSnapshots), 10, 32); err == nil && n > 0 {
		c.SnapshotThreshold, c.TrailingLogs, c.SnapshotInterval = n, n, 500*time.Millisecond
	}
}
