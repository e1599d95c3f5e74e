//go:build !linux

package fault

import "errors"

func serveDisk(string, string) error { return errors.New("disks are made on Linux only") }
