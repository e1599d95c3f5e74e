package transport

import (
	"context"
	"time"

	link "google.golang.org/grpc/peer"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/transport/oidc"
)

// authService serves Auth.
type authService struct {
	rotav1.UnimplementedAuthServer
	core interface {
		AuthCore
		SessionCore
		SelfCore
	}
	// identities verifies identity tokens before an exchange. exchanges limits the attempts.
	identities oidc.Verifier
	exchanges  *addressLimiter
	// uiOrigin is the origin of the console, empty if each node serves it itself.
	uiOrigin string
}

// WhoAmI returns the caller as authenticated, and its rights.
func (s *authService) WhoAmI(ctx context.Context, _ *rotav1.WhoAmIRequest) (*rotav1.Identity, error) {
	p, err := passOf(ctx)
	if err != nil {
		return nil, err
	}
	who := p.rights.Of(p.caller.Actor)
	if id, ok := p.caller.Actor.Token(); ok {
		t, _ := p.table.Token(id)
		who.By = t.By
	}
	if _, parent, ok := p.caller.Actor.Session(); ok {
		who.By = parent
	}
	return words.IdentityToWire(&who), nil
}

// Init creates the first token, or a further one, with all rights.
func (s *authService) Init(ctx context.Context, req *rotav1.InitRequest) (*rotav1.AccessToken, error) {
	t, hash, reset, err := words.InitFromWire(req)
	if err == nil {
		t.Roles = []string{access.RoleRoot}
		err = access.CheckToken(&t)
	}
	if err != nil {
		return nil, err
	}
	return reply(words.AccessTokenToWire)(s.core.InitAuth(ctx, t, hash, reset))
}

// CreateToken stores a token with the hash of its secret. The secret itself is never sent to a node.
func (s *authService) CreateToken(ctx context.Context, req *rotav1.CreateTokenRequest) (*rotav1.AccessToken, error) {
	t, hash, err := words.NewTokenFromWire(req)
	if err == nil {
		err = access.CheckToken(&t)
	}
	if err != nil {
		return nil, err
	}
	return reply(words.AccessTokenToWire)(s.core.CreateToken(ctx, t, hash))
}

// ListTokens reads the tokens by id, whole or in pages.
func (s *authService) ListTokens(ctx context.Context,
	req *rotav1.ListTokensRequest) (*rotav1.ListTokensResponse, error) {
	rows, at, next, err := wholeList(ctx, req, s.core.AccessTokens, func(t *rota.AccessToken) string { return t.ID },
		words.AccessTokenToWire)
	if err != nil {
		return nil, err
	}
	return &rotav1.ListTokensResponse{Tokens: rows, At: at, NextCursor: next}, nil
}

// RevokeToken ends a token permanently.
func (s *authService) RevokeToken(ctx context.Context,
	req *rotav1.RevokeTokenRequest) (*rotav1.RevokeTokenResponse, error) {
	if err := access.CheckTokenID(req.GetId()); err != nil {
		return nil, err
	}
	return &rotav1.RevokeTokenResponse{}, s.core.RevokeToken(ctx, req.GetId())
}

// SetRole creates a role, or replaces the grants and the limits of one.
func (s *authService) SetRole(ctx context.Context, req *rotav1.SetRoleRequest) (*rotav1.Role, error) {
	ctx, err := ifMatch(ctx, req.GetIfMatch())
	if err != nil {
		return nil, err
	}
	if n := len(req.GetGrants()); n > limits.MaxGrants {
		return nil, rota.Refusef(rota.KindInvalid, "grants", "grants: got %d, want 1 to %d", n, limits.MaxGrants)
	}
	role, err := words.NewRoleFromWire(req)
	if err != nil {
		return nil, err
	}
	if err := access.CheckRole(&role); err != nil {
		return nil, err
	}
	return reply(words.RoleToWire)(s.core.SetRole(ctx, role))
}

// ListRoles reads the roles by name, including built-in ones.
func (s *authService) ListRoles(ctx context.Context, req *rotav1.ListRolesRequest) (*rotav1.ListRolesResponse, error) {
	rows, at, next, err := wholeList(ctx, req, s.core.Roles, func(r *rota.Role) string { return r.Name },
		words.RoleToWire)
	if err != nil {
		return nil, err
	}
	return &rotav1.ListRolesResponse{Roles: rows, At: at, NextCursor: next}, nil
}

// DeleteRole deletes a role.
func (s *authService) DeleteRole(ctx context.Context,
	req *rotav1.DeleteRoleRequest) (*rotav1.DeleteRoleResponse, error) {
	ctx, err := ifMatch(ctx, req.GetIfMatch())
	if err != nil {
		return nil, err
	}
	if err := rota.CheckID("role", req.GetName()); err != nil {
		return nil, err
	}
	return &rotav1.DeleteRoleResponse{}, s.core.DeleteRole(ctx, req.GetName())
}

// SetBlock blocks the certificates of a role and a name, or unblocks them.
func (s *authService) SetBlock(ctx context.Context, req *rotav1.SetBlockRequest) (*rotav1.SetBlockResponse, error) {
	if err := access.CheckPrincipal(rota.CertPrincipal(req.GetRole(), req.GetName())); err != nil {
		return nil, err
	}
	return &rotav1.SetBlockResponse{}, s.core.SetBlock(ctx, req.GetRole(), req.GetName(), req.GetBlocked())
}

// ListBlocks reads which certificates are blocked, by role and name.
func (s *authService) ListBlocks(ctx context.Context,
	req *rotav1.ListBlocksRequest) (*rotav1.ListBlocksResponse, error) {
	rows, at, next, err := wholeList(ctx, req, s.core.Blocks,
		func(b *rota.Block) string { return b.Role + "/" + b.Name }, words.BlockToWire)
	if err != nil {
		return nil, err
	}
	return &rotav1.ListBlocksResponse{Blocks: rows, At: at, NextCursor: next}, nil
}

// SetAnonymous sets the roles of callers without a credential.
func (s *authService) SetAnonymous(ctx context.Context,
	req *rotav1.SetAnonymousRequest) (*rotav1.SetAnonymousResponse, error) {
	if n := len(req.GetRoles()); n > limits.MaxTokenRoles {
		return nil, rota.TooMany("roles", n, limits.MaxTokenRoles)
	}
	for _, name := range req.GetRoles() {
		if err := rota.CheckID("role", name); err != nil {
			return nil, err
		}
	}
	return &rotav1.SetAnonymousResponse{}, s.core.SetAnonymous(ctx, req.GetRoles())
}

// SetIssuer adds an identity provider whose tokens are accepted, or changes its settings.
func (s *authService) SetIssuer(ctx context.Context, req *rotav1.SetIssuerRequest) (*rotav1.Issuer, error) {
	ctx, err := ifMatch(ctx, req.GetIfMatch())
	if err != nil {
		return nil, err
	}
	if n := len(req.GetMaps()); n > limits.MaxIssuerMaps {
		return nil, rota.Refusef(rota.KindInvalid, "maps", "maps: got %d, want 1 to %d", n, limits.MaxIssuerMaps)
	}
	i := rota.Issuer{URL: req.GetUrl(), Audience: req.GetAudience(), CA: req.GetCa(),
		Maps: words.MapsFromWire(req.GetMaps())}
	if err := access.CheckIssuer(&i); err != nil {
		return nil, err
	}
	if _, err := oidc.Roots(i.CA); err != nil {
		return nil, err
	}
	return reply(words.IssuerToWire)(s.core.SetIssuer(ctx, i))
}

// ListIssuers reads the identity providers by URL, whole or in pages.
func (s *authService) ListIssuers(ctx context.Context,
	req *rotav1.ListIssuersRequest) (*rotav1.ListIssuersResponse, error) {
	rows, at, next, err := wholeList(ctx, req, s.core.Issuers, func(i *rota.Issuer) string { return i.URL },
		words.IssuerToWire)
	if err != nil {
		return nil, err
	}
	return &rotav1.ListIssuersResponse{Issuers: rows, At: at, NextCursor: next}, nil
}

// DeleteIssuer stops accepting an identity provider's tokens.
func (s *authService) DeleteIssuer(ctx context.Context,
	req *rotav1.DeleteIssuerRequest) (*rotav1.DeleteIssuerResponse, error) {
	ctx, err := ifMatch(ctx, req.GetIfMatch())
	if err != nil {
		return nil, err
	}
	if err := access.CheckIssuerURL(req.GetUrl()); err != nil {
		return nil, err
	}
	return &rotav1.DeleteIssuerResponse{}, s.core.DeleteIssuer(ctx, req.GetUrl())
}

// Exchange verifies an identity token and creates an access token for it (SECURITY §1.18). The caller sends only the
// hash of the access token's secret. The node does not forward the identity token.
func (s *authService) Exchange(ctx context.Context, req *rotav1.ExchangeRequest) (*rotav1.AccessToken, error) {
	address := ""
	if from, ok := link.FromContext(ctx); ok {
		address = addressOf(from.Addr)
	}
	if err := s.exchanges.pass(address, time.Now()); err != nil {
		return nil, err
	}
	if err := access.CheckTokenID(req.GetId()); err != nil {
		return nil, err
	}
	if n := len(req.GetHash()); n != 32 {
		return nil, rota.Refusef(rota.KindInvalid, "hash", "hash: got %d bytes, want the 32 of the token's SHA-256", n)
	}
	table := s.core.Access()
	if table == nil {
		return nil, &rota.Error{Kind: rota.KindUnavailable, Subject: "cluster", RetryAfter: comeBack,
			Text: "the node has not joined a cluster yet: try again"}
	}
	found, err := s.identities.Verify(ctx, req.GetJwt(), table.Issuer)
	if err != nil {
		return nil, err
	}
	found.Token, found.Hash = req.GetId(), [32]byte(req.GetHash())
	return reply(words.AccessTokenToWire)(s.core.Exchange(ctx, found))
}

// OpenSession creates a browser session of the caller, which ends with the certificate that the caller presents.
func (s *authService) OpenSession(ctx context.Context,
	req *rotav1.OpenSessionRequest) (*rotav1.OpenSessionResponse, error) {
	if err := shows(ctx); err != nil {
		return nil, err
	}
	hash, err := sessionOf(req.GetId(), req.GetHash())
	if err != nil {
		return nil, err
	}
	made, err := s.core.OpenSession(ctx, req.GetId(), hash, req.GetLink(), certificateEnd(ctx))
	if err != nil {
		return nil, err
	}
	return &rotav1.OpenSessionResponse{Session: words.AccessTokenToWire(&made), UiOrigin: s.uiOrigin}, nil
}

// shows rejects callers without a credential before their request is examined. Every session belongs to a credential,
// and ends with it.
func shows(ctx context.Context) error {
	p, err := passOf(ctx)
	if err != nil {
		return err
	}
	if p.caller.Actor == rota.Anonymous {
		return rota.Refusef(rota.KindUnauthenticated, "credential",
			"the call has no credential: open a browser session with a token or a client certificate")
	}
	return nil
}

// certificateEnd returns the expiry of the caller's certificate; 0 without one.
func certificateEnd(ctx context.Context) rota.Date {
	shown, ok := ctx.Value(shownKey{}).(edgeInfo)
	if from, found := link.FromContext(ctx); !ok && found {
		shown, _ = from.AuthInfo.(edgeInfo)
	}
	if shown.client == "" || len(shown.State.PeerCertificates) == 0 {
		return 0
	}
	return rota.DateOf(shown.State.PeerCertificates[0].NotAfter)
}

func sessionOf(id string, b []byte) (hash [32]byte, err error) {
	if err := access.CheckTokenID(id); err != nil {
		return hash, err
	}
	if len(b) != len(hash) {
		return hash, rota.Refusef(rota.KindInvalid, "hash", "hash: got %d bytes, want %d", len(b), len(hash))
	}
	return [32]byte(b), nil
}

// ClaimSession replaces the secret of a link's session with a secret that only its user knows.
func (s *authService) ClaimSession(ctx context.Context, req *rotav1.ClaimSessionRequest) (*rotav1.AccessToken, error) {
	if err := shows(ctx); err != nil {
		return nil, err
	}
	hash, err := sessionOf(req.GetId(), req.GetHash())
	if err != nil {
		return nil, err
	}
	return reply(words.AccessTokenToWire)(s.core.ClaimSession(ctx, req.GetId(), hash))
}

// EndSession signs a session out.
func (s *authService) EndSession(ctx context.Context,
	req *rotav1.EndSessionRequest) (*rotav1.EndSessionResponse, error) {
	if err := shows(ctx); err != nil {
		return nil, err
	}
	if err := access.CheckTokenID(req.GetId()); err != nil {
		return nil, err
	}
	return &rotav1.EndSessionResponse{}, s.core.EndSession(ctx, req.GetId())
}
