//go:build !linux

package rig

import (
	"errors"
	"os"
)

// OpenTun says that it is known on Linux only.
func OpenTun(string) (*os.File, error) { return nil, errors.New("known on Linux only") }
