package cluster

import (
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/peer"
)

// TestTokens: a token created at one node authenticates and submits at another. Once revoked it does neither, and
// repeating the call that created it does not bring it back.
func TestTokens(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	f, l := b.follower(), b.leader()
	local := called(within(t, ample), rota.Local)
	credential := access.CredentialOf([40]byte{4, 2})
	want := rota.AccessToken{ID: credential.ID, Roles: []string{access.RoleSubmitter}, Tenants: []string{"acme*"},
		Expires: rota.DateOf(time.Now().Add(time.Hour))}
	for range 2 { // the call may be repeated after a lost answer
		made, err := f.CreateToken(local, want, credential.Hash())
		if err != nil || made.ID != want.ID || made.By != rota.Local || made.Created.IsZero() ||
			!made.Revoked.IsZero() {
			t.Fatalf("%+v, %v", made, err)
		}
	}
	today := rota.DateOf(time.Now())
	all, _, err := l.AccessTokens(local, peer.ReadOptions{})
	if err != nil || len(all) != 1 || all[0].ID != want.ID {
		t.Fatalf("%+v, %v", all, err)
	}
	p, err := l.Access().Prove(credential, today)
	if err != nil || p != rota.TokenPrincipal(want.ID) {
		t.Fatalf("%s, %v", p, err)
	}
	job := specs("by-token-", 1)
	job[0].Tenant = "acme-1"
	if out, err := l.Submit(called(within(t, ample), p), job); err != nil || out[0].Err != nil {
		t.Fatalf("%+v, %v", out, err)
	}
	if out, err := l.Submit(called(within(t, ample), p), specs("of-others-", 1)); err != nil ||
		rota.KindOf(out[0].Err) != rota.KindDenied {
		t.Errorf("a job of another tenant: %+v, %v", out, err)
	}
	for range 2 {
		if err := l.RevokeToken(local, want.ID); err != nil {
			t.Fatal(err)
		}
	}
	if made, err := f.CreateToken(local, want, credential.Hash()); rota.KindOf(err) != rota.KindConflict {
		t.Errorf("the creation made again: %+v, %v", made, err)
	}
	if all, _, err = f.AccessTokens(local, peer.ReadOptions{}); err != nil || len(all) != 1 || all[0].Revoked.IsZero() {
		t.Errorf("%+v, %v", all, err)
	}
	if p, err := f.Access().Prove(credential, today); rota.KindOf(err) != rota.KindUnauthenticated {
		t.Errorf("a revoked token proves %s, %v", p, err)
	}
	if out, err := f.Submit(called(within(t, ample), p), specs("later-", 1)); err != nil ||
		rota.KindOf(out[0].Err) != rota.KindUnauthenticated {
		t.Errorf("%+v, %v", out, err)
	}
}

// TestRolesAndBlocks: a role grants its rights until it is deleted, and a blocked certificate none until it is
// unblocked.
func TestRolesAndBlocks(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	n := b.leader()
	local := called(within(t, ample), rota.Local)
	team := rota.Role{Name: "team", Grants: []rota.Grant{{Right: rota.RightSubmit, Tenant: "*", Queue: "*"}},
		RoleLimits: rota.RoleLimits{MaxWorkflows: 7}}
	if _, err := n.SetRole(called(within(t, ample), rota.CertPrincipal(access.RoleOperator, "ann")),
		team); rota.KindOf(err) != rota.KindDenied {
		t.Errorf("an operator sets a role: %v", err)
	}
	role, err := n.SetRole(local, team)
	if err != nil || role.Name != "team" || len(role.Grants) != 1 || role.MaxWorkflows != 7 || role.By != rota.Local {
		t.Fatalf("%+v, %v", role, err)
	}
	if all, _, err := n.Roles(local, peer.ReadOptions{}); err != nil || len(all) != len(access.BuiltInRoles())+1 {
		t.Errorf("%+v, %v", all, err)
	}
	ann := called(within(t, ample), rota.CertPrincipal("team", "ann"))
	submits := func(id string, want rota.Kind) {
		t.Helper()
		if out, err := n.Submit(ann, specs(id, 1)); err != nil || rota.KindOf(out[0].Err) != want {
			t.Errorf("%s: %+v, %v", id, out, err)
		}
	}
	submits("a-", rota.KindNone)
	if err := n.SetBlock(local, "team", "ann", true); err != nil {
		t.Fatal(err)
	}
	if all, _, err := n.Blocks(local, peer.ReadOptions{}); err != nil || len(all) != 1 || all[0].Name != "ann" {
		t.Errorf("%+v, %v", all, err)
	}
	submits("b-", rota.KindUnauthenticated)
	if err := n.SetBlock(local, "team", "ann", false); err != nil {
		t.Fatal(err)
	}
	submits("c-", rota.KindNone)
	if err := n.DeleteRole(local, "team"); err != nil {
		t.Fatal(err)
	}
	submits("d-", rota.KindDenied)
	nobody := called(within(t, ample), rota.Anonymous)
	if err := n.SetAnonymous(local, []string{access.RoleReader}); err != nil {
		t.Fatal(err)
	}
	if out, err := n.Submit(nobody, specs("e-", 1)); err != nil || rota.KindOf(out[0].Err) != rota.KindDenied {
		t.Errorf("%+v, %v", out, err)
	}
}
