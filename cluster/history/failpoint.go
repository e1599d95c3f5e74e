//go:build !failpoints

package history

import "go.etcd.io/bbolt"

// The failpoints of this package (internal/failpoint, failpoint_on.go).

// failpointWithin records what the file is being written for.
func failpointWithin(string) {}

func failpointArchive(*bbolt.DB) {}
