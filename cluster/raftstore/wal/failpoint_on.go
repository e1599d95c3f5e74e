//go:build failpoints

package wal

import (
	"os"

	"github.com/rotasched/rota/internal/failpoint"
)

// tear crashes in the middle of a write.
func tear(file *os.File, b []byte, at int64) {
	if failpoint.Due("log-mid-write") {
		_, _ = file.WriteAt(b[:len(b)/2], at)
		failpoint.Die("log-mid-write")
	}
}
