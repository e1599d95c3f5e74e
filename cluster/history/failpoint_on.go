//go:build failpoints

package history

import (
	"sync/atomic"

	"go.etcd.io/bbolt"

	"github.com/rotasched/rota/internal/failpoint"
)

var failpointPurpose atomic.Pointer[string]

func failpointWithin(purpose string) { failpointPurpose.Store(&purpose) }

// failpointArchive crashes after a transaction's pages are in archive.db, for a write of events, and before its head
// is.
func failpointArchive(db *bbolt.DB) {
	failpoint.BeforeCommit(db, func() {
		if purpose := failpointPurpose.Load(); purpose != nil && *purpose == "events" {
			failpoint.Pass("events-mid-commit")
		}
	})
}
