package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// connected is nil once the process has a socket.
func (p *process) connected() error {
	dir := fmt.Sprintf("/proc/%d/fd", p.PID())
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		if to, err := os.Readlink(filepath.Join(dir, f.Name())); err == nil && strings.HasPrefix(to, "socket:") {
			return nil
		}
	}
	return errors.New("it has no socket")
}
