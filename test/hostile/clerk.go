package main

import (
	"context"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// clerkProbes are attempts to gain further rights by a user with the rights to create tokens and roles, and to read one
// tenant.
func clerkProbes() []probe {
	by := func(name string, who func(s *scene) *client.Client, do func(ctx context.Context, a client.Auth, s *scene) error) probe {
		return probe{name: name, try: func(ctx context.Context, s *scene) (string, error) {
			return refused(do(ctx, who(s).Auth(), s), rota.KindDenied, rota.KindUnauthenticated)
		}}
	}
	clerk := func(name string, do func(ctx context.Context, a client.Auth, s *scene) error) probe {
		return by(name, func(s *scene) *client.Client { return s.clerk }, do)
	}
	soon := func() rota.Date { return rota.DateOf(time.Now().Add(time.Minute)) }
	token := func(t rota.AccessToken) func(ctx context.Context, a client.Auth, s *scene) error {
		return func(ctx context.Context, a client.Auth, _ *scene) error {
			t.Expires = soon()
			_, _, err := a.CreateToken(ctx, t)
			return err
		}
	}
	role := func(r rota.Role) func(ctx context.Context, a client.Auth, s *scene) error {
		return func(ctx context.Context, a client.Auth, _ *scene) error { _, err := a.SetRole(ctx, r); return err }
	}
	auth := rota.Grant{Right: rota.RightAuth, Tenant: "*", Queue: "*"}
	return []probe{
		clerk("makes a token of root", token(rota.AccessToken{Roles: []string{"root"}})),
		clerk("makes a token that reads all tenants", token(rota.AccessToken{Roles: []string{"reader"}})),
		clerk("makes a token that submits", token(rota.AccessToken{Roles: []string{"submitter"},
			Tenants: []string{string(ours)}})),
		clerk("makes a role with more than it has", role(rota.Role{Name: "more",
			Grants: []rota.Grant{{Right: rota.RightControl, Tenant: string(ours), Queue: "*"}}})),
		clerk("makes a role that reads another tenant", role(rota.Role{Name: "other",
			Grants: []rota.Grant{{Right: rota.RightRead, Tenant: string(theirs), Queue: "*"}}})),
		clerk("makes a role that reads by a wider pattern", role(rota.Role{Name: "wider",
			Grants: []rota.Grant{{Right: rota.RightRead, Tenant: string(ours) + "*", Queue: "*"}}})),
		clerk("widens its own role", role(rota.Role{Name: "clerk",
			Grants: []rota.Grant{auth, {Right: rota.RightRead, Tenant: "*", Queue: "*"}}})),
		clerk("has callers without a credential do everything",
			func(ctx context.Context, a client.Auth, _ *scene) error {
				return a.SetAnonymous(ctx, []string{"root"})
			}),
		clerk("revokes root's token", func(ctx context.Context, a client.Auth, s *scene) error {
			return a.RevokeToken(ctx, idOf(s.tokens["root"]))
		}),
		clerk("blocks root's certificates",
			func(ctx context.Context, a client.Auth, _ *scene) error { return a.SetBlock(ctx, "root", "bob", true) }),
		clerk("trusts an issuer that makes roots", func(ctx context.Context, a client.Auth, _ *scene) error {
			_, err := a.SetIssuer(ctx, rota.Issuer{URL: "https://" + evil, Audience: "rota",
				Maps: []rota.ClaimRole{{Claim: "sub", Value: "r*", Role: "root"}}})
			return err
		}),
		clerk("asks for the first token, from afar", func(ctx context.Context, a client.Auth, _ *scene) error {
			_, _, err := a.Init(ctx, soon())
			return err
		}),
		clerk("asks for another first token, from afar", func(ctx context.Context, a client.Auth, _ *scene) error {
			_, _, err := a.Reset(ctx, soon())
			return err
		}),
		by("lets workers register beyond the prefix of its own", func(s *scene) *client.Client { return s.fleet },
			token(rota.AccessToken{Roles: []string{"worker"}})),
		by("has callers without a credential register any worker", func(s *scene) *client.Client { return s.fleet },
			func(ctx context.Context, a client.Auth, _ *scene) error {
				return a.SetAnonymous(ctx, []string{"worker"})
			}),
		by("a submitter makes a token of its own role", func(s *scene) *client.Client { return s.acme },
			token(rota.AccessToken{Roles: []string{"submitter"}, Tenants: []string{string(ours)}})),
		by("a submitter lists the tokens", func(s *scene) *client.Client { return s.acme },
			func(ctx context.Context, a client.Auth, _ *scene) error {
				return lastOf(a.AccessTokens(ctx))
			}),
	}
}
