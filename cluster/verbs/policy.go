package verbs

import (
	"context"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/internal/caller"
	"github.com/rotasched/rota/cluster/replica"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/millis"
	"github.com/rotasched/rota/internal/peer"
	"github.com/rotasched/rota/sched"
)

// PolicyVerbs are the settings made by operators: queues, tenants, and the cluster's mode.
type PolicyVerbs struct{ n *Host }

// NewPolicy returns the verbs on settings.
func NewPolicy(h *Host) PolicyVerbs { return PolicyVerbs{h} }

// Tenants lists the tenants that have settings or open leases.
func (pv *PolicyVerbs) Tenants(ctx context.Context, opt peer.ReadOptions) ([]rota.Tenant, rota.ReadAt, error) {
	return replica.ReadAs(ctx, pv.n.Replica, opt, func(s *fsm.View, rd *access.Reader) ([]rota.Tenant, error) {
		return slices.DeleteFunc(s.Tenants(), func(t rota.Tenant) bool { return !rd.Tenant(&t) }), nil
	})
}

// Tenant reads any tenant; one without settings has the default limits.
func (pv *PolicyVerbs) Tenant(ctx context.Context, id rota.TenantID,
	opt peer.ReadOptions) (rota.Tenant, rota.ReadAt, error) {
	if err := rota.CheckID("tenant", id); err != nil {
		return rota.Tenant{}, rota.ReadAt{}, err
	}
	return replica.ReadAs(ctx, pv.n.Replica, opt, func(s *fsm.View, rd *access.Reader) (rota.Tenant, error) {
		t := s.Tenant(id)
		if !rd.Tenant(&t) {
			return rota.Tenant{}, rota.Refusef(rota.KindNotFound, "tenant", "tenant %q is not known", id)
		}
		return t, nil
	})
}

// SetTenant creates or changes a tenant, key by key. Settings that the state machine would reject are rejected here
// first, before the log.
func (pv *PolicyVerbs) SetTenant(ctx context.Context, id rota.TenantID, set []rota.Setting) (rota.Tenant, error) {
	op, err := setTenantOp(id, set)
	if err != nil {
		return rota.Tenant{}, err
	}
	_, index, err := pv.n.ProposeOne(ctx, &fsmpb.Op{Op: op})
	if err != nil {
		return rota.Tenant{}, err
	}
	t, _, err := pv.Tenant(access.Itself(ctx), id, peer.ReadOptions{MinIndex: index})
	return t, err
}

// PreviewTenant returns what SetTenant would return and what it would change, without storing anything.
func (pv *PolicyVerbs) PreviewTenant(ctx context.Context, id rota.TenantID, set []rota.Setting) (rota.Tenant, error) {
	op, err := setTenantOp(id, set)
	if err != nil {
		return rota.Tenant{}, err
	}
	return preview(ctx, pv.n.Replica, &fsmpb.Op{Op: op}, fsm.PreviewTenant)
}

func setTenantOp(id rota.TenantID, set []rota.Setting) (*fsmpb.Op_SetTenant, error) {
	if err := rota.CheckID("tenant", id); err != nil {
		return nil, err
	}
	limits := rota.DefaultTenantLimits()
	for _, s := range set {
		if err := limits.Set(s); err != nil {
			return nil, err
		}
	}
	return &fsmpb.Op_SetTenant{SetTenant: &fsmpb.SetTenant{Id: string(id), Set: labels(set)}}, nil
}

func labels(set []rota.Setting) (list []*fsmpb.Label) {
	for _, s := range set {
		list = append(list, &fsmpb.Label{Key: s.Key, Value: s.Value})
	}
	return list
}

// preview checks an operation as the state machine would now, and returns its result.
func preview[T any](ctx context.Context, r *replica.Replica, op *fsmpb.Op,
	would func(*fsm.View, *fsmpb.Op) (T, error)) (T, error) {
	ops := caller.Sign(ctx, []*fsmpb.Op{op})
	v, _, err := replica.Read(ctx, r, peer.ReadOptions{}, func(s *fsm.View) (v T, _ error) {
		if denied := s.Denied(ops); denied != nil {
			return v, entry.OutcomeError(denied[0])
		}
		return would(s, op)
	})
	return v, err
}

// SetCluster changes the cluster's own settings, key by key. Settings that the state machine would reject are rejected
// here first, before the log.
func (pv *PolicyVerbs) SetCluster(ctx context.Context, set []rota.Setting) (rota.ClusterSettings, error) {
	op, err := setClusterOp(set)
	if err != nil {
		return rota.ClusterSettings{}, err
	}
	_, index, err := pv.n.ProposeOne(ctx, &fsmpb.Op{Op: op})
	if err != nil {
		return rota.ClusterSettings{}, err
	}
	settings, _, err := replica.Read(ctx, pv.n.Replica, peer.ReadOptions{MinIndex: index},
		func(s *fsm.View) (rota.ClusterSettings, error) { return s.ClusterSettings(), nil })
	return settings, err
}

// PreviewCluster returns what SetCluster would return and what it would change, without storing anything.
func (pv *PolicyVerbs) PreviewCluster(ctx context.Context, set []rota.Setting) (rota.ClusterSettings, error) {
	op, err := setClusterOp(set)
	if err != nil {
		return rota.ClusterSettings{}, err
	}
	return preview(ctx, pv.n.Replica, &fsmpb.Op{Op: op}, fsm.PreviewCluster)
}

func setClusterOp(set []rota.Setting) (*fsmpb.Op_SetCluster, error) {
	settings := rota.DefaultClusterSettings()
	for _, s := range set {
		if err := settings.Set(s); err != nil {
			return nil, err
		}
	}
	return &fsmpb.Op_SetCluster{SetCluster: &fsmpb.SetCluster{Set: labels(set)}}, nil
}

// Mode reads what the cluster admits, and why (SPEC §4.3).
func (pv *PolicyVerbs) Mode(ctx context.Context, opt peer.ReadOptions) (rota.ModeStatus, rota.ReadAt, error) {
	return replica.Read(ctx, pv.n.Replica, opt, func(s *fsm.View) (rota.ModeStatus, error) { return s.Mode(), nil })
}

// SetMode changes the cluster's mode for a reason. DEGRADED set by an operator holds queued jobs of priority > 5; only
// an operator ends a mode that an operator began.
func (pv *PolicyVerbs) SetMode(ctx context.Context, mode rota.ClusterMode, reason string) (rota.ModeStatus, error) {
	if mode > rota.ModeDraining {
		return rota.ModeStatus{}, rota.Refusef(rota.KindInvalid, "mode", "mode %d is unknown", mode)
	}
	if err := checkReason(reason); err != nil {
		return rota.ModeStatus{}, err
	}
	_, index, err := pv.n.ProposeOne(ctx, &fsmpb.Op{Op: &fsmpb.Op_SetMode{SetMode: &fsmpb.SetMode{
		Mode: uint32(mode), Reason: reason, Holds: mode == rota.ModeDegraded}}})
	if err != nil {
		return rota.ModeStatus{}, err
	}
	m, _, err := pv.Mode(ctx, peer.ReadOptions{MinIndex: index})
	return m, err
}

// Queues lists the queues with their counters.
func (pv *PolicyVerbs) Queues(ctx context.Context, opt peer.ReadOptions) ([]rota.Queue, rota.ReadAt, error) {
	return replica.ReadAs(ctx, pv.n.Replica, opt, func(s *fsm.View, rd *access.Reader) (some []rota.Queue, _ error) {
		for _, q := range s.Queues() {
			if rd.Queue(&q) {
				some = append(some, q)
			}
		}
		return some, nil
	})
}

// Queue reads one queue, with its failure domains and the estimates of its types.
func (pv *PolicyVerbs) Queue(ctx context.Context, name rota.QueueName,
	opt peer.ReadOptions) (rota.Queue, rota.ReadAt, error) {
	return replica.ReadAs(ctx, pv.n.Replica, opt, func(s *fsm.View, rd *access.Reader) (rota.Queue, error) {
		q, ok := s.QueueInFull(name)
		if !ok || !rd.Queue(&q) {
			return rota.Queue{}, rota.Refusef(rota.KindNotFound, "queue", "queue %q does not exist", name)
		}
		scoring := sched.ScoringOf(&q.Policy)
		for i := range q.Types {
			t := &q.Types[i]
			t.Weight = scoring.Weight(sched.Stats{Success: t.Success, Fail: t.Fail, EMAus: t.EMA.Microseconds(),
				ExpectedMs: millis.Of(t.Expected), Sampled: t.EMA > 0})
		}
		return q, nil
	})
}

// Lanes reads the first lanes of a queue, limited to tenants that the caller may read.
func (pv *PolicyVerbs) Lanes(ctx context.Context, query peer.LanesQuery,
	opt peer.ReadOptions) (peer.Lanes, rota.ReadAt, error) {
	return replica.ReadAs(ctx, pv.n.Replica, opt, func(s *fsm.View, rd *access.Reader) (peer.Lanes, error) {
		if q, ok := s.Queue(query.Queue); ok && rd.Queue(&q) {
			lanes, _ := fsm.LanesOf(s, query, rd)
			return lanes, nil
		}
		return peer.Lanes{}, rota.Refusef(rota.KindNotFound, "queue", "queue %q does not exist", query.Queue)
	})
}

// SetQueue creates a queue or changes its policy. Settings that the state machine would reject are rejected here first,
// before the log.
func (pv *PolicyVerbs) SetQueue(ctx context.Context, name rota.QueueName, preset string,
	set []rota.Setting) (rota.Queue, error) {
	set, err := checkSettings(name, preset, set)
	if err != nil {
		return rota.Queue{}, err
	}
	op := &fsmpb.SetQueue{Name: string(name), Preset: preset, Set: labels(set)}
	_, index, err := pv.n.ProposeOne(ctx, &fsmpb.Op{Op: &fsmpb.Op_SetQueue{SetQueue: op}})
	if err != nil {
		return rota.Queue{}, err
	}
	q, _, err := pv.Queue(access.Itself(ctx), name, peer.ReadOptions{MinIndex: index})
	if rd, refused := pv.n.Replica.Reader(ctx); refused != nil || !rd.Queue(&q) {
		return rota.Queue{Name: q.Name, Policy: q.Policy, ETag: q.ETag}, err
	}
	return q, err
}

// PreviewQueue returns what SetQueue would return and what it would change, without storing anything.
func (pv *PolicyVerbs) PreviewQueue(ctx context.Context, name rota.QueueName, preset string,
	set []rota.Setting) (rota.Queue, error) {
	set, err := checkSettings(name, preset, set)
	if err != nil {
		return rota.Queue{}, err
	}
	op := &fsmpb.SetQueue{Name: string(name), Preset: preset, Set: labels(set)}
	q, err := preview(ctx, pv.n.Replica, &fsmpb.Op{Op: &fsmpb.Op_SetQueue{SetQueue: op}}, fsm.PreviewQueue)
	if rd, refused := pv.n.Replica.Reader(ctx); err == nil && (refused != nil || !rd.Queue(&q)) {
		return rota.Queue{Name: q.Name, Policy: q.Policy, ETag: q.ETag, Changes: q.Changes}, nil
	}
	return q, err
}

// checkSettings returns the settings with rota's own names of their keys, or rejects them.
func checkSettings(name rota.QueueName, preset string, set []rota.Setting) (own []rota.Setting, err error) {
	if err := rota.CheckID("queue", name); err != nil {
		return nil, err
	}
	p := rota.StandardPolicy()
	if preset != "" {
		if p, err = rota.PresetPolicy(preset); err != nil {
			return nil, err
		}
	}
	for _, s := range set {
		s = s.Canonical()
		if err := p.Try(s); err != nil {
			return nil, err
		}
		own = append(own, s)
	}
	return own, nil
}

// DeleteQueue deletes a queue that has no references (SPEC §21.4). With drainTo it moves some of the pending jobs to
// that queue, and returns how many live ones are left: at 0 the queue is deleted.
func (pv *PolicyVerbs) DeleteQueue(ctx context.Context, name, drainTo rota.QueueName) (left uint64, err error) {
	if err := rota.CheckID("queue", name); err != nil {
		return 0, err
	}
	if drainTo != "" {
		if err := rota.CheckID("drain_to", drainTo); err != nil {
			return 0, err
		}
	}
	o, _, err := pv.n.ProposeOne(ctx,
		&fsmpb.Op{Op: &fsmpb.Op_DeleteQueue{DeleteQueue: &fsmpb.DeleteQueue{Name: string(name),
			DrainTo: string(drainTo)}}})
	return o.GetLeft(), err
}

// DeleteTenant deletes the settings of a tenant that has no references.
func (pv *PolicyVerbs) DeleteTenant(ctx context.Context, id rota.TenantID) error {
	if err := rota.CheckID("tenant", id); err != nil {
		return err
	}
	return pv.delete(ctx, &fsmpb.Op{Op: &fsmpb.Op_DeleteTenant{DeleteTenant: &fsmpb.DeleteTenant{Id: string(id)}}})
}

// DeleteWorker deletes a worker that has no leases and is RETIRED or UNREACHABLE.
func (pv *PolicyVerbs) DeleteWorker(ctx context.Context, id rota.WorkerID) error {
	if err := rota.CheckID("worker", id); err != nil {
		return err
	}
	return pv.delete(ctx, &fsmpb.Op{Op: &fsmpb.Op_DeleteWorker{DeleteWorker: &fsmpb.DeleteWorker{Id: string(id)}}})
}

func (pv *PolicyVerbs) delete(ctx context.Context, op *fsmpb.Op) error {
	_, _, err := pv.n.ProposeOne(ctx, op)
	return err
}
