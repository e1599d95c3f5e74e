package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/access"
)

// ownedKinds holds, for each kind of rows that principals own, its plural name and how to make room.
var ownedKinds = [access.OwnsEnd]struct{ plural, remedy string }{
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

// holding is a kind of rows of a principal.
type holding struct {
	by   rota.Principal
	what access.Owned
}

// hold adds n to the number of a principal's rows; rows of the leader, and of principals that are gone, count for none.
func (ac *authority) hold(by rota.Principal, what access.Owned, n int64) {
	if by == "" || by == nobody {
		return
	}
	key := holding{by, what}
	if ac.held == nil {
		ac.held = make(map[holding]int64)
	}
	if ac.held[key] += n; ac.held[key] == 0 {
		delete(ac.held, key)
	}
}

// mayHold refuses one more row of a kind to a principal that has as many as the most generous of its roles allows (SPEC
// §4.15). A subject vouched for by an issuer has no role itself, and gets the usual number. Principals with all rights,
// and the account that the node runs as, may have as many as the cluster accepts.
func (ac *authority) mayHold(by rota.Principal, what access.Owned) error {
	if by == "" || by == rota.Local {
		return nil
	}
	most := what.Usual()
	if rights, refusal := ac.rightsOf(by); refusal == nil {
		most = rights.Most(what)
	}
	held, k := ac.held[holding{by, what}], &ownedKinds[what]
	if held < most {
		return nil
	}
	return exhausted(what.Field(),
		"%s has %d %s, %d are allowed: %s, or have a role allow more with `rota auth role set`", by, held, k.plural,
		most,
		k.remedy)
}

// eachHeld calls yield for each row that counts for its principal.
func (m *lifecycle) eachHeld(yield func(by rota.Principal, what access.Owned)) {
	m.s.QueueTable.Scan(func(_ rota.QueueName, r *state.QueueRow) bool { yield(r.By, access.OwnsQueue); return true })
	m.admission.tenants.Scan(func(_ rota.TenantID, r *state.TenantRow) bool {
		yield(r.By, access.OwnsTenant)
		return true
	})
	m.fleet.workers.Scan(func(_ rota.WorkerID, r *state.WorkerRow) bool { yield(r.By, access.OwnsWorker); return true })
	m.access.tokens.Scan(func(_ state.TokenID, r *state.TokenRow) bool {
		if r.Parent == "" {
			yield(r.By, access.OwnsToken)
		}
		return true
	})
	m.schedules.rows.Scan(func(_ rota.ScheduleName, r *state.ScheduleRow) bool {
		yield(r.By, access.OwnsSchedule)
		return true
	})
	m.hooks.rows.Scan(func(_ rota.WebhookName, r *state.HookRow) bool { yield(r.By, access.OwnsWebhook); return true })
	m.batches.rows.Scan(func(_ rota.BatchID, r *state.BatchRow) bool {
		if r.Callback != nil {
			yield(r.By, access.OwnsBatch)
		}
		return true
	})
	m.flows.workflows.Scan(func(_ rota.WorkflowID, r *state.WorkflowRow) bool {
		if r.Lives() {
			yield(r.By, access.OwnsWorkflow)
		}
		return true
	})
}

// callerReads reports whether the caller of the current operation may read objects of a tenant and a queue.
func (m *lifecycle) callerReads(tenant rota.TenantID, queue rota.QueueName) bool {
	actor := m.s.Journal.Caller.Actor
	if actor == "" {
		return true
	}
	rights, refusal := m.access.rightsOf(actor)
	return refusal == nil && rights.Allow(rota.RightRead, tenant, queue)
}

// rightsOfCaller is rightsOf for an authenticated caller.
func (ac *authority) rightsOfCaller(c access.Caller) (*access.Rights, *rota.Error) {
	if c != ac.checked { // usually it is the caller of the operation before
		if err := c.Check(); err != nil {
			return nil, rota.ErrorOf(err)
		}
		ac.checked = c
	}
	return ac.rightsOf(c.Actor)
}

// remembered returns a function that resolves rights, once for consecutive calls with the same caller.
func (ac *authority) remembered() func(access.Caller) (*access.Rights, *rota.Error) {
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
			rights, _, refusal = ac.here().resolve(c.Actor, ac.s.Header.Date())
		}
		return rights, refusal
	}
}
