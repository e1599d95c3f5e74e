package fsm

import (
	"maps"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
)

// access checks the tables of rights and the data derived from them.
func (c *checker) access() {
	m, ac := c.m, &c.m.access
	ac.roles.Scan(func(name state.RoleName, r *state.RoleRow) bool {
		if err := access.CheckRole(&r.Role); err != nil {
			c.fault("role %s is unsound: %v", name, err)
		}
		if r.ETag != state.EtagOf(r.Settings) {
			c.fault("I4: role %s has etag %s, and its settings another one", name, r.ETag)
		}
		return true
	})
	ac.tokens.Scan(func(id state.TokenID, r *state.TokenRow) bool {
		if r.Parent != "" {
			c.session(r)
		} else if err := access.CheckToken(&r.AccessToken); err != nil {
			c.fault("token %s is unsound: %v", id, err)
		}
		if r.Created.Clock > m.Header.Clock || r.Revoked.Clock > m.Header.Clock {
			c.fault("I6: token %s is stamped after the clock", id)
		}
		return true
	})
	ac.blocks.Scan(func(key state.BlockKey, r *state.BlockRow) bool {
		if err := access.CheckPrincipal(rota.CertPrincipal(r.Role, r.Name)); err != nil {
			c.fault("block %s is unsound: %v", key, err)
		}
		return true
	})
	ac.issuers.Scan(func(url string, r *state.IssuerRow) bool {
		if err := access.CheckIssuer(&r.Issuer); err != nil || r.At.Clock > m.Header.Clock {
			c.fault("issuer %s, set at %d, is unsound: %v", url, r.At.Clock, err)
		}
		if r.ETag != state.EtagOf(r.Settings) {
			c.fault("I4: issuer %s has etag %s, and its settings another one", url, r.ETag)
		}
		return true
	})
	if n, spent := ac.issuers.Len(), ac.spent.Len(); n > limits.MaxIssuers || spent > limits.MaxSpent {
		c.fault("issuers are %d, identity tokens that were exchanged %d", n, spent)
	}
	if err := checkAnonymous(m.Header.Anonymous); err != nil {
		c.fault("roles of callers without a credential are unsound: %v", err)
	}
	for _, p := range slices.Sorted(maps.Keys(ac.known)) {
		k := ac.known[p]
		rights, until, err := ac.here().resolve(p, 0)
		if err != nil || until != k.until || !rights.Within(k.rights) || !k.rights.Within(rights) {
			c.fault("I4: the rights of %s are kept otherwise than they are", p)
		}
	}
}
