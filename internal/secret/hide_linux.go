package secret

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Hide prevents other processes of the same account from reading this one's memory and environment, where its
// credentials are, and prevents a core file. The process itself, and root, can still read them.
func Hide() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hide this process from others of its account: %w", err)
	}
	return nil
}
