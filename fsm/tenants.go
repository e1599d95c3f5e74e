package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// setTenant creates or changes a tenant's limits.
func (m *Machine) setTenant(op *fsmpb.SetTenant) *fsmpb.Outcome {
	id := rota.TenantID(op.GetId())
	if err := rota.CheckID("tenant", id); err != nil {
		return refused(err)
	}
	if m.head.cluster == "" {
		return refused(rota.Refusef(rota.Unavailable, "cluster", "the cluster has no leader yet: try again"))
	}
	limits := m.limitsOf(id)
	for _, s := range op.GetSet() {
		if !ascii(s.GetKey()) || !ascii(s.GetValue()) { // as in setQueue
			return refused(rota.Refusef(rota.Invalid, "key", "key %q or its value is not ASCII", s.GetKey()))
		}
		if err := limits.Set(rota.Setting{Key: s.GetKey(), Value: s.GetValue()}); err != nil {
			return refused(err)
		}
	}
	t := m.tenants.get(id)
	switch {
	case t == nil && m.tenants.len() >= rota.MaxTenants:
		return refused(exhausted("tenant", "%d tenants are known: no more are taken", rota.MaxTenants))
	case t == nil:
		m.tenants.insert(id, &tenantRow{id: id, limits: rota.DefaultTenantLimits()})
	case t.known && t.limits == limits:
		return &fsmpb.Outcome{Existed: true}
	}
	existed := t != nil && t.known
	m.changeTenant(m.tenants.edit(id), limits)
	return &fsmpb.Outcome{Existed: existed}
}

// changeTenant gives a tenant other limits; t is editable.
func (m *Machine) changeTenant(t *tenantRow, limits rota.TenantLimits) {
	old, due := t.limits, t.penaltyAt()
	t.known, t.limits = true, limits
	switch {
	case t.full() && t.parkedAt == 0:
		t.parkedAt = m.head.clock
	case !t.full() && limits.MaxConcurrent != old.MaxConcurrent:
		t.parkedAt = 0 // a limit that is raised owes no penalty
	}
	m.timers.penalty.set(string(t.id), int64(due), int64(t.penaltyAt()))
	if limits.Tier != old.Tier {
		m.rerank(t.id)
	}
	m.queues.scan(func(name rota.QueueName, q *queueRow) bool {
		i := m.registry.queues[name]
		if _, known := i.told[t.id]; known || i.open[t.id] > 0 || i.turn.name != "" {
			m.inform(i, q, t.id)
		}
		return true
	})
	m.emit(rota.Event{Kind: rota.TenantChanged, Tenant: t.id, Payload: payload(limits)})
}

// rerank files a tenant's jobs anew in the queues that rank by its tier. It walks
// all live jobs, which only an operator's change of tier may cost.
func (m *Machine) rerank(tenant rota.TenantID) {
	m.jobs.scan(func(_ rota.JobID, j *jobRow) bool {
		if j.state != rota.Queued || j.spec.Tenant != tenant {
			return true
		}
		q := m.queues.get(j.spec.Queue)
		if q.policy.Ranking != rota.RankMarket {
			return true
		}
		pending := m.registry.queues[q.name].pending
		pending.Remove(j.item)
		item := m.itemOf(j, &q.policy) // derived: the row's canonical bytes do not change
		j.item = &item
		pending.Add(j.item)
		return true
	})
}

// limitsOf are a tenant's limits, the defaults where nobody set them.
func (m *Machine) limitsOf(id rota.TenantID) rota.TenantLimits {
	if t := m.tenants.get(id); t != nil {
		return t.limits
	}
	return rota.DefaultTenantLimits()
}

// full says that a tenant has as many leases open as it may.
func (r *tenantRow) full() bool {
	return r.limits.MaxConcurrent > 0 && r.open >= r.limits.MaxConcurrent
}

// penaltyAt is when the penalty of a parked tenant ends, once one of its leases
// has; 0 for never.
func (r *tenantRow) penaltyAt() rota.Clock {
	if r.parkedAt == 0 || r.full() {
		return 0
	}
	return r.parkedAt + rota.Clock(r.limits.PenaltyMs)
}

// openTenant counts a tenant's open leases over all queues, and parks its lanes in
// all of them once it has as many as it may (SPEC §4.9).
func (m *Machine) openTenant(l *leaseRow) {
	t := m.tenants.edit(l.tenant)
	if t == nil {
		t = m.tenants.fresh()
		t.id, t.limits = l.tenant, rota.DefaultTenantLimits()
		m.tenants.insert(l.tenant, t)
	}
	t.open++
	if t.full() && t.parkedAt == 0 {
		t.parkedAt = m.head.clock
		m.informBusy(t.id)
	}
}

// closeTenant counts back. The lanes come back once one of the leases ended and the
// penalty has passed, whichever is later.
func (m *Machine) closeTenant(l *leaseRow) {
	t := m.tenants.edit(l.tenant)
	due := t.penaltyAt()
	t.open--
	if t.parkedAt != 0 && !t.full() && t.penaltyAt() <= m.head.clock {
		m.unpark(t, due)
	} else {
		m.timers.penalty.set(string(t.id), int64(due), int64(t.penaltyAt()))
	}
	if t.open == 0 && t.parkedAt == 0 && !t.known {
		m.tenants.drop(t.id)
	}
}

// firePenalty ends a tenant's penalty.
func (m *Machine) firePenalty(id string) {
	t := m.tenants.edit(rota.TenantID(id))
	m.unpark(t, t.penaltyAt())
	if t.open == 0 && !t.known {
		m.tenants.drop(t.id)
	}
}

// unpark puts a tenant's lanes back; due is where it stood in the timers.
func (m *Machine) unpark(t *tenantRow, due rota.Clock) {
	m.timers.penalty.set(string(t.id), int64(due), 0)
	t.parkedAt = 0
	m.informBusy(t.id)
}

// tenants checks the tenants' counters against the leases. Invariant I9.
func (c *checker) tenants() {
	m := c.m
	open := make(map[rota.TenantID]int64)
	m.leases.scan(func(_ string, l *leaseRow) bool {
		open[l.tenant]++
		if m.tenants.get(l.tenant) == nil {
			c.fault("I9: tenant %s has leases open and no row", l.tenant)
		}
		return true
	})
	m.tenants.scan(func(id rota.TenantID, t *tenantRow) bool {
		if t.id != id || t.open != open[id] {
			c.fault("I9: tenant %s counts %d open leases, %d are", id, t.open, open[id])
		}
		if err := t.limits.Check(); err != nil {
			c.fault("I9: tenant %s: %v", id, err)
		}
		if !t.known && (t.open == 0 && t.parkedAt == 0 || t.limits != rota.DefaultTenantLimits()) {
			c.fault("I9: nobody set tenant %s, and its row says something", id)
		}
		if t.full() && t.parkedAt == 0 || t.parkedAt > m.head.clock || t.parkedAt != 0 && t.limits.MaxConcurrent == 0 {
			c.fault("I9: tenant %s with %d of %d leases open is parked since %d", id, t.open, t.limits.MaxConcurrent, t.parkedAt)
		}
		return true
	})
	c.parks()
	c.mode()
}
