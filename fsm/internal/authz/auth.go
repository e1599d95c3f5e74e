package authz

import (
	"fmt"
	"slices"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/refuse"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
)

// SetRole creates a role, or replaces its grants and limits.
func (ac *Authority) SetRole(op *fsmpb.SetRole) *fsmpb.Outcome {
	role := roleWords(op)
	if err := access.CheckRole(&role); err != nil {
		return entry.Refused(err)
	}
	if err := ac.unfounded(); err != nil {
		return entry.Refused(err)
	}
	old := ac.Roles.Get(state.RoleName(role.Name))
	if old != nil && slices.Equal(old.Grants, role.Grants) && old.RoleLimits == role.RoleLimits {
		return &fsmpb.Outcome{Existed: true}
	}
	if err := ac.s.Journal.Matches(roleText(old, role.Name)); err != nil {
		return entry.Refused(err)
	}
	if old == nil {
		if ac.Roles.Len() >= limits.MaxRoles {
			return entry.Refused(refuse.Exhausted("role",
				"%d roles are set, no more are taken: delete one with `rota auth role delete ROLE`", limits.MaxRoles))
		}
		ac.Roles.Insert(state.RoleName(role.Name), &state.RoleRow{Role: rota.Role{Name: role.Name}})
	}
	r := ac.Roles.Edit(state.RoleName(role.Name))
	r.Grants, r.RoleLimits, r.By, r.At = role.Grants, role.RoleLimits, ac.s.Journal.Owner(), ac.s.Header.Now()
	r.ETag = state.EtagOf(r.Settings)
	ac.tell(rota.EventAuthChanged, authChanged{What: "role", Name: role.Name, Gives: role.Grants,
		RoleLimits: role.RoleLimits})
	ac.ports.Regrant(Anybody)
	return &fsmpb.Outcome{Existed: old != nil}
}

// DeleteRole deletes a role.
func (ac *Authority) DeleteRole(op *fsmpb.DeleteRole) *fsmpb.Outcome {
	if _, ok := access.BuiltInRole(op.GetName()); ok {
		return entry.Refused(rota.Refusef(rota.KindInvalid, "role", "role %s is built in and cannot be deleted",
			op.GetName()))
	}
	r := ac.Roles.Get(state.RoleName(op.GetName()))
	if r == nil {
		return entry.Refused(rota.Refusef(rota.KindNotFound, "role",
			"role %q is not set: `rota auth role list` shows those that are", op.GetName()))
	}
	if err := ac.s.Journal.Matches(roleText(r, op.GetName())); err != nil {
		return entry.Refused(err)
	}
	ac.Roles.Drop(state.RoleName(op.GetName()))
	ac.tell(rota.EventAuthChanged, authChanged{What: "role", Name: op.GetName(), Gone: true})
	ac.ports.Regrant(Anybody)
	return &fsmpb.Outcome{}
}

// roleText returns the name of a role for refusals, and its version, "" for nil.
func roleText(r *state.RoleRow, name string) (what, etag string) {
	if r != nil {
		etag = r.ETag
	}
	return fmt.Sprintf("role %q", name), etag
}

// issuerText is roleText for an identity provider.
func issuerText(r *state.IssuerRow, url string) (what, etag string) {
	if r != nil {
		etag = r.ETag
	}
	return fmt.Sprintf("issuer %.80q", url), etag
}

// CreateToken registers a token. Repeating it gives the same token, unless it was revoked.
func (ac *Authority) CreateToken(op *fsmpb.CreateToken) *fsmpb.Outcome {
	if err := ac.unfounded(); err != nil {
		return entry.Refused(err)
	}
	t, hash, err := tokenWords(op)
	if err != nil {
		return entry.Refused(err)
	}
	t.By = ac.s.Journal.Owner()
	if old := ac.Tokens.Get(state.TokenID(t.ID)); old != nil {
		return ac.createAgain(old, &t, hash)
	}
	if err := ac.creatable(&t); err != nil {
		return entry.Refused(err)
	}
	ac.addToken(t, hash)
	ac.tell(rota.EventAuthChanged, authChanged{What: "token", Name: t.ID, Roles: t.Roles, Until: t.Expires})
	return &fsmpb.Outcome{}
}

// createAgain answers for a token whose id is in use.
func (ac *Authority) createAgain(old *state.TokenRow, t *rota.AccessToken, hash [32]byte) *fsmpb.Outcome {
	if old.Hash != hash || !slices.Equal(old.Roles, t.Roles) || !slices.Equal(old.Tenants, t.Tenants) ||
		!slices.Equal(old.Queues, t.Queues) || old.WorkerPrefix != t.WorkerPrefix || old.Expires != t.Expires {
		return entry.Refused(rota.Refusef(rota.KindConflict, "token",
			"token %s exists with other content: create the token with its own id", t.ID))
	}
	if !old.Revoked.IsZero() {
		return entry.Refused(rota.Refusef(rota.KindConflict, "token", "token %s was revoked: create another one", t.ID))
	}
	return &fsmpb.Outcome{Existed: true}
}

// creatable refuses a new token that cannot be created.
func (ac *Authority) creatable(t *rota.AccessToken) error {
	for _, name := range t.Roles {
		if _, ok := ac.here().Role(name); !ok {
			return noRole(name)
		}
	}
	if err := access.CheckExpiry(t.Expires, ac.s.Header.Date()); err != nil {
		return err
	}
	if ac.Tokens.Len() >= limits.MaxTokens {
		return refuse.Exhausted("token",
			"%d tokens are known, no more are taken until some expire, revoked ones too: `rota auth token list` "+
				"shows when", limits.MaxTokens)
	}
	return ac.MayHold(t.By, access.OwnsToken)
}

func noRole(name string) error {
	return rota.Refusef(rota.KindNotFound, "role",
		"role %q is neither built in nor set: set it with `rota auth role set %s`", name, name)
}

func (ac *Authority) addToken(t rota.AccessToken, hash [32]byte) {
	t.Created = ac.s.Header.Now()
	ac.Hold(t.By, access.OwnsToken, 1)
	ac.Tokens.Insert(state.TokenID(t.ID), &state.TokenRow{AccessToken: t, Hash: hash})
	ac.s.Timers.Token.Refile(t.ID, 0, int64(t.Expires))
	ac.ports.Disown(only(rota.TokenPrincipal(t.ID))) // workers of a forgotten token with the same id
}

// RevokeToken ends a token. Its row stays until the token would have expired, so that a repeated creation does not
// restore it.
func (ac *Authority) RevokeToken(op *fsmpb.RevokeToken) *fsmpb.Outcome {
	r := ac.Tokens.Get(state.TokenID(op.GetId()))
	if r == nil {
		return entry.Refused(rota.Refusef(rota.KindNotFound, "token",
			"token %q is not known: it never was, or has expired", op.GetId()))
	}
	if !r.Revoked.IsZero() {
		return &fsmpb.Outcome{Existed: true}
	}
	if r.Parent != "" {
		ac.endOne(r.ID)
		return &fsmpb.Outcome{}
	}
	ac.Tokens.Edit(state.TokenID(r.ID)).Revoked = ac.s.Header.Now()
	ac.ports.Disown(only(rota.TokenPrincipal(r.ID)))
	ac.ports.DisableHooks("the token of whoever set it was revoked", only(rota.TokenPrincipal(r.ID)))
	ac.endSessions(rota.TokenPrincipal(r.ID))
	ac.tell(rota.EventAuthChanged, authChanged{What: "token", Name: op.GetId(), Gone: true})
	return &fsmpb.Outcome{}
}

// RevokeAll revokes every token.
func (ac *Authority) RevokeAll() {
	var live []state.TokenID
	ac.Tokens.Scan(func(id state.TokenID, r *state.TokenRow) bool {
		if r.Revoked.IsZero() {
			live = append(live, id)
		}
		return true
	})
	for _, id := range live {
		ac.Tokens.Edit(id).Revoked = ac.s.Header.Now()
	}
	ac.changed()
	ac.ports.Disown(Anybody)
}

// SetBlock blocks the certificates of a role and a name, or unblocks them.
func (ac *Authority) SetBlock(op *fsmpb.SetBlock) *fsmpb.Outcome {
	if err := access.CheckPrincipal(rota.CertPrincipal(op.GetRole(), op.GetName())); err != nil {
		return entry.Refused(err)
	}
	key := state.BlockKeyOf(op.GetRole(), op.GetName())
	switch is := ac.Blocks.Get(key) != nil; {
	case is == op.GetBlocked():
		return &fsmpb.Outcome{Existed: true}
	case is:
		ac.Blocks.Drop(key)
	case ac.Blocks.Len() >= limits.MaxBlocks:
		return entry.Refused(refuse.Exhausted("block",
			"%d certificates are blocked: no more are taken; replace the authority that issued them", limits.MaxBlocks))
	default:
		ac.Blocks.Insert(key, &state.BlockRow{Key: key, Block: rota.Block{Role: op.GetRole(), Name: op.GetName(),
			By: ac.s.Journal.Owner(), At: ac.s.Header.Now()}})
	}
	ac.ports.Disown(only(rota.CertPrincipal(op.GetRole(), op.GetName())))
	if op.GetBlocked() {
		ac.endSessions(rota.CertPrincipal(op.GetRole(), op.GetName()))
		ac.ports.DisableHooks("the certificate of whoever set it was blocked",
			only(rota.CertPrincipal(op.GetRole(), op.GetName())))
	}
	ac.tell(rota.EventAuthChanged, authChanged{What: "block", Name: string(key), Gone: !op.GetBlocked()})
	return &fsmpb.Outcome{}
}

// SetAnonymous sets the roles of callers without a credential.
func (ac *Authority) SetAnonymous(op *fsmpb.SetAnonymous) *fsmpb.Outcome {
	roles := maxAt(op.GetRoles(), limits.MaxTokenRoles)
	if err := CheckAnonymous(roles); err != nil {
		return entry.Refused(err)
	}
	for _, name := range roles {
		if _, ok := ac.here().Role(name); !ok {
			return entry.Refused(noRole(name))
		}
	}
	if slices.Equal(roles, ac.s.Header.Anonymous) {
		return &fsmpb.Outcome{Existed: true}
	}
	ac.s.Header.Anonymous = roles
	ac.tell(rota.EventAuthChanged, authChanged{What: "anonymous", Roles: roles})
	ac.ports.Regrant(func(p rota.Principal) bool { return p == rota.Anonymous })
	return &fsmpb.Outcome{}
}

// InitAuth creates the first token; from then on callers without a token have no rights. A reset creates another one.
// Of two at once the first in log order wins.
func (ac *Authority) InitAuth(op *fsmpb.InitAuth) *fsmpb.Outcome {
	if err := ac.unfounded(); err != nil {
		return entry.Refused(err)
	}
	t, hash, err := tokenWords(op.GetToken())
	if err != nil {
		return entry.Refused(err)
	}
	t.By = ac.s.Journal.Owner()
	if old := ac.Tokens.Get(state.TokenID(t.ID)); old != nil {
		return ac.createAgain(old, &t, hash)
	}
	if ac.s.Header.AuthInit && !op.GetReset_() {
		return entry.Refused(rota.Refusef(rota.KindConflict, "auth",
			"the first token exists already: make another one with `rota auth reset`"))
	}
	if err := ac.creatable(&t); err != nil {
		return entry.Refused(err)
	}
	ac.addToken(t, hash)
	ac.s.Header.AuthInit = true
	if !op.GetReset_() {
		ac.s.Header.Anonymous = nil
		ac.ports.Regrant(func(p rota.Principal) bool { return p == rota.Anonymous })
	}
	kind := rota.EventAuthChanged
	if op.GetReset_() {
		kind = rota.EventAuthReset
	}
	ac.tell(kind, authChanged{What: "init", Name: t.ID, Roles: t.Roles, Until: t.Expires})
	return &fsmpb.Outcome{}
}

// SetIssuer adds an identity provider or changes its mapping. Tokens created by the previous mapping continue until
// they expire.
func (ac *Authority) SetIssuer(op *fsmpb.SetIssuer) *fsmpb.Outcome {
	i := rota.Issuer{URL: op.GetUrl(), Audience: op.GetAudience(), CA: op.GetCa(), Maps: mapWords(op.GetMaps())}
	if err := access.CheckIssuer(&i); err != nil {
		return entry.Refused(err)
	}
	if err := ac.unfounded(); err != nil {
		return entry.Refused(err)
	}
	for _, role := range mappedRoles(i.Maps) {
		if _, ok := ac.here().Role(role); !ok {
			return entry.Refused(noRole(role))
		}
	}
	old := ac.Issuers.Get(i.URL)
	if old != nil && old.Audience == i.Audience && old.CA == i.CA && slices.Equal(old.Maps, i.Maps) {
		return &fsmpb.Outcome{Existed: true}
	}
	if err := ac.s.Journal.Matches(issuerText(old, i.URL)); err != nil {
		return entry.Refused(err)
	}
	if old == nil {
		if ac.Issuers.Len() >= limits.MaxIssuers {
			return entry.Refused(refuse.Exhausted("issuer",
				"%d issuers are set, no more are taken: delete one with `rota auth issuer delete URL`",
				limits.MaxIssuers))
		}
		ac.Issuers.Insert(i.URL, &state.IssuerRow{Issuer: rota.Issuer{URL: i.URL}})
	}
	i.By, i.At = ac.s.Journal.Owner(), ac.s.Header.Now()
	r := ac.Issuers.Edit(i.URL)
	r.Issuer = i
	r.ETag = state.EtagOf(r.Settings)
	ac.tell(rota.EventAuthChanged, authChanged{What: "issuer", Name: i.URL, Maps: i.Maps})
	return &fsmpb.Outcome{Existed: old != nil}
}

// DeleteIssuer removes an identity provider; its tokens are no longer accepted.
func (ac *Authority) DeleteIssuer(op *fsmpb.DeleteIssuer) *fsmpb.Outcome {
	r := ac.Issuers.Get(op.GetUrl())
	if r == nil {
		return entry.Refused(rota.Refusef(rota.KindNotFound, "issuer",
			"issuer %.80q is not set: `rota auth issuer list` shows those that are", op.GetUrl()))
	}
	if err := ac.s.Journal.Matches(issuerText(r, op.GetUrl())); err != nil {
		return entry.Refused(err)
	}
	ac.Issuers.Drop(op.GetUrl())
	ac.tell(rota.EventAuthChanged, authChanged{What: "issuer", Name: op.GetUrl(), Gone: true})
	return &fsmpb.Outcome{}
}

// Exchange creates an access token for an identity token that the requested node has verified. The issuer's mapping to
// roles is checked again, with the present mapping. Repeating it gives the same token; the identity token cannot be
// used for another one (SECURITY §1.18).
func (ac *Authority) Exchange(op *fsmpb.Exchange) *fsmpb.Outcome {
	if err := ac.unfounded(); err != nil {
		return entry.Refused(err)
	}
	s, t, err := ac.signIn(op)
	if err != nil {
		return entry.Refused(err)
	}
	if old := ac.Spent.Get(string(s.JWT[:])); old != nil {
		known := ac.Tokens.Get(state.TokenID(t.ID))
		if old.Token == t.ID && known != nil && known.Hash == s.Hash && known.Revoked.IsZero() {
			return &fsmpb.Outcome{Existed: true}
		}
		return entry.Refused(rota.Refusef(rota.KindUnauthenticated, "jwt",
			"the identity token was exchanged before, each counts once: ask the issuer for another one"))
	}
	if ac.Tokens.Get(state.TokenID(t.ID)) != nil {
		return entry.Refused(rota.Refusef(rota.KindConflict, "token",
			"token %s exists with other content: exchange with its own id", t.ID))
	}
	if err := ac.mapped(&s); err != nil {
		return entry.Refused(err)
	}
	if err := ac.creatable(&t); err != nil {
		return entry.Refused(err)
	}
	if ac.Spent.Len() >= limits.MaxSpent {
		return entry.Refused(refuse.Exhausted("jwt",
			"%d identity tokens that were exchanged have not ended: no more are taken until some have",
			limits.MaxSpent))
	}
	ac.addToken(t, s.Hash)
	ac.Spent.Insert(string(s.JWT[:]), &state.SpentRow{Hash: s.JWT, Token: t.ID, Until: s.Until})
	ac.s.Timers.Spent.Refile(string(s.JWT[:]), 0, int64(s.Until))
	ac.tell(rota.EventAuthChanged, authChanged{What: "token", Name: t.ID, Roles: t.Roles, Until: t.Expires, By: t.By})
	return &fsmpb.Outcome{}
}

// signIn decodes an exchange, and the token that it asks for.
func (ac *Authority) signIn(op *fsmpb.Exchange) (s access.SignIn, t rota.AccessToken, err error) {
	if len(op.GetHash()) != len(s.Hash) || len(op.GetJwtHash()) != len(s.JWT) {
		return s, t, rota.Refusef(rota.KindInvalid, "hash", "hash: got %d and %d bytes, want %d each",
			len(op.GetHash()), len(op.GetJwtHash()), len(s.Hash))
	}
	s = access.SignIn{Issuer: op.GetIssuer(), Audience: op.GetAudience(), Subject: op.GetSubject(),
		Claim: op.GetClaim(), Value: op.GetValue(),
		Role: op.GetRole(), JWT: [32]byte(op.GetJwtHash()), Until: rota.Date(op.GetUntilMs()), Token: op.GetId(),
		Hash: [32]byte(op.GetHash())}
	if err := access.CheckSignIn(&s); err != nil {
		return s, t, err
	}
	// The date may be slightly behind the clock by which the node found the token valid.
	now, most := ac.s.Header.Date(), rota.Date((limits.MaxJWTLife+time.Hour)/time.Millisecond)
	if s.Until <= now || s.Until > now+most {
		return s, t, rota.Refusef(rota.KindUnauthenticated, "jwt",
			"the identity token ends at %s, and it is %s: use one that is valid now, for at most %s",
			s.Until, now, limits.MaxJWTLife)
	}
	t = rota.AccessToken{ID: s.Token, Roles: []string{s.Role},
		Expires: min(s.Until, now+rota.Date(limits.MaxSignIn/time.Millisecond)),
		By:      rota.OIDCPrincipal(s.Issuer, s.Subject)}
	err = access.CheckToken(&t)
	return s, t, err
}

// mapped refuses a role that the issuer's mapping does not give for the claim.
func (ac *Authority) mapped(s *access.SignIn) *rota.Error {
	i := ac.Issuers.Get(s.Issuer)
	if i == nil || i.Audience != s.Audience {
		return rota.Refusef(rota.KindUnauthenticated, "issuer", "issuer %s is no longer set, or not for audience %.80q",
			s.Issuer, s.Audience)
	}
	if !slices.ContainsFunc(i.Maps, func(m rota.ClaimRole) bool {
		return m.Claim == s.Claim && m.Role == s.Role && m.Fits(s.Value)
	}) {
		return rota.Refusef(rota.KindUnauthenticated, "claim",
			"issuer %s no longer maps claim %.80q of value %.80q to role %s", s.Issuer, s.Claim, s.Value,
			s.Role)
	}
	return nil
}

// FireSpent forgets an identity token that has ended.
func (ac *Authority) FireSpent(hash string) {
	ac.s.Timers.Spent.Refile(hash, int64(ac.Spent.Get(hash).Until), 0)
	ac.Spent.Drop(hash)
}
