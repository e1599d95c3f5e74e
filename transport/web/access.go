package web

import (
	"context"
	"net/http"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/rest"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// accessCalls serves the calls of tokens, roles, identity providers and blocks.
type accessCalls struct{ *Site }

func (s *Site) access() {
	c := accessCalls{s}
	const tokens, roles, issuers, blocks = "/v1/tokens", "/v1/roles", "/v1/issuers", "/v1/blocks"
	add(s, route{method: http.MethodGet, path: tokens, call: rotav1.Auth_ListTokens_FullMethodName, id: "listTokens",
		says: "List the tokens"}, c.listTokens)
	add(s, route{method: http.MethodPut, path: tokens + "/{id}", call: rotav1.Auth_CreateToken_FullMethodName,
		id:   "createToken",
		says: "Create a token from the hash of its secret, which no node sees"},
		c.createToken)
	add(s, route{method: http.MethodDelete, path: tokens + "/{id}", call: rotav1.Auth_RevokeToken_FullMethodName,
		id: "revokeToken", says: "Revoke a token permanently"}, c.revokeToken)
	add(s, route{method: http.MethodGet, path: roles, call: rotav1.Auth_ListRoles_FullMethodName, id: "listRoles",
		says: "List the roles, including built-in roles"}, c.listRoles)
	add(s, route{method: http.MethodPut, path: roles + "/{id}", call: rotav1.Auth_SetRole_FullMethodName, id: "setRole",
		says: "Create a role, or replace its grants"}, c.setRole)
	add(s, route{method: http.MethodDelete, path: roles + "/{id}", call: rotav1.Auth_DeleteRole_FullMethodName,
		id: "deleteRole", says: "Delete a role: principals that have it lose its grants"}, c.deleteRole)
	add(s, route{method: http.MethodGet, path: issuers, call: rotav1.Auth_ListIssuers_FullMethodName, id: "listIssuers",
		says: "List the identity providers"}, c.listIssuers)
	add(s, route{method: http.MethodPut, path: issuers, call: rotav1.Auth_SetIssuer_FullMethodName, id: "setIssuer",
		says: "Accept the tokens of the identity provider at a URL, or change which ones are accepted"}, c.setIssuer)
	add(s, route{method: http.MethodDelete, path: issuers, call: rotav1.Auth_DeleteIssuer_FullMethodName,
		id: "deleteIssuer", says: "Stop accepting tokens of an identity provider"}, c.deleteIssuer)
	add(s, route{method: http.MethodGet, path: blocks, call: rotav1.Auth_ListBlocks_FullMethodName, id: "listBlocks",
		says: "List the rejected certificates"}, c.listBlocks)
	add(s, route{method: http.MethodPut, path: blocks + "/{role}/{id}", call: rotav1.Auth_SetBlock_FullMethodName,
		id: "setBlock", says: "Reject the certificates of a role and a name"}, c.block(true))
	add(s, route{method: http.MethodDelete, path: blocks + "/{role}/{id}", call: rotav1.Auth_SetBlock_FullMethodName,
		id: "deleteBlock", says: "Accept the certificates of a role and a name again"}, c.block(false))
	add(s, route{method: http.MethodPut, path: "/v1/anonymous", call: rotav1.Auth_SetAnonymous_FullMethodName,
		id: "setAnonymous", says: "Set the roles of callers without a credential"}, c.setAnonymous)
	add(s, route{method: http.MethodPost, path: "/v1/exchange", call: rotav1.Auth_Exchange_FullMethodName,
		id:   "exchange",
		says: "Exchange an identity token of a provider for an access token; needs no credential"}, c.exchange)
	add(s, route{method: http.MethodPost, path: "/v1/sessions", call: rotav1.Auth_OpenSession_FullMethodName,
		id:   "openSession",
		says: "Open a browser session, which has its caller's rights and ends with its caller's credential"},
		c.openSession)
	add(s, route{method: http.MethodPost, path: "/v1/sessions/{id}/claim",
		call: rotav1.Auth_ClaimSession_FullMethodName, id: "claimSession",
		says: "Claim a session by its link, once, with the link's secret"}, c.claimSession)
	add(s, route{method: http.MethodDelete, path: "/v1/sessions/{id}", call: rotav1.Auth_EndSession_FullMethodName,
		id:   "endSession",
		says: "End a session, called by itself or by the caller that opened it"}, c.endSession)
}

func (s accessCalls) listTokens(ctx context.Context, in *List) (*Answer[rest.Tokens], error) {
	read, err := in.wire()
	if err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Auth.ListTokens(ctx, &rotav1.ListTokensRequest{Read: read, Limit: in.Limit,
		Cursor: in.Cursor})
	if err != nil {
		return nil, err
	}
	rows, err := listed(got.GetTokens(), words.AccessTokenFromWire)
	return answer(rest.Tokens{Tokens: rows, NextCursor: got.GetNextCursor()}, got.GetAt()), err
}

func tokenAnswer(w *rotav1.AccessToken, err error) (*Answer[rota.AccessToken], error) {
	if err != nil {
		return nil, err
	}
	t, err := words.AccessTokenFromWire(w)
	return answer(t, nil), err
}

func (s accessCalls) createToken(ctx context.Context,
	in *Setting[rest.TokenSetting]) (*Answer[rota.AccessToken], error) {
	body, err := in.Given.read()
	if err != nil {
		return nil, err
	}
	expires, err := oneDate("expires", body.ExpiresMs, body.ExpiresAt)
	if err != nil {
		return nil, err
	}
	return tokenAnswer(s.options.Calls.Auth.CreateToken(ctx,
		&rotav1.CreateTokenRequest{Id: in.ID, Hash: body.Hash, Roles: body.Roles,
			Tenants: body.Tenants, Queues: body.Queues, WorkerPrefix: body.WorkerPrefix, ExpiresMs: expires}))
}

func (s accessCalls) revokeToken(ctx context.Context, in *Named) (*Answer[rest.Deleted], error) {
	_, err := s.options.Calls.Auth.RevokeToken(ctx, &rotav1.RevokeTokenRequest{Id: in.ID})
	return answer(rest.Deleted{}, nil), err
}

func (s accessCalls) listRoles(ctx context.Context, in *List) (*Answer[rest.Roles], error) {
	read, err := in.wire()
	if err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Auth.ListRoles(ctx, &rotav1.ListRolesRequest{Read: read, Limit: in.Limit,
		Cursor: in.Cursor})
	if err != nil {
		return nil, err
	}
	rows, err := listed(got.GetRoles(), words.RoleFromWire)
	return answer(rest.Roles{Roles: rows, NextCursor: got.GetNextCursor()}, got.GetAt()), err
}

func (s accessCalls) setRole(ctx context.Context, in *VersionSetting[rest.RoleSetting]) (*Versioned[rota.Role], error) {
	version, err := in.version()
	if err != nil {
		return nil, err
	}
	body, err := in.Given.read()
	if err != nil {
		return nil, err
	}
	request := words.NewRoleToWire(&rota.Role{Name: in.ID, Grants: body.Grants, RoleLimits: body.RoleLimits})
	request.IfMatch = version
	got, err := s.options.Calls.Auth.SetRole(ctx, request)
	if err != nil {
		return nil, err
	}
	role, err := words.RoleFromWire(got)
	return versioned(role, role.ETag, nil), err
}

func (s accessCalls) deleteRole(ctx context.Context, in *NamedVersion) (*Answer[rest.Deleted], error) {
	version, err := in.version()
	if err != nil {
		return nil, err
	}
	_, err = s.options.Calls.Auth.DeleteRole(ctx, &rotav1.DeleteRoleRequest{Name: in.ID, IfMatch: version})
	return answer(rest.Deleted{}, nil), err
}

func (s accessCalls) listIssuers(ctx context.Context, in *List) (*Answer[rest.Issuers], error) {
	read, err := in.wire()
	if err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Auth.ListIssuers(ctx, &rotav1.ListIssuersRequest{Read: read, Limit: in.Limit,
		Cursor: in.Cursor})
	if err != nil {
		return nil, err
	}
	rows, err := listed(got.GetIssuers(), words.IssuerFromWire)
	return answer(rest.Issuers{Issuers: rows, NextCursor: got.GetNextCursor()}, got.GetAt()), err
}

// IssuerChange is a call that sets an identity provider.
type IssuerChange struct {
	Matching
	Given In[rest.IssuerSetting]
}

func (s accessCalls) setIssuer(ctx context.Context, in *IssuerChange) (*Versioned[rota.Issuer], error) {
	version, err := in.version()
	if err != nil {
		return nil, err
	}
	body, err := in.Given.read()
	if err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Auth.SetIssuer(ctx, &rotav1.SetIssuerRequest{Url: body.URL, Audience: body.Audience,
		Ca: body.CA, Maps: words.MapsToWire(body.Maps), IfMatch: version})
	if err != nil {
		return nil, err
	}
	issuer, err := words.IssuerFromWire(got)
	return versioned(issuer, issuer.ETag, nil), err
}

// IssuerOf selects an identity provider.
type IssuerOf struct {
	Matching
	URL string `query:"url" required:"true" maxLength:"2048" doc:"The provider's URL."`
}

func (s accessCalls) deleteIssuer(ctx context.Context, in *IssuerOf) (*Answer[rest.Deleted], error) {
	version, err := in.version()
	if err != nil {
		return nil, err
	}
	_, err = s.options.Calls.Auth.DeleteIssuer(ctx, &rotav1.DeleteIssuerRequest{Url: in.URL, IfMatch: version})
	return answer(rest.Deleted{}, nil), err
}

func (s accessCalls) listBlocks(ctx context.Context, in *List) (*Answer[rest.Blocks], error) {
	read, err := in.wire()
	if err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Auth.ListBlocks(ctx, &rotav1.ListBlocksRequest{Read: read, Limit: in.Limit,
		Cursor: in.Cursor})
	if err != nil {
		return nil, err
	}
	rows, err := listed(got.GetBlocks(), words.BlockFromWire)
	return answer(rest.Blocks{Blocks: rows, NextCursor: got.GetNextCursor()}, got.GetAt()), err
}

// BlockOf selects the certificates to block.
type BlockOf struct {
	Role string `path:"role" maxLength:"512"`
	Named
}

func (s accessCalls) block(blocked bool) func(context.Context, *BlockOf) (*Answer[rest.Done], error) {
	return func(ctx context.Context, in *BlockOf) (*Answer[rest.Done], error) {
		_, err := s.options.Calls.Auth.SetBlock(ctx, &rotav1.SetBlockRequest{Role: in.Role, Name: in.ID,
			Blocked: blocked})
		return answer(rest.Done{}, nil), err
	}
}

// AnonymousChange is a call that sets the roles of callers without a credential.
type AnonymousChange struct{ Given In[rest.Anonymous] }

func (s accessCalls) setAnonymous(ctx context.Context, in *AnonymousChange) (*Answer[rest.Anonymous], error) {
	body, err := in.Given.read()
	if err != nil {
		return nil, err
	}
	if body.Roles == nil {
		return nil, rota.Refusef(rota.KindInvalid, "roles", "roles is missing: send a list, [] for none")
	}
	_, err = s.options.Calls.Auth.SetAnonymous(ctx, &rotav1.SetAnonymousRequest{Roles: body.Roles})
	return answer(body, nil), err
}

// ExchangeCall is a call that exchanges an identity token.
type ExchangeCall struct{ Given In[rest.Exchange] }

func (s accessCalls) exchange(ctx context.Context, in *ExchangeCall) (*Answer[rota.AccessToken], error) {
	body, err := in.Given.read()
	if err != nil {
		return nil, err
	}
	return tokenAnswer(s.options.Calls.Auth.Exchange(ctx, &rotav1.ExchangeRequest{Jwt: body.JWT, Id: body.ID,
		Hash: body.Hash}))
}

// SessionCall is a call that opens a session.
type SessionCall struct{ Given In[rest.Session] }

func (s accessCalls) openSession(ctx context.Context, in *SessionCall) (*Answer[rota.AccessToken], error) {
	body, err := in.Given.read()
	if err != nil {
		return nil, err
	}
	made, err := s.options.Calls.Auth.OpenSession(ctx, &rotav1.OpenSessionRequest{Id: body.ID, Hash: body.Hash,
		Link: body.Link})
	return tokenAnswer(made.GetSession(), err)
}

func (s accessCalls) claimSession(ctx context.Context,
	in *Setting[rest.SessionClaim]) (*Answer[rota.AccessToken], error) {
	body, err := in.Given.read()
	if err != nil {
		return nil, err
	}
	return tokenAnswer(s.options.Calls.Auth.ClaimSession(ctx, &rotav1.ClaimSessionRequest{Id: in.ID, Hash: body.Hash}))
}

func (s accessCalls) endSession(ctx context.Context, in *Named) (*Answer[rest.Done], error) {
	_, err := s.options.Calls.Auth.EndSession(ctx, &rotav1.EndSessionRequest{Id: in.ID})
	return answer(rest.Done{}, nil), err
}
