package transport

import (
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// TestRecorded: a node that the state does not record may only introduce itself and ask who
// is there; a removed one, and one of another data directory, not even the latter.
func TestRecorded(t *testing.T) {
	t.Parallel()
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
}

// TestPeers_callMembersAlone: a node asks one that it does not know nothing but who it is.
func TestPeers_callMembersAlone(t *testing.T) {
	t.Parallel()
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
}
