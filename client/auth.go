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

// WithToken sends an access token, rota_ID_SECRET, with each call. It is sent over TLS, or in clear text to loopback
// addresses; Dial rejects any other address.
func WithToken(token string) Option {
	return func(s *settings) {
		if s.token = nil; token != "" {
			s.token = func() (string, error) { return token, nil }
		}
	}
}

// WithTokenFrom is like WithToken, but calls token at each call: the token may be replaced while the client runs. If
// token returns an error or something that is not a token, the previous token is sent. token is called concurrently and
// must not block.
func WithTokenFrom(token func() (string, error)) Option { return func(s *settings) { s.token = token } }

// bearer attaches a token to each call.
type bearer struct {
	token  func() (string, error)
	secure bool
	last   atomic.Pointer[shownToken]
}

// shownToken is a token and the metadata that carries it.
type shownToken struct {
	token  string
	header map[string]string
}

// bearerOf returns the bearer for an address; nil without a token.
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

// look reads the token, and stores it if it has changed.
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
	_ = b.look() // on an error the previous token is used: a file may be half written
	return b.last.Load().header, nil
}

// shown returns the token that a call beginning now would send; nil without a token.
func (b *bearer) shown() *shownToken {
	if b == nil {
		return nil
	}
	_ = b.look()
	return b.last.Load()
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (b *bearer) RequireTransportSecurity() bool { return b.secure }

// hidden rejects sending a credential to an address in clear text.
func hidden(address string, s *settings, what string) error {
	if s.tls != nil || ofSocket(address) || loopback(address) {
		return nil
	}
	return rota.Refusef(rota.KindInvalid, what,
		"the %s would go to %s in clear text: set up TLS, or use an address of loopback", what, address)
}

func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// Auth groups the calls that manage credentials and rights: [Client.Auth].
type Auth struct{ c *Client }

// Auth returns the calls for tokens, roles and blocks.
func (c *Client) Auth() Auth { return Auth{c} }

// WhoAmI reads the client's own identity and rights, as the cluster sees them.
func (a Auth) WhoAmI(ctx context.Context) (rota.Identity, error) {
	ask := func(ctx context.Context, n *node) (*rotav1.Identity, error) {
		return n.auth.WhoAmI(ctx, &rotav1.WhoAmIRequest{})
	}
	return one(ctx, a.c, "who am I", words.IdentityFromWire, ask)
}

// Init creates the first token of a cluster, which has all rights; from then on callers without a token have none. It
// works once. Only the account that a node runs as may call it, at the address unix:DATA/rota.sock of the node's data
// directory.
func (a Auth) Init(ctx context.Context, expires rota.Date) (t rota.AccessToken, secret string, err error) {
	return a.first(ctx, "init", expires, false)
}

// Reset creates another token with all rights, for when the first one is lost. It has the same conditions as Init.
func (a Auth) Reset(ctx context.Context, expires rota.Date) (t rota.AccessToken, secret string, err error) {
	return a.first(ctx, "reset", expires, true)
}

func (a Auth) first(ctx context.Context, what string, expires rota.Date, reset bool) (rota.AccessToken, string, error) {
	return a.make(ctx, what, func(ctx context.Context, n *node, c access.Credential) (*rotav1.AccessToken, error) {
		return n.auth.Init(ctx, words.InitToWire(&rota.AccessToken{ID: c.ID, Expires: expires}, c.Hash(), reset))
	})
}

// CreateToken creates an access token with the Roles, the narrowing and the expiry date of want. The client generates
// id and secret; the cluster gets only a hash, and the secret is returned only here.
func (a Auth) CreateToken(ctx context.Context, want rota.AccessToken) (t rota.AccessToken, secret string, err error) {
	return a.make(ctx, "create token", func(ctx context.Context, n *node, c access.Credential) (*rotav1.AccessToken,
		error) {
		want.ID = c.ID
		return n.auth.CreateToken(ctx, words.NewTokenToWire(&want, c.Hash()))
	})
}

// make generates a token and has the cluster store its hash.
func (a Auth) make(ctx context.Context, what string,
	call func(context.Context, *node, access.Credential) (*rotav1.AccessToken, error)) (
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

// AccessTokens lists the tokens that have not expired, by id, including revoked ones.
func (a Auth) AccessTokens(ctx context.Context, opts ...ReadOption) iter.Seq2[rota.AccessToken, error] {
	return list(ctx, a.c, "list tokens", 0, "", opts,
		func(ctx context.Context, n *node, p page) (got pageOf[rota.AccessToken], err error) {
			answer, err := n.auth.ListTokens(ctx, &rotav1.ListTokensRequest{Read: words.ReadToWire(p.read),
				Limit: int32(p.limit), Cursor: p.cursor})
			if err != nil {
				return got, err
			}
			got.items, err = words.AccessTokensFromWire(answer.GetTokens())
			got.next, got.at = answer.GetNextCursor(), answer.GetAt()
			return got, err
		})
}

// RevokeToken revokes a token for good, by its id; revoking it again is not an error.
func (a Auth) RevokeToken(ctx context.Context, id string) error {
	return a.c.call(ctx, "revoke token", maxAnswer, func(ctx context.Context, n *node) error {
		_, err := n.auth.RevokeToken(ctx, &rotav1.RevokeTokenRequest{Id: id})
		return err
	})
}

// SetRole creates a role with the Name, the Grants and the RoleLimits of role, or replaces the Grants and RoleLimits of
// the existing role with that Name.
// Built-in roles never change.
func (a Auth) SetRole(ctx context.Context, role rota.Role, only ...Condition) (rota.Role, error) {
	request := words.NewRoleToWire(&role)
	request.IfMatch = etagOf(only)
	ask := func(ctx context.Context, n *node) (*rotav1.Role, error) {
		return n.auth.SetRole(ctx, request)
	}
	return one(ctx, a.c, "set role", words.RoleFromWire, ask)
}

// Roles lists the roles by name, including built-in ones.
func (a Auth) Roles(ctx context.Context, opts ...ReadOption) iter.Seq2[rota.Role, error] {
	return list(ctx, a.c, "list roles", 0, "", opts, func(ctx context.Context, n *node, p page) (got pageOf[rota.Role],
		err error) {
		answer, err := n.auth.ListRoles(ctx, &rotav1.ListRolesRequest{Read: words.ReadToWire(p.read),
			Limit: int32(p.limit), Cursor: p.cursor})
		if err != nil {
			return got, err
		}
		got.items, err = words.RolesFromWire(answer.GetRoles())
		got.next, got.at = answer.GetNextCursor(), answer.GetAt()
		return got, err
	})
}

// DeleteRole deletes a role: its holders lose the rights that it grants.
func (a Auth) DeleteRole(ctx context.Context, name string, only ...Condition) error {
	return a.c.call(ctx, "delete role", maxAnswer, func(ctx context.Context, n *node) error {
		_, err := n.auth.DeleteRole(ctx, &rotav1.DeleteRoleRequest{Name: name, IfMatch: etagOf(only)})
		return err
	})
}

// SetBlock blocks the client certificates of a role and a name, or accepts them again.
func (a Auth) SetBlock(ctx context.Context, role, name string, blocked bool) error {
	return a.c.call(ctx, "set block", maxAnswer, func(ctx context.Context, n *node) error {
		_, err := n.auth.SetBlock(ctx, &rotav1.SetBlockRequest{Role: role, Name: name, Blocked: blocked})
		return err
	})
}

// Blocks lists the blocked client certificates, by role and name.
func (a Auth) Blocks(ctx context.Context, opts ...ReadOption) iter.Seq2[rota.Block, error] {
	return list(ctx, a.c, "list blocks", 0, "", opts,
		func(ctx context.Context, n *node, p page) (got pageOf[rota.Block], err error) {
			answer, err := n.auth.ListBlocks(ctx, &rotav1.ListBlocksRequest{Read: words.ReadToWire(p.read),
				Limit: int32(p.limit), Cursor: p.cursor})
			if err != nil {
				return got, err
			}
			got.items, err = words.BlocksFromWire(answer.GetBlocks())
			got.next, got.at = answer.GetNextCursor(), answer.GetAt()
			return got, err
		})
}

// SetAnonymous sets the roles of callers without a credential; with none they have no rights.
func (a Auth) SetAnonymous(ctx context.Context, roles []string) error {
	return a.c.call(ctx, "set anonymous", maxAnswer, func(ctx context.Context, n *node) error {
		_, err := n.auth.SetAnonymous(ctx, &rotav1.SetAnonymousRequest{Roles: roles})
		return err
	})
}

// SetIssuer makes the cluster accept the JWTs of an identity provider, or changes which it accepts: its URL, Audience,
// CA and Maps.
func (a Auth) SetIssuer(ctx context.Context, i rota.Issuer, only ...Condition) (rota.Issuer, error) {
	ask := func(ctx context.Context, n *node) (*rotav1.Issuer, error) {
		return n.auth.SetIssuer(ctx, &rotav1.SetIssuerRequest{Url: i.URL, Audience: i.Audience, Ca: i.CA,
			Maps: words.MapsToWire(i.Maps), IfMatch: etagOf(only)})
	}
	return one(ctx, a.c, "set issuer", words.IssuerFromWire, ask)
}

// Issuers lists the identity providers whose JWTs are accepted, by URL.
func (a Auth) Issuers(ctx context.Context, opts ...ReadOption) iter.Seq2[rota.Issuer, error] {
	return list(ctx, a.c, "list issuers", 0, "", opts,
		func(ctx context.Context, n *node, p page) (got pageOf[rota.Issuer], err error) {
			answer, err := n.auth.ListIssuers(ctx, &rotav1.ListIssuersRequest{Read: words.ReadToWire(p.read),
				Limit: int32(p.limit), Cursor: p.cursor})
			if err != nil {
				return got, err
			}
			got.items, err = words.IssuersFromWire(answer.GetIssuers())
			got.next, got.at = answer.GetNextCursor(), answer.GetAt()
			return got, err
		})
}

// DeleteIssuer makes the cluster reject the JWTs of an identity provider, by its URL. Access tokens that were created
// from them stay valid until they expire or are revoked.
func (a Auth) DeleteIssuer(ctx context.Context, url string, only ...Condition) error {
	return a.c.call(ctx, "delete issuer", maxAnswer, func(ctx context.Context, n *node) error {
		_, err := n.auth.DeleteIssuer(ctx, &rotav1.DeleteIssuerRequest{Url: url, IfMatch: etagOf(only)})
		return err
	})
}

// Exchange creates an access token from a JWT of a configured issuer. It needs no other credential. Like a token, the
// JWT is sent only over TLS or to loopback addresses. The access token is valid until the JWT expires, one hour at
// most; a JWT can be exchanged once. The secret is returned only here, as with CreateToken.
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

// OpenSession creates a browser session of the client's own principal: a credential that has the principal's rights at
// each moment, and ends when the principal's credential does, after 12 hours at the latest. A link is a session that
// has no rights until it is opened in the console, once, within a minute. OpenSession returns the secret, only here,
// and the console's origin for browsers, which is empty if the node that answers has no --ui-origin.
func (a Auth) OpenSession(ctx context.Context, asLink bool) (t rota.AccessToken, secret, origin string, err error) {
	t, secret, err = a.make(ctx, "open session",
		func(ctx context.Context, n *node, c access.Credential) (*rotav1.AccessToken, error) {
			hash := c.Hash()
			made, err := n.auth.OpenSession(ctx, &rotav1.OpenSessionRequest{Id: c.ID, Hash: hash[:], Link: asLink})
			origin = made.GetUiOrigin()
			return made.GetSession(), err
		})
	return t, secret, origin, err
}

// EndSession ends a session that the client opened, or the session that the client itself uses.
func (a Auth) EndSession(ctx context.Context, id string) error {
	return a.c.call(ctx, "end session", maxAnswer, func(ctx context.Context, n *node) error {
		_, err := n.auth.EndSession(ctx, &rotav1.EndSessionRequest{Id: id})
		return err
	})
}
