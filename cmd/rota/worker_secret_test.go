package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rotasched/rota/internal/cli"
)

func TestWorkerSecrets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	own, old := file("own", "a secret of 24 bytes ...\n"), file("old", "the secret before\r\n")
	s, err := (&workerFlags{secret: own, oldSecret: old}).secrets()
	if err != nil || string(s.own) != "a secret of 24 bytes ..." || string(s.old) != "the secret before" {
		t.Errorf("read %q and %q, %v", s.own, s.old, err)
	}
	if s, err := (&workerFlags{}).secrets(); err != nil || s.own != nil || s.old != nil {
		t.Errorf("without files: %q and %q, %v", s.own, s.old, err)
	}
	for flag, f := range map[string]workerFlags{
		"--secret-file":          {secret: filepath.Join(dir, "missing")},
		"--takeover-secret-file": {oldSecret: file("long", strings.Repeat("x", 100))},
	} {
		if _, err := f.secrets(); cli.ExitCode(err) != cli.ExitUsage || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}
