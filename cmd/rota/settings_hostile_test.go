package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rotasched/rota/internal/cli"
)

// FuzzConfigFile: for any config file, a command reports the fault in it or runs.
func FuzzConfigFile(f *testing.F) {
	for _, text := range []string{"", "addr: [a:1, b:2]\n", "timeout: 3s\noutput: json\n",
		"timeout: 1s\nno-such-key: 1\n", "a: &a [*a]\n", "addr: {x: 1}\n",
		"timeout: -1s", "\x00", "- 1\n- 2\n", "api: ~\n", "timeout: !!binary aGk=\n", "<<: [1]\n", "? [a]\n: b\n"} {
		f.Add([]byte(text))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(dir, "rota.yaml")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		var out, said bytes.Buffer
		code := run([]string{"version", "--config", path}, nil, strings.NewReader(""), &out, &said)
		if code != cli.ExitDone && code != cli.ExitUsage {
			t.Fatalf("exit code %d, %q", code, said.String())
		}
		if (code == cli.ExitDone) != (said.Len() == 0) || strings.Contains(string(data), "\nno-such-key: 1\n") &&
			code == cli.ExitDone {
			t.Fatalf("exit code %d, %q", code, said.String())
		}
	})
}
