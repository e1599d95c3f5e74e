package client_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/test/idp"
)

// A custom role sets the rights of a token; the token's secret is returned only once.
func ExampleClient_Auth() {
	c, ctx, done := connect()
	defer done()
	if _, err := c.Auth().SetRole(ctx, rota.Role{Name: "billing",
		Grants: []rota.Grant{{Right: rota.RightRead, Tenant: "acme*", Queue: "*"}}}); err != nil {
		fmt.Println(err)
		return
	}
	made, secret, err := c.Auth().CreateToken(ctx, rota.AccessToken{Roles: []string{"billing"},
		Expires: rota.DateOf(time.Now().Add(time.Hour))})
	if err != nil {
		fmt.Println(err)
		return
	}
	holder, err := client.Dial([]string{aNode().API}, client.WithToken(secret))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer holder.Close()
	who, err := holder.Auth().WhoAmI(ctx)
	fmt.Println(who.Principal == rota.TokenPrincipal(made.ID), who.Grants, err)
	_, err = holder.Submit(ctx, rota.NewJobSpec("resize", nil))
	fmt.Println(errors.Is(err, rota.ErrDenied))
	// Output:
	// true [read tenant=acme* queue=*] <nil>
	// true
}

// A CI job has a JWT from its identity provider, and no secret of the cluster: it exchanges the JWT for an access
// token.
func ExampleAuth_Exchange() {
	provider := idp.New() // in place of the provider of GitHub, GitLab or a company
	defer provider.Close()
	c, ctx, done := connect()
	defer done()
	if _, err := c.Auth().SetIssuer(ctx, rota.Issuer{URL: provider.URL, CA: provider.CA, Audience: "rota",
		Maps: []rota.ClaimRole{{Claim: "sub", Value: "repo:acme/*", Role: "submitter"}}}); err != nil {
		fmt.Println(err)
		return
	}
	now := time.Now()
	jwt := provider.Sign("ES256", map[string]any{"iss": provider.URL, "sub": "repo:acme/site", "aud": "rota",
		"iat": now.Unix(), "exp": now.Add(10 * time.Minute).Unix()})

	made, secret, err := c.Auth().Exchange(ctx, jwt)
	if err != nil {
		fmt.Println(err)
		return
	}
	job, err := client.Dial([]string{aNode().API}, client.WithToken(secret))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer job.Close()
	who, err := job.Auth().WhoAmI(ctx)
	fmt.Println(made.Roles, who.By == rota.OIDCPrincipal(provider.URL, "repo:acme/site"), err)
	_, _, err = c.Auth().Exchange(ctx, jwt) // a JWT can be exchanged once
	fmt.Println(errors.Is(err, rota.ErrUnauthenticated))
	// Output:
	// [submitter] true <nil>
	// true
}

// Over a node's own socket the account that the node runs as may create tokens, whichever rights apply elsewhere.
func ExampleDial_socket() {
	_, ctx, done := connect()
	defer done()
	c, err := client.Dial([]string{"unix:" + filepath.Join(aNode().Dir, "rota.sock")})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	who, err := c.Auth().WhoAmI(ctx)
	fmt.Println(who.Principal, who.Grants, err)
	// Output: local [auth status backup] <nil>
}
