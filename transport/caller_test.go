package transport

import (
	"context"
	"testing"

	"google.golang.org/grpc/metadata"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/access"
)

// TestCaller: a public call has who called, the door, and the caller's id of the call or one
// of the node's own; a call of a node is nobody's.
func TestCaller(t *testing.T) {
	t.Parallel()
	s := &Server{options: Options{Self: "n1"}}
	of := func(method string, given ...string) (access.Caller, bool) {
		ctx := context.Background()
		for _, id := range given {
			ctx = metadata.NewIncomingContext(ctx, metadata.Pairs(requestHeader, id))
		}
		c, ok := s.withCaller(ctx, method).Value(access.CallerKey{}).(access.Caller)
		return c, ok
	}
	if c, ok := of("/rota.v1.Node/Forward", "r1"); ok {
		t.Errorf("a node's call is %+v's", c)
	}
	if c, _ := of("/rota.v1.Jobs/Submit", "r1"); c != (access.Caller{Actor: rota.Anonymous, Via: "n1/grpc", Request: "r1"}) || c.Check() != nil {
		t.Errorf("%+v", c)
	}
	one, _ := of("/rota.v1.Jobs/Submit")
	two, _ := of("/rota.v1.Jobs/Submit", "no id at all")
	if one.Request == two.Request || one.Check() != nil || two.Check() != nil || len(two.Request) != 26 {
		t.Errorf("%+v %+v", one, two)
	}
}
