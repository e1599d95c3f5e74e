package authz

import (
	"maps"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
)

// Check checks the tables of rights and the data derived from them.
func (ac *Authority) Check(fault func(format string, args ...any)) {
	ac.Roles.Scan(func(name state.RoleName, r *state.RoleRow) bool {
		if err := access.CheckRole(&r.Role); err != nil {
			fault("role %s is unsound: %v", name, err)
		}
		if r.ETag != state.EtagOf(r.Settings) {
			fault("I4: role %s has etag %s, and its settings another one", name, r.ETag)
		}
		return true
	})
	ac.Tokens.Scan(func(id state.TokenID, r *state.TokenRow) bool {
		if r.Parent != "" {
			ac.checkSession(r, fault)
		} else if err := access.CheckToken(&r.AccessToken); err != nil {
			fault("token %s is unsound: %v", id, err)
		}
		if r.Created.Clock > ac.s.Header.Clock || r.Revoked.Clock > ac.s.Header.Clock {
			fault("I6: token %s is stamped after the clock", id)
		}
		return true
	})
	ac.Blocks.Scan(func(key state.BlockKey, r *state.BlockRow) bool {
		if err := access.CheckPrincipal(rota.CertPrincipal(r.Role, r.Name)); err != nil {
			fault("block %s is unsound: %v", key, err)
		}
		return true
	})
	ac.Issuers.Scan(func(url string, r *state.IssuerRow) bool {
		if err := access.CheckIssuer(&r.Issuer); err != nil || r.At.Clock > ac.s.Header.Clock {
			fault("issuer %s, set at %d, is unsound: %v", url, r.At.Clock, err)
		}
		if r.ETag != state.EtagOf(r.Settings) {
			fault("I4: issuer %s has etag %s, and its settings another one", url, r.ETag)
		}
		return true
	})
	if n, spent := ac.Issuers.Len(), ac.Spent.Len(); n > limits.MaxIssuers || spent > limits.MaxSpent {
		fault("issuers are %d, identity tokens that were exchanged %d", n, spent)
	}
	if err := CheckAnonymous(ac.s.Header.Anonymous); err != nil {
		fault("roles of callers without a credential are unsound: %v", err)
	}
	for _, p := range slices.Sorted(maps.Keys(ac.known)) {
		k := ac.known[p]
		rights, until, err := ac.here().Resolve(p, 0)
		if err != nil || until != k.until || !rights.Within(k.rights) || !k.rights.Within(rights) {
			fault("I4: the rights of %s are kept otherwise than they are", p)
		}
	}
	ac.checkHeld(fault)
}
