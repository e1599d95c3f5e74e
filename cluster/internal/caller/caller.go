package caller

import (
	"context"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
)

// Sign adds the context's caller to operations; without a caller they are the node's own.
func Sign(ctx context.Context, ops []*fsmpb.Op) []*fsmpb.Op {
	c, ok := ctx.Value(access.CallerKey{}).(access.Caller)
	if ok {
		for _, op := range ops {
			op.Actor, op.Via, op.Request = string(c.Actor), c.Via, c.Request
		}
	}
	if version, ok := ctx.Value(access.VersionKey{}).(string); ok {
		for _, op := range ops {
			op.IfMatch = version
		}
	}
	return ops
}

// Of returns the principal of the context's caller, empty for the node itself.
func Of(ctx context.Context) rota.Principal {
	c, _ := ctx.Value(access.CallerKey{}).(access.Caller)
	return c.Actor
}

// Until returns a context that also ends with the leader's. Get the leader's context before reading its address.
func Until(ctx, leader context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(leader, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}
