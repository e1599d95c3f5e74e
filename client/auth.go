package client

import (
	"context"
	"crypto/rand"
	"iter"
	"net"
	"net/netip"
	"sync/atomic"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/access"
)

// WithToken shows an access token, rota_ID_SECRET, with each call. It is sent over TLS, or in
// clear text to addresses of loopback; Dial refuses any other.
func WithToken(token string) Option {
	return func(s *settings) {
		if s.token = nil; token != "" {
			s.token = func() (string, error) { return token, nil }
		}
	}
}

// WithTokenFrom is WithToken with a token that is asked for at each call: it may be replaced
// while the client runs. Where none is to be had, or what there is is no token, the one before
// is shown. token is called by many at once, and does not wait.
func WithTokenFrom(token func() (string, error)) Option { return func(s *settings) { s.token = token } }

// bearer shows a token with each call.
type bearer struct {
	token  func() (string, error)
	secure bool
	last   atomic.Pointer[shownToken]
}

// shownToken is a token, and how it is shown.
type shownToken struct {
	token  string
	header map[string]string
}

// bearerOf returns what shows the token to an address; nil without one.
func bearerOf(address string, s *settings) (*bearer, error) {
	if s.token == nil || ofSocket(address) {
		return nil, nil
	}
	if err := hidden(address, s, "token"); err != nil {
		return nil, err
	}
	b := &bearer{token: s.token, secure: s.tls != nil}
	err := b.look()
	return b, err
}

// look asks for the token, and keeps it where it is another one.
func (b *bearer) look() error {
	token, err := b.token()
	if err != nil {
		return err
	}
	if last := b.last.Load(); last != nil && last.token == token {
		return nil
	}
	credential, err := access.ParseCredential(token)
	if err != nil {
		return err
	}
	b.last.Store(&shownToken{token, map[string]string{"authorization": "Bearer " + credential.Secret()}})
	return nil
}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (b *bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	_ = b.look() // the one before stands in: a file may be half written
	return b.last.Load().header, nil
}

// shown returns what a call that begins now would show; nil without a token.
func (b *bearer) shown() *shownToken {
	if b == nil {
		return nil
	}
	_ = b.look()
	return b.last.Load()
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (b *bearer) RequireTransportSecurity() bool { return b.secure }

// hidden refuses to show a credential to an address in clear text.
func hidden(address string, s *settings, what string) error {
	if s.tls != nil || ofSocket(address) || loopback(address) {
		return nil
	}
	return rota.Refusef(rota.KindInvalid, what, "the %s would go to %s in clear text: set up TLS, or use an address of loopback", what, address)
}

func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// Auth are the calls that say who may do what: [Client.Auth].
type Auth struct{ c *Client }

// Auth returns the calls of tokens, roles and blocks.
func (c *Client) Auth() Auth { return Auth{c} }

// WhoAmI reads who the client is to the cluster, and what it may do.
func (a Auth) WhoAmI(ctx context.Context) (rota.Identity, error) {
	ask := func(ctx context.Context, n *node) (*rotav1.Identity, error) {
		return n.auth.WhoAmI(ctx, &rotav1.WhoAmIRequest{})
	}
	return one(ctx, a.c, "who am I", words.IdentityFromWire, ask)
}

// Init makes the first token of a cluster, which may do everything, and has callers without a
// token do nothing from then on: once. Only the account that a node runs as may ask for it, at
// the address unix:DATA/rota.sock of the node's data directory.
func (a Auth) Init(ctx context.Context, expires rota.Date) (t rota.AccessToken, secret string, err error) {
	return a.first(ctx, "init", expires, false)
}

// Reset makes another token that may do everything, where the first is lost, as Init does.
func (a Auth) Reset(ctx context.Context, expires rota.Date) (t rota.AccessToken, secret string, err error) {
	return a.first(ctx, "reset", expires, true)
}

func (a Auth) first(ctx context.Context, what string, expires rota.Date, reset bool) (rota.AccessToken, string, error) {
	return a.make(ctx, what, func(ctx context.Context, n *node, c access.Credential) (*rotav1.AccessToken, error) {
		return n.auth.Init(ctx, words.InitToWire(&rota.AccessToken{ID: c.ID, Expires: expires}, c.Hash(), reset))
	})
}

// CreateToken makes an access token with the Roles, the narrowing and the date of expiry of
// want. Its id and secret are drawn here; the cluster gets a hash, and the secret is returned
// this once.
func (a Auth) CreateToken(ctx context.Context, want rota.AccessToken) (t rota.AccessToken, secret string, err error) {
	return a.make(ctx, "create token", func(ctx context.Context, n *node, c access.Credential) (*rotav1.AccessToken, error) {
		want.ID = c.ID
		return n.auth.CreateToken(ctx, words.NewTokenToWire(&want, c.Hash()))
	})
}

// make draws a token and has it made.
func (a Auth) make(ctx context.Context, what string, call func(context.Context, *node, access.Credential) (*rotav1.AccessToken, error)) (
	t rota.AccessToken, secret string, err error) {
	var random [40]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand stops the process instead
	credential := access.CredentialOf(random)
	ask := func(ctx context.Context, n *node) (*rotav1.AccessToken, error) { return call(ctx, n, credential) }
	if t, err = one(ctx, a.c, what, words.AccessTokenFromWire, ask); err != nil {
		return t, "", err
	}
	return t, credential.Secret(), nil
}

// AccessTokens lists the tokens that have not expired, by id, revoked ones among them.
func (a Auth) AccessTokens(ctx context.Context, opts ...ReadOption) iter.Seq2[rota.AccessToken, error] {
	return list(ctx, a.c, "list tokens", 0, "", opts, func(ctx context.Context, n *node, p page) (got pageOf[rota.AccessToken], err error) {
		answer, err := n.auth.ListTokens(ctx, &rotav1.ListTokensRequest{Read: words.ReadToWire(p.read), Limit: int32(p.limit), Cursor: p.cursor})
		if err != nil {
			return got, err
		}
		got.items, err = words.AccessTokensFromWire(answer.GetTokens())
		got.next, got.at = answer.GetNextCursor(), answer.GetAt()
		return got, err
	})
}

// RevokeToken ends a token for good, by its id; one that was revoked already is no error.
func (a Auth) RevokeToken(ctx context.Context, id string) error {
	return a.c.call(ctx, "revoke token", answerMost, func(ctx context.Context, n *node) error {
		_, err := n.auth.RevokeToken(ctx, &rotav1.RevokeTokenRequest{Id: id})
		return err
	})
}

// SetRole creates a role with the Name, the Grants and the RoleLimits of role, or replaces those
// of one. Those built in never change.
func (a Auth) SetRole(ctx context.Context, role rota.Role, only ...Condition) (rota.Role, error) {
	request := words.NewRoleToWire(&role)
	request.IfMatch = etagOf(only)
	ask := func(ctx context.Context, n *node) (*rotav1.Role, error) {
		return n.auth.SetRole(ctx, request)
	}
	return one(ctx, a.c, "set role", words.RoleFromWire, ask)
}

// Roles lists the roles by name, those built in among them.
func (a Auth) Roles(ctx context.Context, opts ...ReadOption) iter.Seq2[rota.Role, error] {
	return list(ctx, a.c, "list roles", 0, "", opts, func(ctx context.Context, n *node, p page) (got pageOf[rota.Role], err error) {
		answer, err := n.auth.ListRoles(ctx, &rotav1.ListRolesRequest{Read: words.ReadToWire(p.read), Limit: int32(p.limit), Cursor: p.cursor})
		if err != nil {
			return got, err
		}
		got.items, err = words.RolesFromWire(answer.GetRoles())
		got.next, got.at = answer.GetNextCursor(), answer.GetAt()
		return got, err
	})
}

// DeleteRole forgets a role: who has it loses what it grants.
func (a Auth) DeleteRole(ctx context.Context, name string, only ...Condition) error {
	return a.c.call(ctx, "delete role", answerMost, func(ctx context.Context, n *node) error {
		_, err := n.auth.DeleteRole(ctx, &rotav1.DeleteRoleRequest{Name: name, IfMatch: etagOf(only)})
		return err
	})
}

// SetBlock refuses the client certificates of a role and a name, or takes them again.
func (a Auth) SetBlock(ctx context.Context, role, name string, blocked bool) error {
	return a.c.call(ctx, "set block", answerMost, func(ctx context.Context, n *node) error {
		_, err := n.auth.SetBlock(ctx, &rotav1.SetBlockRequest{Role: role, Name: name, Blocked: blocked})
		return err
	})
}

// Blocks lists the client certificates that are refused, by role and name.
func (a Auth) Blocks(ctx context.Context, opts ...ReadOption) iter.Seq2[rota.Block, error] {
	return list(ctx, a.c, "list blocks", 0, "", opts, func(ctx context.Context, n *node, p page) (got pageOf[rota.Block], err error) {
		answer, err := n.auth.ListBlocks(ctx, &rotav1.ListBlocksRequest{Read: words.ReadToWire(p.read), Limit: int32(p.limit), Cursor: p.cursor})
		if err != nil {
			return got, err
		}
		got.items, err = words.BlocksFromWire(answer.GetBlocks())
		got.next, got.at = answer.GetNextCursor(), answer.GetAt()
		return got, err
	})
}

// SetAnonymous says which roles callers without a credential have; none: they may do nothing.
func (a Auth) SetAnonymous(ctx context.Context, roles []string) error {
	return a.c.call(ctx, "set anonymous", answerMost, func(ctx context.Context, n *node) error {
		_, err := n.auth.SetAnonymous(ctx, &rotav1.SetAnonymousRequest{Roles: roles})
		return err
	})
}

// SetIssuer takes the identity tokens of an identity provider, or changes which: its URL, Audience,
// CA and Maps.
func (a Auth) SetIssuer(ctx context.Context, i rota.Issuer, only ...Condition) (rota.Issuer, error) {
	ask := func(ctx context.Context, n *node) (*rotav1.Issuer, error) {
		return n.auth.SetIssuer(ctx, &rotav1.SetIssuerRequest{Url: i.URL, Audience: i.Audience, Ca: i.CA, Maps: words.MapsToWire(i.Maps), IfMatch: etagOf(only)})
	}
	return one(ctx, a.c, "set issuer", words.IssuerFromWire, ask)
}

// Issuers lists the identity providers whose tokens are taken, by URL.
func (a Auth) Issuers(ctx context.Context, opts ...ReadOption) iter.Seq2[rota.Issuer, error] {
	return list(ctx, a.c, "list issuers", 0, "", opts, func(ctx context.Context, n *node, p page) (got pageOf[rota.Issuer], err error) {
		answer, err := n.auth.ListIssuers(ctx, &rotav1.ListIssuersRequest{Read: words.ReadToWire(p.read), Limit: int32(p.limit), Cursor: p.cursor})
		if err != nil {
			return got, err
		}
		got.items, err = words.IssuersFromWire(answer.GetIssuers())
		got.next, got.at = answer.GetNextCursor(), answer.GetAt()
		return got, err
	})
}

// DeleteIssuer takes no tokens of an identity provider any more, by its URL. Access tokens that
// were made for them go on until they expire, or are revoked.
func (a Auth) DeleteIssuer(ctx context.Context, url string, only ...Condition) error {
	return a.c.call(ctx, "delete issuer", answerMost, func(ctx context.Context, n *node) error {
		_, err := n.auth.DeleteIssuer(ctx, &rotav1.DeleteIssuerRequest{Url: url, IfMatch: etagOf(only)})
		return err
	})
}

// Exchange makes an access token for an identity token, a JWT of an issuer that is set. It needs
// no other credential, and like a token the JWT is sent over TLS or to addresses of loopback
// only. The access token counts until the identity token ends, an hour at most; the identity
// token counts this once. Like CreateToken it returns the secret, this once.
func (a Auth) Exchange(ctx context.Context, jwt string) (t rota.AccessToken, secret string, err error) {
	var random [40]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand stops the process instead
	credential := access.CredentialOf(random)
	hash := credential.Hash()
	ask := func(ctx context.Context, n *node) (*rotav1.AccessToken, error) {
		if n.noJWT != nil {
			return nil, n.noJWT
		}
		return n.auth.Exchange(ctx, &rotav1.ExchangeRequest{Jwt: jwt, Id: credential.ID, Hash: hash[:]})
	}
	if t, err = one(ctx, a.c, "exchange", words.AccessTokenFromWire, ask); err != nil {
		return t, "", err
	}
	return t, credential.Secret(), nil
}

// OpenSession makes a browser session of the client's own principal: a credential with its rights at
// each moment, which ends when it does, after 12 hours at the latest. A link is a session that has no
// rights until somebody opens it in the console, once, within a minute. OpenSession returns the
// secret, this once, and the origin of the console for browsers, empty if the node that answers has no
// --ui-origin.
func (a Auth) OpenSession(ctx context.Context, asLink bool) (t rota.AccessToken, secret, origin string, err error) {
	t, secret, err = a.make(ctx, "open session", func(ctx context.Context, n *node, c access.Credential) (*rotav1.AccessToken, error) {
		hash := c.Hash()
		made, err := n.auth.OpenSession(ctx, &rotav1.OpenSessionRequest{Id: c.ID, Hash: hash[:], Link: asLink})
		origin = made.GetUiOrigin()
		return made.GetSession(), err
	})
	return t, secret, origin, err
}

// EndSession signs a session out that the client opened, or itself.
func (a Auth) EndSession(ctx context.Context, id string) error {
	return a.c.call(ctx, "end session", answerMost, func(ctx context.Context, n *node) error {
		_, err := n.auth.EndSession(ctx, &rotav1.EndSessionRequest{Id: id})
		return err
	})
}
