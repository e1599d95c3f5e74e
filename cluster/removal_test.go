package cluster

import (
	"context"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/access"
)

// TestRemoval_isAuthorised: the leader rejects a caller without the right to change members, wherever the call arrived,
// and the entry of a removal names its caller.
func TestRemoval_isAuthorised(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	as := func(p rota.Principal) context.Context {
		return context.WithValue(within(t, ample), access.CallerKey{},
			access.Caller{Actor: p, Via: "n1/grpc", Request: "r1"})
	}
	reader, operator := rota.CertPrincipal(access.RoleReader, "eve"), rota.CertPrincipal(access.RoleOperator, "ann")
	gone := b.follower().cfg.Node
	for _, id := range b.ids() {
		if err := b.node(id).RemovePeer(as(reader), gone); rota.KindOf(err) != rota.KindDenied {
			t.Errorf("a reader removes a node at %s: %v", id, err)
		}
		if _, err := b.node(id).TransferLeadership(as(reader), ""); rota.KindOf(err) != rota.KindDenied {
			t.Errorf("a reader has another leader at %s: %v", id, err)
		}
	}
	if n := len(b.leader().membership.servers()); n != 3 {
		t.Fatalf("%d members are left", n)
	}
	if err := b.leader().RemovePeer(as(operator), gone); err != nil {
		t.Fatal(err)
	}
	for _, e := range tail(t, b.leader(), rota.EventFilter{Kinds: []rota.EventKind{rota.EventNodeChanged}}) {
		if e.Actor == operator && e.Text == string(gone) {
			return
		}
	}
	t.Error("no event has the actor of the node's removal")
}
