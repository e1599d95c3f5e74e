//go:build !linux

package main

import (
	"context"
	"errors"
	"io"
)

// guardByDefault: elsewhere nobody inherits what a dead process leaves.
const guardByDefault = false

func (a *app) guard(context.Context) (bool, error) {
	return false, usagef("--guard is refused: a guard is known on Linux only")
}

func guardPipe(int) (io.ReadWriteCloser, error) {
	return nil, errors.New("a guard is known on Linux only")
}
