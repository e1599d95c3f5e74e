package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
)

// ownersRole is the role of owners: principals that may own little.
const ownersRole = "few"

var owners = []rota.Principal{rota.CertPrincipal(ownersRole, "ann"), rota.CertPrincipal(ownersRole, "bob")}

// owner creates and deletes objects as two principals of a role whose limits are small and change: neither gets more
// than the current limit, and neither is refused below it (SPEC §4.15). It draws from a random source of its own,
// separate from the world's.
type owner struct {
	actor
	w      *World
	chance *rand.Rand
	tokens int
}

func newOwner(w *World) *owner {
	c := &owner{w: w, chance: rand.New(rand.NewPCG(w.Seed, 0x0113))}
	c.name = "owner"
	if w.Owners {
		w.on(&c.actor, 10, c.limit)
		w.on(&c.actor, 1_000, c.work)
	}
	return c
}

// over reports whether the owners are done.
func (c *owner) over() bool { return c.w.now >= max(c.w.Heal, 20_000) }

// limit sets how many objects each principal of the role may own.
func (c *owner) limit() {
	if c.over() {
		return
	}
	c.w.on(&c.actor, Time(4_000+c.chance.IntN(20_000)), c.limit)
	role := &fsmpb.SetRole{Name: ownersRole, MaxQueues: c.few(), MaxTenants: c.few(), MaxTokens: c.few()}
	for _, right := range []rota.Right{rota.RightRead, rota.RightQueue, rota.RightTenant, rota.RightAuth} {
		role.Grants = append(role.Grants, &fsmpb.Grant{Right: uint32(right), Tenant: "*", Queue: "*"})
	}
	c.ask(rota.Local, &fsmpb.Op{Op: &fsmpb.Op_SetRole{SetRole: role}})
}

func (c *owner) few() int64 { return int64(1 + c.chance.IntN(3)) }

// work creates or deletes one object.
func (c *owner) work() {
	if c.over() {
		return
	}
	c.w.on(&c.actor, Time(c.chance.IntN(1_200)), c.work)
	by, name := owners[c.chance.IntN(len(owners))], fmt.Sprint("own", c.chance.IntN(8))
	switch c.chance.IntN(8) {
	case 0, 1:
		c.ask(by, &fsmpb.Op{Op: &fsmpb.Op_SetQueue{SetQueue: &fsmpb.SetQueue{Name: name}}})
	case 2:
		c.ask(by, &fsmpb.Op{Op: &fsmpb.Op_DeleteQueue{DeleteQueue: &fsmpb.DeleteQueue{Name: name}}})
	case 3, 4:
		c.ask(by, &fsmpb.Op{Op: &fsmpb.Op_SetTenant{SetTenant: &fsmpb.SetTenant{Id: name,
			Set: []*fsmpb.Label{{Key: "weight", Value: fmt.Sprint(1 + c.chance.IntN(9))}}}}})
	case 5, 6:
		c.ask(by, &fsmpb.Op{Op: &fsmpb.Op_DeleteTenant{DeleteTenant: &fsmpb.DeleteTenant{Id: name}}})
	default:
		id := slices.Repeat([]byte{'z'}, 12)
		id[10], id[11] = letters[c.tokens/len(letters)%len(letters)], letters[c.tokens%len(letters)]
		c.tokens++
		c.ask(by, &fsmpb.Op{Op: &fsmpb.Op_CreateToken{CreateToken: &fsmpb.CreateToken{Id: string(id),
			Hash: make([]byte, 32), Roles: []string{ownersRole}, ExpiresMs: startClock + 1<<32}}})
	}
}

// ask proposes an operation of a principal twice.
func (c *owner) ask(by rota.Principal, op *fsmpb.Op) {
	w := c.w
	op.Actor, op.Via, op.Request = string(by), "sim/owner", "own"
	for i := range 2 {
		w.on(&c.actor, Time(i*700), func() {
			n := w.nodes[c.chance.IntN(len(w.nodes))]
			w.forward(n, &c.actor, !n.down, op, func(*fsmpb.Outcome) {})
		})
	}
}

// owned is an object with an owner.
type owned struct {
	what access.Owned
	name string
}

// estate is a naive model of owners, their objects and their limits.
type estate struct {
	most map[access.Owned]int64
	of   map[owned]rota.Principal
}

// has counts a principal's objects of a kind.
func (s *estate) has(by rota.Principal, what access.Owned) (n int64) {
	for thing, who := range s.of {
		if who == by && thing.what == what {
			n++
		}
	}
	return n
}

// estates compares granted and refused creations with the count and the limit at that time.
func (a *auditor) estates(e *fsmpb.Entry, r *fsm.Applied) {
	if !a.w.Owners {
		return
	}
	for i, op := range e.GetOps() {
		if ok := OutcomeOK(r.Outcomes[i]); ok && op.GetSetRole().GetName() == ownersRole {
			s := op.GetSetRole()
			a.estate.most = map[access.Owned]int64{access.OwnsQueue: s.GetMaxQueues(),
				access.OwnsTenant: s.GetMaxTenants(), access.OwnsToken: s.GetMaxTokens()}
		} else if slices.Contains(owners, rota.Principal(op.GetActor())) {
			a.ownerAsked(op, r.Outcomes[i])
		}
	}
}

// ownerAsked follows one operation of an owner.
func (a *auditor) ownerAsked(op *fsmpb.Op, o *fsmpb.Outcome) {
	by, thing, gone := rota.Principal(op.GetActor()), owned{}, false
	switch {
	case op.GetSetQueue() != nil:
		thing = owned{access.OwnsQueue, op.GetSetQueue().GetName()}
	case op.GetSetTenant() != nil:
		thing = owned{access.OwnsTenant, op.GetSetTenant().GetId()}
	case op.GetCreateToken() != nil:
		thing = owned{access.OwnsToken, op.GetCreateToken().GetId()}
	case op.GetDeleteQueue() != nil:
		thing, gone = owned{access.OwnsQueue, op.GetDeleteQueue().GetName()}, true
	case op.GetDeleteTenant() != nil:
		thing, gone = owned{access.OwnsTenant, op.GetDeleteTenant().GetId()}, true
	}
	_, there := a.estate.of[thing]
	if gone {
		if OutcomeOK(o) {
			delete(a.estate.of, thing)
		}
		return
	}
	if there || a.estate.most == nil {
		return // it is changed, or its creator has no role yet
	}
	has, most := a.estate.has(by, thing.what), a.estate.most[thing.what]
	refusal := rota.ErrorOf(entry.OutcomeError(o))
	switch {
	case OutcomeOK(o) && has >= most:
		a.failf("%s got %s, and has %d of %d that are allowed (%s)", by, thing.name, has, most, thing.what.Field())
	case OutcomeOK(o):
		a.estate.of[thing] = by
		a.Owned++
	case has < most:
		a.failf("%s was refused %s with %d of %d that are allowed (%s): %v", by, thing.name, has, most,
			thing.what.Field(), refusal)
	case refusal.Kind != rota.KindExhausted || refusal.Subject != thing.what.Field():
		a.failf("%s was refused %s with %d of %d, for another reason: %v", by, thing.name, has, most, refusal)
	default:
		a.Bounded++
	}
}
