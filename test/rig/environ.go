package rig

import (
	"os"
	"strings"
)

// Bare returns a minimal environment of a process: paths, none of the caller's settings, and more.
func Bare(more ...string) []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.TempDir(), "TMPDIR=" + os.TempDir()}, more...)
}

// Inherited returns the caller's environment without its settings of rota, and more.
func Inherited(more ...string) []string {
	var kept []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "ROTA_") {
			kept = append(kept, v)
		}
	}
	return append(kept, more...)
}
