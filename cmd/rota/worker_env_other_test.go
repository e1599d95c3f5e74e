//go:build !linux

package main

import (
	"os/exec"
	"testing"
)

func unprivileged(*testing.T, *exec.Cmd) {}
