package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// faketime returns the environment that moves the wall clock of a dynamically linked program by 90 s. The monotonic
// clock is left alone. Python gets a time.sleep that works under libfaketime.
func (b *bench) faketime() ([]string, error) {
	found, _ := filepath.Glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
	if len(found) == 0 {
		return nil, errors.New("libfaketime is not installed: apt-get install libfaketime")
	}
	return []string{"LD_PRELOAD=" + found[0], "FAKETIME=+90s", "FAKETIME_DONT_FAKE_MONOTONIC=1",
		"PYTHONPATH=" + filepath.Join(b.peers, "faketime")}, nil
}

// goNow is the beginning of time.Now in Go's source, goNowSkewed the same with the wall clock 90 s ahead.
const (
	goNow       = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	goNowSkewed = goNow + "\tsec += 90\n"
)

// buildSkewed builds a Go program whose wall clock is 90 s ahead. libfaketime cannot move the clock of a Go program,
// which reads it without libc, so the build replaces time.Now of the standard library. The monotonic clock, and with it
// every timer, is left alone.
func (b *bench) buildSkewed(ctx context.Context, dir, pkg, program string) error {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return err
	}
	original := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	source, err := os.ReadFile(original)
	if err != nil {
		return err
	}
	if !bytes.Contains(source, []byte(goNow)) {
		return errors.New("time.Now of this Go version is not the one that clock.go replaces")
	}
	skewed := filepath.Join(b.dir, "time.go")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{original: skewed}})
	if err != nil {
		return err
	}
	file := filepath.Join(b.dir, "overlay.json")
	err = errors.Join(os.WriteFile(skewed, bytes.Replace(source, []byte(goNow), []byte(goNowSkewed), 1), 0o644),
		os.WriteFile(file, overlay, 0o644))
	if err != nil {
		return err
	}
	return shell(ctx, dir, []string{"CGO_ENABLED=0", "GOFLAGS=-trimpath"}, "go", "build", "-p", "1", "-overlay", file,
		"-o", program, pkg)
}
