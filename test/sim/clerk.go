package sim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
)

// clerk issues tokens, uses them, and revokes them while they are in use: after a revocation no request made with its
// token may be applied (docs/security.md). It draws from a random source of its own, separate from the world's.
type clerk struct {
	actor
	w      *World
	chance *rand.Rand
	next   int
}

func newClerk(w *World) *clerk {
	c := &clerk{w: w, chance: rand.New(rand.NewPCG(w.Seed, 0xc1e4))}
	c.name = "clerk"
	if w.Tokens {
		w.on(&c.actor, 3_000, c.create)
		w.on(&c.actor, 10, c.grant)
	}
	return c
}

// letters are the characters in ids of tokens: as many as a base of 8 needs.
const letters = "abcdefgh"

// create creates the next token, uses it, and revokes it in the middle of that.
func (c *clerk) create() {
	w := c.w
	if w.now >= max(w.Heal, 20_000) {
		return
	}
	w.on(&c.actor, Time(2_000+c.chance.IntN(6_000)), c.create)
	id := make([]byte, 12)
	for i, n := len(id)-1, c.next; i >= 0; i, n = i-1, n/len(letters) {
		id[i] = letters[n%len(letters)]
	}
	c.next++
	token := &fsmpb.CreateToken{Id: string(id), Hash: make([]byte, 32), Roles: []string{access.RoleOperator},
		ExpiresMs: startClock + 1<<32}
	if c.chance.IntN(2) == 0 { // by the subject of an identity provider
		c.exchange(string(id), token.GetHash())
	} else {
		c.ask(rota.Local, &fsmpb.Op{Op: &fsmpb.Op_CreateToken{CreateToken: token}})
	}
	actor := rota.TokenPrincipal(string(id))
	session := "s" + string(id[1:])
	browser := rota.SessionPrincipal(session, actor)
	w.on(&c.actor, 300, func() {
		c.ask(actor, &fsmpb.Op{Op: &fsmpb.Op_OpenSession{OpenSession: &fsmpb.OpenSession{Id: session,
			Hash: make([]byte, 32)}}})
	})
	if c.chance.IntN(3) == 0 { // it signs out before its token is revoked
		w.on(&c.actor, 1_200, func() {
			c.ask(browser, &fsmpb.Op{Op: &fsmpb.Op_EndSession{EndSession: &fsmpb.EndSession{Id: session}}})
		})
	}
	for i := range 20 {
		w.on(&c.actor, Time(c.chance.IntN(4_000)), func() {
			actor := actor
			if i%2 == 0 {
				actor = browser
			}
			c.ask(actor, &fsmpb.Op{Op: &fsmpb.Op_SetTenant{SetTenant: &fsmpb.SetTenant{Id: fmt.Sprint("clerk",
				c.chance.IntN(3)), Set: []*fsmpb.Label{{Key: "weight", Value: fmt.Sprint(1 + c.chance.IntN(100))}}}}})
		})
	}
	for _, reader := range []rota.Principal{actor, rota.Local} { // an operator has no right to backups
		w.on(&c.actor, Time(c.chance.IntN(4_000)), func() {
			c.ask(reader, &fsmpb.Op{Op: &fsmpb.Op_ReadSnapshot{ReadSnapshot: &fsmpb.ReadSnapshot{Node: "n1",
				Index: 1}}})
		})
	}
	w.on(&c.actor, 2_000, func() {
		c.ask(rota.Local, &fsmpb.Op{Op: &fsmpb.Op_RevokeToken{RevokeToken: &fsmpb.RevokeToken{Id: string(id)}}})
	})
}

// poolOf returns the certificate that a worker registers with: two of them share all workers.
func poolOf(id rota.WorkerID) rota.Principal {
	return rota.CertPrincipal(fmt.Sprint("pool", id[len(id)-1]%2), "w")
}

// grant changes the tenants for which the workers of a pool may work; once the world heals they may work for all, even
// if earlier requests arrive late.
func (c *clerk) grant() {
	w := c.w
	healed := w.now >= max(w.Heal, 20_000)
	w.on(&c.actor, Time(500+c.chance.IntN(4_000)), c.grant)
	for pool := range 2 {
		role := &fsmpb.SetRole{Name: fmt.Sprint("pool", pool)}
		grants := w.audit.roles[role.Name]
		everybody := !slices.ContainsFunc(grants, func(g rota.Grant) bool { return g.Tenant != "*" }) && len(grants) > 0
		if !healed && c.chance.IntN(2) == 0 || healed && everybody {
			continue
		}
		for range 1 + c.chance.IntN(2) {
			tenant := []string{"t0", "t1", "t2", "t*", "other"}[c.chance.IntN(5)]
			if healed {
				tenant = "*"
			}
			role.Grants = append(role.Grants, &fsmpb.Grant{Right: uint32(rota.RightWork), Tenant: tenant,
				Queue: "default"})
		}
		c.ask(rota.Local, &fsmpb.Op{Op: &fsmpb.Op_SetRole{SetRole: role}})
	}
}

// ask proposes an operation of a principal three times: repetitions change nothing.
func (c *clerk) ask(by rota.Principal, op *fsmpb.Op) {
	w := c.w
	op.Actor, op.Via, op.Request = string(by), "sim/clerk", fmt.Sprint("r", c.next)
	for i := range 3 {
		w.on(&c.actor, Time(i*700), func() {
			n := w.nodes[c.chance.IntN(len(w.nodes))]
			w.forward(n, &c.actor, !n.down, op, func(*fsmpb.Outcome) {})
		})
	}
}

// rights checks each event against the revocations before it.
func (a *auditor) rights(e *rota.Event) {
	if id, ok := e.Actor.Token(); ok {
		a.Tokened++
		if a.revoked[id] != 0 {
			a.failf("event %s (%s) is of token %s, which was revoked before", e.ID, e.Kind, id)
		}
	}
	if id, parent, ok := e.Actor.Session(); ok {
		if of, _ := parent.Token(); a.revoked[id] != 0 || a.revoked[of] != 0 {
			a.failf("event %s (%s) is of session %s of %s, which ended before", e.ID, e.Kind, id, parent)
		}
	}
	if e.Kind == rota.EventSnapshotRead && e.Actor != rota.Local {
		a.failf("event %s: %q has read a state, without a right to it", e.ID, e.Actor)
	}
	if e.Kind == rota.EventJobAssigned && a.w.Tokens {
		a.granted(e)
	}
	if e.Kind != rota.EventAuthChanged {
		return
	}
	var change struct {
		What  string           `json:"what"`
		Name  string           `json:"name"`
		Gone  bool             `json:"gone"`
		Gives []rota.Grant     `json:"grants"`
		Roles []string         `json:"roles"`
		By    rota.Principal   `json:"by"`
		Maps  []rota.ClaimRole `json:"maps"`
	}
	if err := json.Unmarshal([]byte(e.Payload), &change); err != nil {
		a.failf("event %s has the payload %s: %v", e.ID, e.Payload, err)
	}
	switch {
	case change.What == "role":
		a.roles[change.Name] = change.Gives
	case change.What == "issuer":
		a.maps = change.Maps
	case (change.What == "token" || change.What == "session") && change.Gone:
		a.revoked[change.Name] = e.Date
	case change.What == "session" && a.revoked[change.Name] != 0:
		// Its parent may open it again once it is deleted, which is soon if the wall clock jumps.
		if ended := a.revoked[change.Name]; e.Date < ended+rota.Date(limits.SessionEnded.Milliseconds()) {
			a.failf("event %s: session %s ended on %s and is open again on %s", e.ID, change.Name, ended, e.Date)
		}
		delete(a.revoked, change.Name)
	case change.What == "token" && change.By != "":
		a.signedIn(e, change.Name, change.Roles)
	}
}

// granted checks a lease against the current grants of its worker's pool.
func (a *auditor) granted(e *rota.Event) {
	role, _, _ := poolOf(e.Worker).Cert()
	for _, g := range a.roles[role] {
		prefix, open := strings.CutSuffix(g.Tenant, "*")
		if g.Tenant == string(e.Tenant) || open && strings.HasPrefix(string(e.Tenant), prefix) {
			return
		}
	}
	a.failf("job %s of tenant %s went to worker %s, which may work for %v", e.Job, e.Tenant, e.Worker, a.roles[role])
}
