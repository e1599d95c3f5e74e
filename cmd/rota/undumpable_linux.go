package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// undumpable keeps what jobs run under the same account from reading this process's memory and
// environment, where its credentials are, and writes no core.
func undumpable() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hide this process from its jobs: %w", err)
	}
	return nil
}
