package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestClockHookIsNotBuilt checks that the released binary has no hook for its wall clock: no file of a normal build
// contains its name, one file of a test build does.
func TestClockHookIsNotBuilt(t *testing.T) {
	t.Parallel()
	key := "ROTA_TEST_" + "CLOCK"
	names := func(tags string) (found []string) {
		out, err := exec.Command("go", "list", "-tags", tags, "-deps", "-f",
			`{{if and .Module .Module.Main}}{{$d := .Dir}}{{range .GoFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}{{end}}`,
			".").Output()
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		files := strings.Fields(string(out))
		if len(files) < 50 {
			t.Fatalf("go list prints only %d files: %v", len(files), files)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), key) {
				found = append(found, file)
			}
		}
		return found
	}
	if found := names(""); len(found) > 0 {
		t.Errorf("a normal build reads %s: %v", key, found)
	}
	if found := names("testclock"); len(found) != 1 || !strings.HasSuffix(found[0], "testclock.go") {
		t.Errorf("a build with the tag testclock reads %s in %v, want testclock.go alone", key, found)
	}
}
