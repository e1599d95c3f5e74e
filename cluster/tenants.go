package cluster

import (
	"context"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// policyVerbs is what operators set: queues, tenants, and the cluster's mode.
type policyVerbs struct{ n *Node }

// Tenants lists the tenants that somebody set or that have leases open.
func (pv *policyVerbs) Tenants(ctx context.Context, opt rota.ReadOptions) ([]rota.Tenant, rota.ReadAt, error) {
	return read(ctx, &pv.n.replica, opt, func(s *fsm.View) ([]rota.Tenant, error) { return s.Tenants(), nil })
}

// Tenant reads any tenant; one that nobody set has the default limits.
func (pv *policyVerbs) Tenant(ctx context.Context, id rota.TenantID, opt rota.ReadOptions) (rota.Tenant, rota.ReadAt, error) {
	if err := rota.CheckID("tenant", id); err != nil {
		return rota.Tenant{}, rota.ReadAt{}, err
	}
	return read(ctx, &pv.n.replica, opt, func(s *fsm.View) (rota.Tenant, error) { return s.Tenant(id), nil })
}

// SetTenant creates or changes a tenant, key by key. What the state machine would
// refuse is refused here first, before the log.
func (pv *policyVerbs) SetTenant(ctx context.Context, id rota.TenantID, set []rota.Setting) (rota.Tenant, error) {
	if err := rota.CheckID("tenant", id); err != nil {
		return rota.Tenant{}, err
	}
	op, limits := &fsmpb.SetTenant{Id: string(id)}, rota.DefaultTenantLimits()
	for _, s := range set {
		if err := limits.Set(s); err != nil {
			return rota.Tenant{}, err
		}
		op.Set = append(op.Set, &fsmpb.Label{Key: s.Key, Value: s.Value})
	}
	_, index, err := pv.n.proposer.proposeOne(ctx, &fsmpb.Op{Op: &fsmpb.Op_SetTenant{SetTenant: op}})
	if err != nil {
		return rota.Tenant{}, err
	}
	t, _, err := pv.Tenant(ctx, id, rota.ReadOptions{MinIndex: index})
	return t, err
}

// Mode reads what the cluster admits, and why (SPEC §4.3).
func (pv *policyVerbs) Mode(ctx context.Context, opt rota.ReadOptions) (rota.ModeStatus, rota.ReadAt, error) {
	return read(ctx, &pv.n.replica, opt, func(s *fsm.View) (rota.ModeStatus, error) { return s.Mode(), nil })
}

// SetMode changes the cluster's mode for a reason. DEGRADED by an operator's word
// holds queued jobs of priority > 5; only an operator ends what one began.
func (pv *policyVerbs) SetMode(ctx context.Context, mode rota.ClusterMode, reason string) (rota.ModeStatus, error) {
	if mode > rota.ModeDraining {
		return rota.ModeStatus{}, rota.Refusef(rota.Invalid, "mode", "mode %d is unknown", mode)
	}
	if err := checkReason(reason); err != nil {
		return rota.ModeStatus{}, err
	}
	_, index, err := pv.n.proposer.proposeOne(ctx, &fsmpb.Op{Op: &fsmpb.Op_SetMode{SetMode: &fsmpb.SetMode{
		Mode: uint32(mode), Reason: reason, Holds: mode == rota.ModeDegraded}}})
	if err != nil {
		return rota.ModeStatus{}, err
	}
	m, _, err := pv.Mode(ctx, rota.ReadOptions{MinIndex: index})
	return m, err
}
