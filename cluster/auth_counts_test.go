package cluster

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/access"
)

// heldFor is how long a test delays a member.
const heldFor = 150 * time.Millisecond

// countingBench is startBench of three nodes whose answers to changes of rights wait for the others up to within.
func countingBench(t *testing.T, within time.Duration) *bench {
	t.Helper()
	b := newBench(t)
	for _, id := range []rota.NodeID{"n1", "n2", "n3"} {
		b.plan(id, 3)
		c := b.addrs[id]
		c.countsWithin = within
		b.addrs[id] = c
	}
	b.startPlanned()
	return b
}

// followers returns the two nodes that are not the leader.
func (b *bench) followers() (ask, late *Node) {
	b.t.Helper()
	ask = b.follower()
	for _, id := range b.ids() {
		if n := b.node(id); n != ask && n != b.leader() {
			return ask, n
		}
	}
	b.t.Fatal("no second follower")
	return nil, nil
}

// rightsChange is a change of rights, and a check that a member has it.
type rightsChange struct {
	what string
	make func(ctx context.Context, n *Node) error
	has  func(*fsm.Access) bool
}

func rightsChanges() []rightsChange {
	token, session := access.CredentialOf([40]byte{7, 4}), access.CredentialOf([40]byte{7, 5})
	want := rota.AccessToken{ID: token.ID, Roles: []string{access.RoleSubmitter},
		Expires: rota.DateOf(time.Now().Add(time.Hour))}
	proves := func(c access.Credential) func(*fsm.Access) bool {
		return func(a *fsm.Access) bool {
			_, err := a.Prove(c, rota.DateOf(time.Now()))
			return err == nil
		}
	}
	not := func(has func(*fsm.Access) bool) func(*fsm.Access) bool {
		return func(a *fsm.Access) bool { return !has(a) }
	}
	team := rota.Role{Name: "team", Grants: []rota.Grant{{Right: rota.RightSubmit, Tenant: "*", Queue: "*"}}}
	issuer := rota.Issuer{URL: "https://idp.example", Audience: "rota",
		Maps: []rota.ClaimRole{{Claim: "sub", Value: "ann", Role: access.RoleReader}}}
	return []rightsChange{
		{"create a token", func(ctx context.Context, n *Node) error {
			_, err := n.CreateToken(ctx, want, token.Hash())
			return err
		}, proves(token)},
		{"open a session", func(ctx context.Context, n *Node) error {
			_, err := n.OpenSession(called(ctx, rota.TokenPrincipal(token.ID)), session.ID, session.Hash(), false, 0)
			return err
		}, proves(session)},
		{"end it", func(ctx context.Context, n *Node) error {
			return n.EndSession(called(ctx, rota.TokenPrincipal(token.ID)), session.ID)
		}, not(proves(session))},
		{"revoke the token", func(ctx context.Context, n *Node) error { return n.RevokeToken(ctx, token.ID) },
			not(proves(token))},
		{"set a role", func(ctx context.Context, n *Node) error {
			_, err := n.SetRole(ctx, team)
			return err
		}, func(a *fsm.Access) bool { return len(a.Roles()) > len(access.BuiltInRoles()) }},
		{"delete it", func(ctx context.Context, n *Node) error { return n.DeleteRole(ctx, team.Name) },
			func(a *fsm.Access) bool { return len(a.Roles()) == len(access.BuiltInRoles()) }},
		{"block a certificate", func(ctx context.Context, n *Node) error {
			return n.SetBlock(ctx, "team", "ann", true)
		},
			func(a *fsm.Access) bool { return len(a.Blocks()) == 1 }},
		{"say what others may", func(ctx context.Context, n *Node) error {
			return n.SetAnonymous(ctx, []string{access.RoleReader})
		},
			func(a *fsm.Access) bool { return slices.Equal(a.Anonymous(), []string{access.RoleReader}) }},
		{"take an issuer's tokens", func(ctx context.Context, n *Node) error {
			_, err := n.SetIssuer(ctx, issuer)
			return err
		}, func(a *fsm.Access) bool { return len(a.Issuers()) == 1 }},
	}
}

// TestRights_countOnEveryMember: an answered change is in force on a member that was slightly behind when the change
// was requested, at the leader or at another follower.
func TestRights_countOnEveryMember(t *testing.T) {
	t.Parallel()
	b := countingBench(t, ample)
	leader := b.loyal()
	ask, late := b.followers()
	for i, c := range rightsChanges() {
		var released atomic.Bool
		late.replica.Mu.RLock() // applying waits
		go func() {
			time.Sleep(heldFor)
			released.Store(true)
			late.replica.Mu.RUnlock()
		}()
		n := []*Node{leader, ask}[i%2]
		err := c.make(called(within(t, ample), rota.Local), n)
		if early, has := !released.Load(), c.has(late.replica.Access()); err != nil || early || !has {
			t.Errorf("%s at %s: %v; answered before a member had it: %t; that knows it: %t", c.what, n.cfg.Node, err,
				early, has)
		}
		if !c.has(n.replica.Access()) {
			t.Errorf("%s: the node that was asked does not know it", c.what)
		}
		for !released.Load() {
			time.Sleep(time.Millisecond)
		}
	}
}

// TestRights_countWhenTheLogArrives: a member that answers, but has not received a change by raft, is polled until it
// has.
func TestRights_countWhenTheLogArrives(t *testing.T) {
	t.Parallel()
	b := countingBench(t, ample)
	leader := b.loyal()
	_, late := b.followers()
	id := late.cfg.Node
	b.mu.Lock()
	b.isolated[id] = true // only by raft
	b.mu.Unlock()
	b.wires[id].cut()
	var healed atomic.Bool
	go func() {
		time.Sleep(heldFor)
		healed.Store(true)
		b.heal(id)
	}()
	c := rightsChanges()[0]
	err := c.make(called(within(t, ample), rota.Local), leader)
	if early, has := !healed.Load(), c.has(late.replica.Access()); err != nil || early || !has {
		t.Errorf("%v; answered before a member had it: %t; that knows it: %t", err, early, has)
	}
}

// TestRights_membersAway: members that are away make no change fail, and delay it by a bound. One that accepts calls
// and does not answer delays it by countsWithin or its caller's deadline, one that is down not at all.
func TestRights_membersAway(t *testing.T) {
	t.Parallel()
	const bound = 300 * time.Millisecond
	b := countingBench(t, bound)
	leader := b.loyal()
	_, away := b.followers()
	changes := rightsChanges()
	b.mu.Lock()
	b.hung[away.cfg.Node] = true
	b.mu.Unlock()
	b.isolate(away.cfg.Node)
	timed := func(ctx context.Context, c rightsChange) time.Duration {
		t.Helper()
		start := time.Now()
		if err := c.make(called(ctx, rota.Local), leader); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		return time.Since(start)
	}
	if took := timed(within(t, ample), changes[0]); took < bound || took > ample/2 {
		t.Errorf("with a member that hangs it took %s, want %s", took, bound)
	}
	leader.host.CountsWithin = ample
	const patience = 3 * time.Second
	if took := timed(within(t, patience), changes[3]); took > ample/2 {
		t.Errorf("a caller of %s waited %s", patience, took)
	}
	b.mu.Lock()
	delete(b.hung, away.cfg.Node)
	b.mu.Unlock()
	b.stop(away.cfg.Node)
	if took := timed(within(t, ample), changes[4]); took > ample/2 {
		t.Errorf("with a member that is down it took %s", took)
	}
}
