package cluster

import (
	"crypto/sha256"
	"sync"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/peer"
)

// TestExchange_raced: many callers exchange one identity token at two nodes at once, and one gets an access token,
// which is valid at the other node too.
func TestExchange_raced(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	f, l := b.follower(), b.leader()
	local := called(within(t, ample), rota.Local)
	want := rota.Issuer{URL: "https://idp.example", Audience: "rota",
		Maps: []rota.ClaimRole{{Claim: "sub", Value: "ann", Role: access.RoleSubmitter}}}
	if set, err := f.SetIssuer(local, want); err != nil || set.URL != want.URL || set.By != rota.Local ||
		len(set.Maps) != 1 {
		t.Fatalf("%+v, %v", set, err)
	}
	if all, _, err := l.Issuers(local, peer.ReadOptions{}); err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	nobody := called(within(t, ample), rota.Anonymous)
	var mu sync.Mutex
	var winners []access.Credential
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			credential := access.CredentialOf([40]byte{byte(i), 7})
			s := access.SignIn{Issuer: want.URL, Audience: "rota", Subject: "ann", Claim: "sub", Value: "ann",
				Role: access.RoleSubmitter,
				JWT:  sha256.Sum256([]byte("a JWT")), Until: rota.DateOf(time.Now().Add(time.Hour)),
				Token: credential.ID, Hash: credential.Hash()}
			made, err := []*Node{f, l}[i%2].Exchange(nobody, s)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil && made.By == rota.OIDCPrincipal(want.URL, "ann") && made.ID == credential.ID:
				winners = append(winners, credential)
			case rota.KindOf(err) != rota.KindUnauthenticated:
				t.Errorf("%+v, %v", made, err)
			}
		})
	}
	all.Wait()
	if len(winners) != 1 {
		t.Fatalf("%d got a token", len(winners))
	}
	p, err := l.Access().Prove(winners[0], rota.DateOf(time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := l.Submit(called(within(t, ample), p), specs("by-oidc-", 1)); err != nil || out[0].Err != nil {
		t.Errorf("%+v, %v", out, err)
	}
	if err := f.DeleteIssuer(local, want.URL); err != nil {
		t.Fatal(err)
	}
}
