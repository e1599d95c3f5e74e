package authz

import (
	"maps"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/refuse"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/access"
)

// OwnedKinds holds, for each kind of rows that principals own, its plural name and how to make room.
var OwnedKinds = [access.OwnsEnd]struct{ plural, Remedy string }{
	access.OwnsQueue:  {"queues", "delete one with `rota queue delete`"},
	access.OwnsTenant: {"tenants", "delete one with `rota tenant delete`"},
	access.OwnsWorker: {"workers",
		"retire and delete one with `rota worker delete`, or wait until silent ones are forgotten"},
	access.OwnsWorkflow: {"workflows that have not ended", "wait for one to end, or cancel it"},
	access.OwnsSchedule: {"schedules", "delete one with `rota schedule delete`"},
	access.OwnsBatch:    {"batches that have not ended", "seal one with `rota batch seal`, and let its jobs end"},
	access.OwnsWebhook:  {"webhooks", "delete one with `rota webhook delete`"},
	access.OwnsToken:    {"tokens", "wait until one expires, revoked ones too: `rota auth token list` shows when"},
}

// Holding is a kind of rows of a principal.
type Holding struct {
	By   rota.Principal
	What access.Owned
}

// Hold adds n to the number of a principal's rows; rows of the leader, and of principals that are gone, count for none.
func (ac *Authority) Hold(by rota.Principal, what access.Owned, n int64) {
	if by == "" || by == Nobody {
		return
	}
	key := Holding{by, what}
	if ac.Held == nil {
		ac.Held = make(map[Holding]int64)
	}
	if ac.Held[key] += n; ac.Held[key] == 0 {
		delete(ac.Held, key)
	}
}

// MayHold refuses one more row of a kind to a principal that has as many as the most generous of its roles allows (SPEC
// §4.15). A subject vouched for by an issuer has no role itself, and gets the usual number. Principals with all rights,
// and the account that the node runs as, may have as many as the cluster accepts.
func (ac *Authority) MayHold(by rota.Principal, what access.Owned) error {
	if by == "" || by == rota.Local {
		return nil
	}
	most := what.Usual()
	if rights, refusal := ac.RightsOf(by); refusal == nil {
		most = rights.Most(what)
	}
	held, k := ac.Held[Holding{by, what}], &OwnedKinds[what]
	if held < most {
		return nil
	}
	return refuse.Exhausted(what.Field(),
		"%s has %d %s, %d are allowed: %s, or have a role allow more with `rota auth role set`", by, held, k.plural,
		most,
		k.Remedy)
}

// rightsOfCaller is rightsOf for an authenticated caller.
func (ac *Authority) rightsOfCaller(c access.Caller) (*access.Rights, *rota.Error) {
	if c != ac.checked { // usually it is the caller of the operation before
		if err := c.Check(); err != nil {
			return nil, rota.ErrorOf(err)
		}
		ac.checked = c
	}
	return ac.RightsOf(c.Actor)
}

// remembered returns a function that resolves rights, once for consecutive calls with the same caller.
func (ac *Authority) remembered() func(access.Caller) (*access.Rights, *rota.Error) {
	var last access.Caller
	var rights *access.Rights
	var refusal *rota.Error
	return func(c access.Caller) (*access.Rights, *rota.Error) {
		if c == last {
			return rights, refusal
		}
		last = c
		if err := c.Check(); err != nil {
			rights, refusal = nil, rota.ErrorOf(err)
		} else {
			rights, _, refusal = ac.here().Resolve(c.Actor, ac.s.Header.Date())
		}
		return rights, refusal
	}
}

// CallerReads reports whether the caller of the current operation may read objects of a tenant and a queue.
func (ac *Authority) CallerReads(tenant rota.TenantID, queue rota.QueueName) bool {
	actor := ac.s.Journal.Caller.Actor
	if actor == "" {
		return true
	}
	rights, refusal := ac.RightsOf(actor)
	return refusal == nil && rights.Allow(rota.RightRead, tenant, queue)
}

// Anybody matches every principal that a change of roles may concern.
func Anybody(rota.Principal) bool { return true }

func only(by rota.Principal) func(rota.Principal) bool {
	return func(p rota.Principal) bool { return p == by }
}

// Nobody is the principal of workers that lost their credential: it has no rights.
const Nobody rota.Principal = "nobody"

// checkHeld recounts the rows that principals own. Invariant I4.
func (ac *Authority) checkHeld(fault func(format string, args ...any)) {
	var count Authority
	ac.ports.EachHeld(func(by rota.Principal, what access.Owned) { count.Hold(by, what, 1) })
	if !maps.Equal(count.Held, ac.Held) {
		fault("I4: what principals own is counted otherwise than it is: %d counts, not %d", len(ac.Held),
			len(count.Held))
	}
}

// MayWork returns a function that reports whether a worker's principal may work for a tenant in a queue, whether the
// worker serves the queue or not: its leases outlive a change of its queues. Like work, it depends only on the rows.
func (ac *Authority) MayWork(w *state.WorkerRow) func(rota.TenantID, rota.QueueName) bool {
	var rights *access.Rights
	known := false
	return func(tenant rota.TenantID, queue rota.QueueName) bool {
		if w.By == "" || w.Grants == nil && slices.Contains(w.Spec.Queues, queue) {
			return true
		}
		if !known {
			known = true
			if r, _, refusal := ac.here().Resolve(w.By, 0); refusal == nil {
				rights = r
			}
		}
		return rights != nil && rights.Allow(rota.RightWork, tenant, queue)
	}
}
