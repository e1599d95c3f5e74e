package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/cli/worker"
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
	s, err := (&worker.Flags{Secret: own, OldSecret: old}).Secrets()
	if err != nil || string(s.Own) != "a secret of 24 bytes ..." || string(s.Old) != "the secret before" {
		t.Errorf("read %q and %q, %v", s.Own, s.Old, err)
	}
	if s, err := (&worker.Flags{}).Secrets(); err != nil || s.Own != nil || s.Old != nil {
		t.Errorf("without files: %q and %q, %v", s.Own, s.Old, err)
	}
	for flag, f := range map[string]worker.Flags{
		"--secret-file":          {Secret: filepath.Join(dir, "missing")},
		"--takeover-secret-file": {OldSecret: file("long", strings.Repeat("x", 100))},
	} {
		if _, err := f.Secrets(); cli.ExitCode(err) != cli.ExitUsage || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}
