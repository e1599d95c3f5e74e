package cluster

import (
	"context"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/access"
)

// TestCaller: events name the caller that caused them, wherever the call arrived. A caller without the right is
// rejected on every node, even if a known job's state would be the answer.
func TestCaller(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	f, l := b.follower(), b.leader()
	anybody := access.Caller{Actor: rota.Anonymous, Via: "n1/grpc", Request: "call-1"}
	ctx := context.WithValue(within(t, ample), access.CallerKey{}, anybody)
	if out, err := f.Submit(ctx, specs("named-", 1)); err != nil || out[0].Err != nil {
		t.Fatalf("%+v, %v", out, err)
	}
	told := false
	for _, e := range tail(t, l, rota.EventFilter{Kinds: []rota.EventKind{rota.EventJobEnqueued}}) {
		told = true
		if e.Actor != anybody.Actor || e.Via != anybody.Via || e.Request != anybody.Request {
			t.Errorf("%+v", e)
		}
	}
	if !told {
		t.Error("the job has no event")
	}
	stranger := context.WithValue(within(t, ample), access.CallerKey{},
		access.Caller{Actor: rota.CertPrincipal(access.RoleReader, "eve")})
	for _, n := range []*Node{f, l} {
		out, err := n.Submit(stranger, specs("named-", 1))
		if err != nil || rota.KindOf(out[0].Err) != rota.KindDenied {
			t.Errorf("a reader submits: %+v, %v", out, err)
		}
	}
}
