package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestPut(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.pb.go")
	old := "// versions:\n// \tprotoc-gen-go v1\n// \tprotoc        v3.21.12\npackage a\n"
	write := func(content string) {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(old)
	for _, c := range []struct {
		name, content string
		stale         bool
	}{
		{"the same", old, false},
		{"another protoc", "// versions:\n// \tprotoc-gen-go v1\n// \tprotoc        (unknown)\npackage a\n", false},
		{"another generator", "// versions:\n// \tprotoc-gen-go v2\n// \tprotoc        v3.21.12\npackage a\n", true},
		{"another body", "// versions:\n// \tprotoc-gen-go v1\n// \tprotoc        v3.21.12\npackage b\n", true},
	} {
		if err := put(path, []byte(c.content), true); (err != nil) != c.stale {
			t.Errorf("%s: check returned %v, stale is %v", c.name, err, c.stale)
		}
	}
	if err := put(path, []byte("package b\n"), false); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "package b\n" {
		t.Errorf("file holds %q (%v) after writing", got, err)
	}
}
