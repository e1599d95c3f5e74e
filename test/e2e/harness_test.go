package e2e

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota/test/rig"
)

// rotaBinary is the binary that the tests run.
var rotaBinary string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	// Most tests wait more than they work: more of them than cores run in parallel.
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "test.parallel" })
	if !set {
		_ = flag.Set("test.parallel", "4")
	}
	dir, err := os.MkdirTemp("", "rota-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if rotaBinary, err = build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// build makes the binary as users get it.
func build(dir string) (string, error) {
	if given := os.Getenv("ROTA_E2E_BINARY"); given != "" {
		return filepath.Abs(given)
	}
	return rig.Build(dir)
}

// full reports whether the long tests run too.
func full() bool { return os.Getenv("ROTA_E2E") == "full" || whole() }

// whole reports whether they run in the amounts that they are meant for, in an hour, and not in the amounts that fit
// into the half hour of .ci/run.
func whole() bool { return os.Getenv("ROTA_E2E") == "whole" }

// long marks a test that is not part of the core selection.
func long(t *testing.T) {
	t.Helper()
	if !full() {
		t.Skip("a long test: ROTA_E2E=full runs it")
	}
}

// eventually waits until check returns nil, and fails the test with its last error if that takes longer than most.
func eventually(t testing.TB, most time.Duration, what string, check func() error) {
	t.Helper()
	if err := rig.Within(most, check); err != nil {
		t.Fatalf("%s: not within %s: %v", what, most, err)
	}
}

// contains fails the test if text lacks one of the parts.
func contains(t testing.TB, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s lacks %q: %s", what, part, clip(text))
		}
	}
}

// clip keeps a failure readable.
func clip(text string) string {
	const most = 4000
	if len(text) <= most {
		return text
	}
	return text[:most/2] + "\n…\n" + text[len(text)-most/2:]
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func writeFile(t testing.TB, path, text string) string {
	t.Helper()
	check(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
