//go:build !linux

package raftstore

import "testing"

// writtenBytes returns 0: the figure is available on Linux only.
func writtenBytes(testing.TB) int64 { return 0 }
