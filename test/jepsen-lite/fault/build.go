package fault

import (
	"fmt"
	"os/exec"
	"strings"
)

// moduleRoot returns the directory of this module's sources.
func moduleRoot() (string, error) {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	return strings.TrimSpace(string(root)), nil
}
