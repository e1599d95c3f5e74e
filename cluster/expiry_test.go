package cluster

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/peer"
)

// TestExpiry_skewedClocks: a token expires by the log's date on every node, and earlier at a node whose own clock is
// ahead and shows that date; a slow clock keeps nothing valid.
func TestExpiry_skewedClocks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	skew := map[rota.NodeID]*atomic.Int64{"n1": {}, "n2": {}, "n3": {}}
	for id, by := range skew {
		b.plan(id, 3)
		c := b.addrs[id]
		c.Environment.Wall = func() time.Time { return time.Now().Add(time.Duration(by.Load())) }
		b.addrs[id] = c
	}
	b.startPlanned()
	leader := b.loyal()
	var others []*Node
	for _, id := range b.ids() {
		if n := b.node(id); n != leader {
			others = append(others, n)
		}
	}
	fast, slow := others[0], others[1]
	const life = 10 * time.Minute
	id := strings.Repeat("e", 12)
	token := &fsmpb.CreateToken{Id: id, Hash: make([]byte, 32), Roles: []string{access.RoleSubmitter},
		ExpiresMs: int64(leader.replica.Head().Date) + life.Milliseconds()}
	if _, _, err := leader.proposer.proposeOne(called(within(t, ample), rota.Local),
		&fsmpb.Op{Op: &fsmpb.Op_CreateToken{CreateToken: token}}); err != nil {
		t.Fatal(err)
	}
	principal := rota.TokenPrincipal(id)
	holder := called(within(t, ample), principal)
	edge := func(n *Node) error { // the check at the edge of a node
		_, err := n.Access().Rights(principal, rota.DateOf(n.wall()))
		return err
	}
	submit := func(n *Node, id string) error {
		out, err := n.Submit(holder, specs(id, 1))
		if err != nil {
			t.Fatal(err)
		}
		return out[0].Err
	}
	b.eventually("all know the token", func() bool { return edge(fast) == nil && edge(slow) == nil })
	skew[fast.cfg.Node].Store(int64(2 * life))
	skew[slow.cfg.Node].Store(-int64(2 * life))
	if err := edge(fast); rota.KindOf(err) != rota.KindUnauthenticated {
		t.Errorf("the edge of a node whose clock is past the date: %v", err)
	}
	for name, n := range map[string]*Node{"fast": fast, "slow": slow, "right": leader} {
		if err := submit(n, name); err != nil {
			t.Errorf("applied before the log's date, by the %s node: %v", name, err)
		}
	}

	for leader.replica.Head().Date < rota.Date(token.ExpiresMs) { // ahead of the walls it runs at half speed
		b.pass(60_000)
	}
	for name, n := range map[string]*Node{"fast": fast, "slow": slow, "right": leader} {
		if err := submit(n, name+"-late"); rota.KindOf(err) != rota.KindUnauthenticated {
			t.Errorf("applied on the log's date, by the %s node: %v", name, err)
		}
		if _, _, err := n.Jobs(holder, rota.JobFilter{Limit: 1},
			peer.ReadOptions{}); rota.KindOf(err) != rota.KindUnauthenticated {
			t.Errorf("read on the log's date, from the %s node: %v", name, err)
		}
		b.eventually("the edge of the "+name+" node knows",
			func() bool { return rota.KindOf(edge(n)) == rota.KindUnauthenticated })
	}
	if v, err := slow.Verify(within(t, ample)); err != nil || !v.Equal {
		t.Errorf("%+v, %v", v, err)
	}
}
