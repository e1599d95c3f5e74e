package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
)

// setTenant creates or changes a tenant's limits.
func (lm *admission) setTenant(op *fsmpb.SetTenant) *fsmpb.Outcome {
	id := rota.TenantID(op.GetId())
	if err := rota.CheckID("tenant", id); err != nil {
		return entry.Refused(err)
	}
	if lm.m.head.cluster == "" {
		return entry.Refused(rota.Refusef(rota.KindUnavailable, "cluster", "the cluster has no leader yet: try again"))
	}
	wanted := lm.limitsOf(id)
	for _, s := range op.GetSet() {
		if !ascii(s.GetKey()) || !ascii(s.GetValue()) { // as in setQueue
			return entry.Refused(rota.Refusef(rota.KindInvalid, "key", "key %q or its value is not ASCII", s.GetKey()))
		}
		if err := wanted.Set(rota.Setting{Key: s.GetKey(), Value: s.GetValue()}); err != nil {
			return entry.Refused(err)
		}
	}
	t := lm.tenants.get(id)
	switch {
	case t == nil && lm.tenants.len() >= limits.MaxTenants:
		return entry.Refused(exhausted("tenant", "%d tenants are known: no more are taken", limits.MaxTenants))
	case t == nil:
		lm.tenants.insert(id, &tenantRow{id: id, limits: rota.DefaultTenantLimits()})
	case t.known && t.limits == wanted:
		return &fsmpb.Outcome{Existed: true}
	}
	existed := t != nil && t.known
	lm.changeTenant(lm.tenants.edit(id), wanted)
	return &fsmpb.Outcome{Existed: existed}
}

// changeTenant gives a tenant other limits; t is editable.
func (lm *admission) changeTenant(t *tenantRow, limits rota.TenantLimits) {
	old, due := t.limits, t.penaltyAt()
	t.known, t.limits = true, limits
	switch {
	case t.full() && t.throttledAt == 0:
		t.throttledAt = lm.m.head.clock
	case !t.full() && limits.MaxConcurrent != old.MaxConcurrent:
		t.throttledAt = 0 // a limit that is raised owes no penalty
	}
	lm.m.timers.penalty.set(string(t.id), int64(due), int64(t.penaltyAt()))
	if limits.Tier != old.Tier {
		lm.rerank(t.id)
	}
	lm.m.queues.scan(func(name rota.QueueName, q *queueRow) bool {
		i := lm.m.placement.registry.queues[name]
		if _, known := i.laneStates[t.id]; known || i.open[t.id] > 0 || i.turn.name != "" {
			lm.syncLanes(i, q, t.id)
		}
		return true
	})
	lm.m.journal.emit(rota.Event{Kind: rota.EventTenantChanged, Tenant: t.id, Payload: payload(limits)})
}

// rerank files a tenant's jobs anew in the queues that rank by its tier. It walks
// all live jobs, which only an operator's change of tier may cost.
func (lm *admission) rerank(tenant rota.TenantID) {
	lm.m.jobs.scan(func(_ rota.JobID, j *jobRow) bool {
		if j.state != rota.JobQueued || j.spec.Tenant != tenant {
			return true
		}
		q := lm.m.queues.get(j.spec.Queue)
		if q.policy.Ranking != rota.RankMarket {
			return true
		}
		pending := lm.m.placement.registry.queues[q.name].pending
		pending.Remove(j.item)
		item := lm.m.placement.itemOf(j, &q.policy) // derived: the row's canonical bytes do not change
		j.item = &item
		pending.Add(j.item)
		return true
	})
}

// limitsOf are a tenant's limits, the defaults where nobody set them.
func (lm *admission) limitsOf(id rota.TenantID) rota.TenantLimits {
	if t := lm.tenants.get(id); t != nil {
		return t.limits
	}
	return rota.DefaultTenantLimits()
}

// full reports whether a tenant has as many leases open as it may.
func (r *tenantRow) full() bool {
	return r.limits.MaxConcurrent > 0 && r.open >= r.limits.MaxConcurrent
}

// penaltyAt is when the penalty of a throttled tenant ends, once one of its leases
// has; 0 for never.
func (r *tenantRow) penaltyAt() rota.Clock {
	if r.throttledAt == 0 || r.full() {
		return 0
	}
	return r.throttledAt + rota.Clock(r.limits.PenaltyMs)
}

// openTenant counts a tenant's open leases over all queues, and throttles its lanes in
// all of them once it has as many as it may (SPEC §4.9).
func (lm *admission) openTenant(l *leaseRow) {
	t := lm.tenants.edit(l.tenant)
	if t == nil {
		t = lm.tenants.fresh()
		t.id, t.limits = l.tenant, rota.DefaultTenantLimits()
		lm.tenants.insert(l.tenant, t)
	}
	t.open++
	if t.full() && t.throttledAt == 0 {
		t.throttledAt = lm.m.head.clock
		lm.syncBusyLanes(t.id)
	}
}

// closeTenant counts back. The lanes come back once one of the leases ended and the
// penalty has passed, whichever is later.
func (lm *admission) closeTenant(l *leaseRow) {
	t := lm.tenants.edit(l.tenant)
	due := t.penaltyAt()
	t.open--
	if t.throttledAt != 0 && !t.full() && t.penaltyAt() <= lm.m.head.clock {
		lm.unthrottle(t, due)
	} else {
		lm.m.timers.penalty.set(string(t.id), int64(due), int64(t.penaltyAt()))
	}
	if t.open == 0 && t.throttledAt == 0 && !t.known {
		lm.tenants.drop(t.id)
	}
}

// firePenalty ends a tenant's penalty.
func (lm *admission) firePenalty(id string) {
	t := lm.tenants.edit(rota.TenantID(id))
	lm.unthrottle(t, t.penaltyAt())
	if t.open == 0 && !t.known {
		lm.tenants.drop(t.id)
	}
}

// unthrottle puts a tenant's lanes back; due is where it stood in the timers.
func (lm *admission) unthrottle(t *tenantRow, due rota.Clock) {
	lm.m.timers.penalty.set(string(t.id), int64(due), 0)
	t.throttledAt = 0
	lm.syncBusyLanes(t.id)
}

// tenants checks the tenants' counters against the leases. Invariant I9.
func (c *checker) tenants() {
	m := c.m
	open := make(map[rota.TenantID]int64)
	m.leasing.leases.scan(func(_ string, l *leaseRow) bool {
		open[l.tenant]++
		if m.admission.tenants.get(l.tenant) == nil {
			c.fault("I9: tenant %s has leases open and no row", l.tenant)
		}
		return true
	})
	m.admission.tenants.scan(func(id rota.TenantID, t *tenantRow) bool {
		if t.id != id || t.open != open[id] {
			c.fault("I9: tenant %s counts %d open leases, %d are", id, t.open, open[id])
		}
		if err := t.limits.Check(); err != nil {
			c.fault("I9: tenant %s: %v", id, err)
		}
		if !t.known && (t.open == 0 && t.throttledAt == 0 || t.limits != rota.DefaultTenantLimits()) {
			c.fault("I9: nobody set tenant %s, and its row says something", id)
		}
		if t.full() && t.throttledAt == 0 || t.throttledAt > m.head.clock || t.throttledAt != 0 && t.limits.MaxConcurrent == 0 {
			c.fault("I9: tenant %s with %d of %d leases open is throttled since %d", id, t.open, t.limits.MaxConcurrent, t.throttledAt)
		}
		return true
	})
	c.laneStates()
	c.mode()
}
