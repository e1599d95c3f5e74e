//go:build !linux

package rig

import (
	"errors"
	"os"
)

// OpenTun returns an error: it is available on Linux only.
func OpenTun(string) (*os.File, error) { return nil, errors.New("known on Linux only") }
