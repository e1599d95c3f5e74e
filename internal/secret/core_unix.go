//go:build unix

package secret

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// NoCore has a crash of this process, and of what it starts, write no core.
func NoCore() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("have a crash write no core: %w", err)
	}
	return nil
}
