//go:build !linux

package guard

import (
	"context"
	"io"
)

// ByDefault is whether a worker has a guard unless configured otherwise: on other systems no process inherits the
// children of a dead one.
const ByDefault = false

// Run returns ErrUnknown.
func (g *Guard) Run(context.Context) (code int, ran bool, err error) { return 0, false, ErrUnknown }

func take(int) (io.ReadWriteCloser, error) { return nil, ErrUnknown }
