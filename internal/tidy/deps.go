package tidy

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// dependencies lists the external packages that the binary consists of, one a line, sorted: for one platform, so that
// the list is the same everywhere.
func dependencies(root, of string) ([]string, error) {
	cmd := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./"+of)
	var complaint bytes.Buffer
	cmd.Dir, cmd.Stderr = root, &complaint
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list dependencies of %s: %w: %s", of, err, complaint.String())
	}
	var deps []string
	for _, p := range strings.Fields(string(out)) {
		if !beneath(p, module) {
			deps = append(deps, p)
		}
	}
	slices.Sort(deps)
	return deps, nil
}

// checkDependencies compares the list with the one that is checked in.
func checkDependencies(of string, now, recorded []string) []string {
	var faults []string
	for _, p := range now {
		if !slices.Contains(recorded, p) {
			faults = append(faults, of+" gained "+p)
		}
	}
	for _, p := range recorded {
		if !slices.Contains(now, p) {
			faults = append(faults, of+" lost "+p)
		}
	}
	return faults
}
