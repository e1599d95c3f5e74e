package rig

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
)

// command is the import path of the binary.
const command = "github.com/rotasched/rota/cmd/rota"

// Build builds the binary as users get it, plus flags such as -tags, and returns its path in dir. It runs in a folder
// of this module.
func Build(dir string, flags ...string) (string, error) { return BuildPackage(dir, command, flags...) }

// BuildPackage builds any program of this module, static, and returns its path in dir.
func BuildPackage(dir, pkg string, flags ...string) (string, error) {
	binary := filepath.Join(dir, path.Base(pkg))
	cmd := exec.Command("go", append(append([]string{"build", "-trimpath", "-o", binary}, flags...), pkg)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, err, said)
	}
	return binary, nil
}
