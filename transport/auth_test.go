package transport

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/access"
)

// authUnary returns each unary call of the service Auth, once well-formed and once not.
func authUnary(b *bundle) map[string]unaryRow {
	type call = func(context.Context) (proto.Message, error)
	auth := rotav1.NewAuthClient(b.conn)
	create := func(roles ...string) call {
		return func(ctx context.Context) (proto.Message, error) {
			return auth.CreateToken(ctx, &rotav1.CreateTokenRequest{Id: "abcdefghijkl", Hash: make([]byte, 32),
				Roles: roles})
		}
	}
	hash := func(ctx context.Context) (proto.Message, error) {
		return auth.CreateToken(ctx, &rotav1.CreateTokenRequest{Id: "abcdefghijkl", Hash: make([]byte, 31),
			Roles: []string{"reader"}})
	}
	list := func(limit int32) call {
		return func(ctx context.Context) (proto.Message, error) {
			return auth.ListTokens(ctx, &rotav1.ListTokensRequest{Limit: limit})
		}
	}
	revoke := func(id string) call {
		return func(ctx context.Context) (proto.Message, error) {
			return auth.RevokeToken(ctx, &rotav1.RevokeTokenRequest{Id: id})
		}
	}
	set := func(name, right string) call {
		return func(ctx context.Context) (proto.Message, error) {
			return auth.SetRole(ctx, &rotav1.SetRoleRequest{Name: name,
				Grants: []*rotav1.Grant{{Right: right, Tenant: "acme*", Queue: "*"}}})
		}
	}
	roles := func(limit int32) call {
		return func(ctx context.Context) (proto.Message, error) {
			return auth.ListRoles(ctx, &rotav1.ListRolesRequest{Limit: limit})
		}
	}
	drop := func(name string) call {
		return func(ctx context.Context) (proto.Message, error) {
			return auth.DeleteRole(ctx, &rotav1.DeleteRoleRequest{Name: name})
		}
	}
	block := func(name string) call {
		return func(ctx context.Context) (proto.Message, error) {
			return auth.SetBlock(ctx, &rotav1.SetBlockRequest{Role: "root", Name: name, Blocked: true})
		}
	}
	blocks := func(limit int32) call {
		return func(ctx context.Context) (proto.Message, error) {
			return auth.ListBlocks(ctx, &rotav1.ListBlocksRequest{Limit: limit})
		}
	}
	anonymous := func(roles ...string) call {
		return func(ctx context.Context) (proto.Message, error) {
			return auth.SetAnonymous(ctx, &rotav1.SetAnonymousRequest{Roles: roles})
		}
	}
	issuer := func(url string) call {
		return func(ctx context.Context) (proto.Message, error) {
			return auth.SetIssuer(ctx, &rotav1.SetIssuerRequest{Url: url, Audience: "rota",
				Maps: []*rotav1.ClaimRole{{Claim: "sub", Value: "ann", Role: "reader"}}})
		}
	}
	issuers := func(limit int32) call {
		return func(ctx context.Context) (proto.Message, error) {
			return auth.ListIssuers(ctx, &rotav1.ListIssuersRequest{Limit: limit})
		}
	}
	noIssuer := func(url string) call {
		return func(ctx context.Context) (proto.Message, error) {
			return auth.DeleteIssuer(ctx, &rotav1.DeleteIssuerRequest{Url: url})
		}
	}
	return map[string]unaryRow{
		"auth create":       {create("reader"), create(), `by:"local"`},
		"auth create hash":  {create("reader"), hash, `id:"abcdefghijkl"`},
		"auth tokens":       {list(0), list(-1), `roles:"reader"`},
		"auth revoke":       {revoke("abcdefghijkl"), revoke("abc"), ``},
		"auth role":         {set("team", "read"), set("team", "reed"), `tenant:"acme*"`},
		"auth role's name":  {set("team", "submit"), set("root", "read"), `name:"team"`},
		"auth role's scope": {set("team", "tenant"), set("team", "status"), `right:"tenant"`},
		"auth roles":        {roles(0), roles(-1), `built_in:true`},
		"auth role delete":  {drop("team"), drop(""), ``},
		"auth block":        {block("ann"), block("a/b"), ``},
		"auth blocks":       {blocks(1), blocks(-1), `name:"ann"`},
		"auth issuer":       {issuer("https://idp.example"), issuer("http://idp.example"), `audience:"rota"`},
		"auth issuers":      {issuers(0), issuers(-1), `audience:"rota"`},
		"auth issuer gone":  {noIssuer("https://idp.example"), noIssuer("idp.example"), ``},
		"auth anonymous":    {anonymous("reader"), anonymous("no id"), ``},
	}
}

// TestWhoAmI checks that a caller with a valid credential can read its own identity without any right, and that an
// invalid credential is not treated as an anonymous caller.
func TestWhoAmI(t *testing.T) {
	t.Parallel()
	b := setup(t)
	auth := rotav1.NewAuthClient(b.conn)
	table, p, ctx := holder(rota.RightSubmit)
	table.give(rota.Anonymous)
	b.core.setTable(table)
	ask := func(ctx context.Context) (rota.Identity, error) {
		answer, err := auth.WhoAmI(ctx, &rotav1.WhoAmIRequest{})
		if err != nil {
			return rota.Identity{}, words.FromStatus(err)
		}
		return words.IdentityFromWire(answer)
	}
	who, err := ask(ctx)
	if err != nil || who.Principal != p || who.By != rota.Local || len(who.Grants) != 1 ||
		who.Grants[0] != (rota.Grant{Right: rota.RightSubmit, Tenant: "*", Queue: "*"}) {
		t.Errorf("the holder of a token: %+v, %v", who, err)
	}
	if who, err := ask(context.Background()); err != nil || who.Principal != rota.Anonymous || who.By != "" ||
		len(who.Grants) != 0 {
		t.Errorf("no caller: %+v, %v", who, err)
	}
	if who, err := ask(bearing(access.CredentialOf([40]byte{9}).Secret())); !errors.Is(err, rota.ErrUnauthenticated) {
		t.Errorf("a credential that counts not: %+v, %v", who, err)
	}
}

// TestAnswers_afterOnesRight checks that a caller that gives away its own right receives the answer, and that a list is
// not returned to a caller that has lost the right meanwhile.
func TestAnswers_afterOnesRight(t *testing.T) {
	t.Parallel()
	before, p, _ := holder(rota.RightAuth)
	after, _, _ := holder()
	after.give(p)
	s := &Server{options: Options{Self: "n1", Core: coreWith(after)}}
	for method, answered := range map[string]bool{"SetAnonymous": true, "RevokeToken": true, "DeleteRole": true,
		"ListTokens": false, "ListRoles": false} {
		err := s.answerable(&pass{need: methods["/rota.v1.Auth/"+method], caller: access.Caller{Actor: p},
			table: before})
		if (err == nil) != answered {
			t.Errorf("%s: %v", method, err)
		}
	}
}
