package transport

import (
	"context"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/peer"
)

// TestRecorded checks that a node that the state does not record may only introduce itself and inspect others. A
// removed node, and one with another data directory, may not even inspect.
func TestRecorded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for subject, free := range map[string]map[string]bool{
			peer.Unrecorded: {"introduce": true, "inspect": true},
			"removed":       {"introduce": true},
		} {
			b := setup(t)
			b.node.recorded = func(id rota.NodeID, identity string) error {
				if id != "n2" || identity != "d1" {
					t.Errorf("node %s of directory %q is asked for", id, identity)
				}
				return rota.Refusef(rota.KindDenied, subject, "no")
			}
			p := peersOf(t, b.lis.DialContext)
			p.Calls("d1", func(rota.NodeID) error { return nil })
			for name, call := range everyPeerCall(p, n1) {
				if _, err := call(bounded(t)); free[name] != (rota.KindOf(err) != rota.KindDenied) {
					t.Errorf("%s of one that is %s: %v", name, subject, err)
				}
			}
		}
	})
}

// TestPeers_callMembersAlone checks that a node sends only Introduce and Inspect to a node that is not a member.
func TestPeers_callMembersAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t)
		p := peersOf(t, b.lis.DialContext)
		p.Calls("d1", func(id rota.NodeID) error {
			return rota.Refusef(rota.KindUnavailable, "not-sent", "node %s is not known", id)
		})
		for name, call := range everyPeerCall(p, n1) {
			_, err := call(bounded(t))
			if free := name == "introduce" || name == "inspect"; free != (err == nil) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestRemove checks that a node removes itself at its own request, and anything else at that of a principal.
func TestRemove(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t)
		p := peersOf(t, b.lis.DialContext)
		if err := p.RemovePeer(bounded(t), n1, "n2"); err != nil {
			t.Errorf("a node leaves: %v", err)
		}
		if err := p.RemovePeer(bounded(t), n1, "n3"); rota.KindOf(err) != rota.KindInvalid {
			t.Errorf("a node removes another: %v", err)
		}
		if _, err := p.TransferLeadership(bounded(t), n1, "n3"); rota.KindOf(err) != rota.KindInvalid {
			t.Errorf("a node has another leader: %v", err)
		}
		if err := p.RemovePeer(byLocal(bounded(t)), n1, "n3"); err != nil {
			t.Error(err)
		}
		if got := b.node.asked.Load(); got == nil || *got != local {
			t.Errorf("%+v asks", got)
		}
	})
}

var local = access.Caller{Actor: rota.Local, Via: "n2/grpc", Request: "r1"}

// byLocal returns the context of a call by the account that a node runs as.
func byLocal(ctx context.Context) context.Context {
	return context.WithValue(ctx, access.CallerKey{}, local)
}
