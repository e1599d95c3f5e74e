package tidy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestShape(t *testing.T) {
	t.Parallel()
	tree, root := setup(t)
	if len(upward) == 0 {
		return
	}
	var patterns []string
	for dir := range upward {
		patterns = append(patterns, "./"+dir)
	}
	compiled, err := exports(root, patterns...)
	if err != nil {
		t.Fatal(err)
	}
	for dir, allowed := range upward {
		design, err := os.ReadFile(filepath.Join(root, dir, "DESIGN.md"))
		if err != nil {
			t.Fatal(err)
		}
		report(t, checkLayers(tree, dir, string(design), compiled, allowed))
	}
}

func TestLayers_find(t *testing.T) {
	t.Parallel()
	tree, err := plant(map[string]string{
		"p/verb.go":  "package p\nfunc verb() { table() }\n",
		"p/table.go": "package p\nfunc table() { verb() }\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	const design = "1. **verbs**: `verb.go`. Actions.\n2. **tables**: `table.go`. Data.\n"
	for _, c := range []struct {
		name, design string
		allowed      int
		want         []string
	}{
		{"one upward", design, 0, []string{"1 arrows run upward, 0 are allowed:\n\ttable.go → verb.go"}},
		{"one allowed", design, 1, nil},
		{"two allowed", design, 2, []string{"lower it"}},
		{"a file in none", "1. **verbs**: `verb.go`.\n", 0, []string{"p/table.go is in no layer"}},
		{"a file that is not there", design + "3. **trees**: `tree.go`.\n", 1,
			[]string{"names tree.go, which is not there"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			matches(t, checkLayers(tree, "p", c.design, nil, c.allowed), c.want)
		})
	}
}

// matches fails unless each fault contains the expected text at its index, and there are no further faults.
func matches(t *testing.T, faults, want []string) {
	t.Helper()
	if !slices.EqualFunc(faults, want, strings.Contains) {
		t.Errorf("faults %q, want %q", faults, want)
	}
}
