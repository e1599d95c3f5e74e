package transport

import (
	"context"

	caller "google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"
)

// tap sees a call as soon as its headers are there, before a byte of its message is taken.
func (s *Server) tap(ctx context.Context, call *tap.Info) (context.Context, error) {
	from, ok := caller.FromContext(ctx)
	if !ok {
		return ctx, nil
	}
	info, _ := from.AuthInfo.(edgeInfo)
	if need, known := methods[call.FullMethodName]; known && !need.anybody {
		info.seat.keep()
	}
	return ctx, nil
}
