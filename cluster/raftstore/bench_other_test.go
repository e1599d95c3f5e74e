//go:build !linux

package raftstore

import "testing"

// writtenBytes is known on Linux only.
func writtenBytes(testing.TB) int64 { return 0 }
