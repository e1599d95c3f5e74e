package raftstore

import (
	"fmt"
	"os"
	"testing"
)

// writtenBytes returns how many bytes this process has written to disks.
func writtenBytes(tb testing.TB) (wrote int64) {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		tb.Skip(err)
	}
	var ignored int64
	if _, err := fmt.Sscanf(string(text), "rchar: %d\nwchar: %d\nsyscr: %d\nsyscw: %d\nread_bytes: %d\nwrite_bytes: %d",
		&ignored, &ignored, &ignored, &ignored, &ignored, &wrote); err != nil {
		tb.Skip(err)
	}
	return wrote
}
