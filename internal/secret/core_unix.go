//go:build unix

package secret

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// NoCore prevents a crash of this process, and of its children, from writing a core file.
func NoCore() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("have a crash write no core: %w", err)
	}
	return nil
}
