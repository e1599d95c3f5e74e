package tidy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestFirstHour checks that the exercise of CONTRIBUTING still applies to the tree.
func TestFirstHour(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, diff, _ := strings.Cut(string(text), "```diff\n")
	diff, _, found := strings.Cut(diff, "```\n")
	if !found || strings.Count(diff, "diff --git") < 2 {
		t.Fatal("CONTRIBUTING.md has no exercise with its diff")
	}
	check := exec.CommandContext(t.Context(), "git", "apply", "--check", "-")
	check.Dir, check.Stdin = root, strings.NewReader(diff)
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("the diff does not apply: %v\n%s", err, out)
	}
}
