package sim

import (
	"encoding/binary"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
)

// The identity provider of the clerk's callers, and their subjects.
const (
	idpURL    = "https://idp"
	idpCaller = "ann"
)

// signIns is the auditor's model of the identity provider and its tokens.
type signIns struct {
	// shown maps the ids of access tokens to the identity tokens with which they were requested; exchanged holds the
	// identity tokens that produced one.
	shown     map[string]uint32
	exchanged map[uint32]bool
	// maps holds the provider's current mapping to roles.
	maps []rota.ClaimRole
}

// exchange requests an access token with an identity token, which may have been used before for another one. Meanwhile
// the provider may map to another role, or be deleted.
func (c *clerk) exchange(id string, hash []byte) {
	shown := uint32(c.next)
	if c.chance.IntN(3) == 0 {
		shown = uint32(1 + c.chance.IntN(c.next))
	}
	c.w.audit.shown[id] = shown
	jwt := binary.BigEndian.AppendUint32(make([]byte, 28), shown)
	c.ask(rota.Local, setIssuer(access.RoleOperator))
	soon := Time(c.chance.IntN(1_500))
	switch c.chance.IntN(4) {
	case 0:
		c.w.on(&c.actor, soon, func() { c.ask(rota.Local, setIssuer(access.RoleReader)) })
	case 1:
		c.w.on(&c.actor, soon, func() {
			c.ask(rota.Local, &fsmpb.Op{Op: &fsmpb.Op_DeleteIssuer{DeleteIssuer: &fsmpb.DeleteIssuer{Url: idpURL}}})
		})
	}
	c.ask(rota.Anonymous, &fsmpb.Op{Op: &fsmpb.Op_Exchange{Exchange: &fsmpb.Exchange{Issuer: idpURL, Audience: "rota",
		Subject: idpCaller,
		Claim:   "sub", Value: idpCaller, Role: access.RoleOperator, JwtHash: jwt, UntilMs: startClock + 20*3_600_000,
		Id: id, Hash: hash}}})
}

func setIssuer(role string) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_SetIssuer{SetIssuer: &fsmpb.SetIssuer{Url: idpURL, Audience: "rota",
		Maps: []*fsmpb.ClaimRole{{Claim: "sub", Value: "a*", Role: role}}}}}
}

// signedIn checks an access token from an identity token against its provider's current mapping, and against earlier
// ones.
func (a *auditor) signedIn(e *rota.Event, id string, roles []string) {
	a.SignedIn++
	if !slices.ContainsFunc(a.maps, func(m rota.ClaimRole) bool {
		return m.Fits(idpCaller) && slices.Equal(roles, []string{m.Role})
	}) {
		a.failf("event %s: token %s has roles %v, and its issuer maps %v", e.ID, id, roles, a.maps)
	}
	shown := a.shown[id]
	if a.exchanged[shown] {
		a.failf("event %s: token %s came of an identity token that was exchanged before", e.ID, id)
	}
	a.exchanged[shown] = true
}
