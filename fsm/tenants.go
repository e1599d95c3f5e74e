package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// setTenant creates or changes a tenant's limits.
func (m *Machine) setTenant(op *fsmpb.SetTenant) *fsmpb.Outcome {
	return refused(rota.Refusef(rota.Invalid, "tenant", "tenant %q cannot be set", op.GetId()))
}

// limitsOf are a tenant's limits, the defaults where nobody set them.
func (m *Machine) limitsOf(id rota.TenantID) rota.TenantLimits {
	if t := m.tenants.get(id); t != nil {
		return t.limits
	}
	return rota.DefaultTenantLimits()
}

// openTenant and closeTenant count a tenant's open leases over all queues, and
// park its lanes at max_concurrent (SPEC §4.9).
func (m *Machine) openTenant(l *leaseRow) {}

func (m *Machine) closeTenant(l *leaseRow) {}

// firePenalty ends a tenant's penalty.
func (m *Machine) firePenalty(id string) {}

// tenants checks the tenants' counters against the leases. Invariant I9.
func (c *checker) tenants() {}
