package fsm

import (
	"fmt"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/refuse"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
)

// setTenant creates or changes a tenant's limits.
func (lm *admission) setTenant(op *fsmpb.SetTenant) *fsmpb.Outcome {
	id := rota.TenantID(op.GetId())
	wanted, err := lm.wantTenant(op, lm.s.Journal.Owner())
	if err != nil {
		return entry.Refused(err)
	}
	t := lm.tenants.Get(id)
	existed := t != nil && t.Known
	if existed && t.Limits == wanted {
		return &fsmpb.Outcome{Existed: true}
	}
	if err := lm.s.Journal.Matches(tenantText(t, id)); err != nil {
		return entry.Refused(err)
	}
	if t == nil {
		lm.tenants.Insert(id, &state.TenantRow{ID: id, Limits: rota.DefaultTenantLimits()})
	}
	if !existed {
		by := lm.s.Journal.Owner()
		lm.tenants.Edit(id).By = by
		lm.access.Hold(by, access.OwnsTenant, 1)
	}
	lm.changeTenant(lm.tenants.Edit(id), wanted)
	return &fsmpb.Outcome{Existed: existed}
}

// tenantText returns the name of a tenant for refusals, and its version; nil has the version of the defaults.
func tenantText(t *state.TenantRow, id rota.TenantID) (what, etag string) {
	if t == nil {
		t = &state.TenantRow{Limits: rota.DefaultTenantLimits()}
	}
	return fmt.Sprintf("tenant %q", id), t.ETag()
}

// wantTenant returns the limits that an operation would give a tenant, or its refusal; it changes nothing.
func (lm *admission) wantTenant(op *fsmpb.SetTenant, by rota.Principal) (rota.TenantLimits, error) {
	id := rota.TenantID(op.GetId())
	wanted := lm.limitsOf(id)
	if err := rota.CheckID("tenant", id); err != nil {
		return wanted, err
	}
	if lm.s.Header.Cluster == "" {
		return wanted, rota.Refusef(rota.KindUnavailable, "cluster", "the cluster has no leader yet: try again")
	}
	for _, s := range op.GetSet() {
		if !ascii(s.GetKey()) || !ascii(s.GetValue()) { // as in wantQueue
			return wanted, rota.Refusef(rota.KindInvalid, "key", "key %q or its value is not ASCII", s.GetKey())
		}
		if err := wanted.Set(rota.Setting{Key: s.GetKey(), Value: s.GetValue()}); err != nil {
			return wanted, err
		}
	}
	t := lm.tenants.Get(id)
	if t == nil {
		if err := lm.admitBytes(nil, "", 1); err != nil {
			return wanted, err
		}
		if lm.tenants.Len() >= limits.MaxTenants {
			return wanted, refuse.Exhausted("tenant", "%d tenants are known: no more are taken", limits.MaxTenants)
		}
	}
	if t == nil || !t.Known {
		return wanted, lm.access.MayHold(by, access.OwnsTenant)
	}
	return wanted, nil
}

// changeTenant replaces a tenant's limits; t is editable.
func (lm *admission) changeTenant(t *state.TenantRow, limits rota.TenantLimits) {
	old, due := t.Limits, t.PenaltyAt()
	t.Known, t.Limits = true, limits
	switch {
	case t.Full() && t.ThrottledAt == 0:
		t.ThrottledAt = lm.s.Header.Clock
	case !t.Full() && limits.MaxConcurrent != old.MaxConcurrent:
		t.ThrottledAt = 0 // a raised limit has no penalty
	}
	lm.s.Timers.Penalty.Refile(string(t.ID), int64(due), int64(t.PenaltyAt()))
	if limits.Tier != old.Tier {
		lm.rerank(t.ID)
	}
	lm.s.QueueTable.Scan(func(name rota.QueueName, q *state.QueueRow) bool {
		i := lm.placement.registry.queues[name]
		if _, known := i.laneStates[t.ID]; known || i.open.Get(t.ID) > 0 || i.turn.name != "" {
			lm.syncLanes(i, q, t.ID)
		}
		return true
	})
	lm.s.Journal.Emit(rota.Event{Kind: rota.EventTenantChanged, Tenant: t.ID, Payload: state.Payload(limits)})
}

// rerank files a tenant's jobs again in the queues that rank by its tier. It walks all live jobs, which only an
// operator's change of tier may cost.
func (lm *admission) rerank(tenant rota.TenantID) {
	lm.s.JobTable.Scan(func(_ rota.JobID, j *state.JobRow) bool {
		if j.State != rota.JobQueued || j.Spec.Tenant != tenant {
			return true
		}
		q := lm.s.QueueTable.Get(j.Spec.Queue)
		if q.Policy.Ranking != rota.RankMarket {
			return true
		}
		pending := lm.placement.registry.queues[q.Name].pending
		pending.Remove(j.Item)
		item := lm.placement.itemOf(j, q) // derived: the row's canonical bytes do not change
		j.Item = &item
		pending.Add(j.Item)
		return true
	})
}

// limitsOf returns a tenant's limits, the defaults if none were set.
func (lm *admission) limitsOf(id rota.TenantID) rota.TenantLimits {
	if t := lm.tenants.Get(id); t != nil {
		return t.Limits
	}
	return rota.DefaultTenantLimits()
}

// openTenant counts a tenant's open leases over all queues, and throttles its lanes in all of them at its limit (SPEC
// §4.9).
func (lm *admission) openTenant(l *state.LeaseRow) {
	t := lm.tenants.Edit(l.Tenant)
	if t == nil {
		t = lm.tenants.Fresh()
		t.ID, t.Limits = l.Tenant, rota.DefaultTenantLimits()
		lm.tenants.Insert(l.Tenant, t)
	}
	t.Open++
	if t.Full() && t.ThrottledAt == 0 {
		t.ThrottledAt = lm.s.Header.Clock
		lm.syncBusyLanes(t.ID)
	}
}

// closeTenant undoes the count. The lanes come back once one of the leases ended and the penalty has passed, whichever
// is later.
func (lm *admission) closeTenant(l *state.LeaseRow) {
	t := lm.tenants.Edit(l.Tenant)
	due := t.PenaltyAt()
	t.Open--
	if t.ThrottledAt != 0 && !t.Full() && t.PenaltyAt() <= lm.s.Header.Clock {
		lm.unthrottle(t, due)
	} else {
		lm.s.Timers.Penalty.Refile(string(t.ID), int64(due), int64(t.PenaltyAt()))
	}
	if t.Open == 0 && t.ThrottledAt == 0 && !t.Known {
		lm.tenants.Drop(t.ID)
	}
}

// firePenalty ends a tenant's penalty.
func (lm *admission) firePenalty(id string) {
	t := lm.tenants.Edit(rota.TenantID(id))
	lm.unthrottle(t, t.PenaltyAt())
	if t.Open == 0 && !t.Known {
		lm.tenants.Drop(t.ID)
	}
}

// unthrottle puts a tenant's lanes back; due is its time in the timers.
func (lm *admission) unthrottle(t *state.TenantRow, due rota.Clock) {
	lm.s.Timers.Penalty.Refile(string(t.ID), int64(due), 0)
	t.ThrottledAt = 0
	lm.syncBusyLanes(t.ID)
}

// tenants checks the tenants' counters against the leases. Invariant I9.
func (c *checker) tenants() {
	m := c.m
	open := make(map[rota.TenantID]int64)
	m.leasing.leases.Scan(func(_ string, l *state.LeaseRow) bool {
		open[l.Tenant]++
		if m.admission.tenants.Get(l.Tenant) == nil {
			c.fault("I9: tenant %s has leases open and no row", l.Tenant)
		}
		return true
	})
	m.admission.tenants.Scan(func(id rota.TenantID, t *state.TenantRow) bool {
		if t.ID != id || t.Open != open[id] {
			c.fault("I9: tenant %s counts %d open leases, %d are", id, t.Open, open[id])
		}
		if err := t.Limits.Check(); err != nil {
			c.fault("I9: tenant %s: %v", id, err)
		}
		if !t.Known && (t.Open == 0 && t.ThrottledAt == 0 || t.Limits != rota.DefaultTenantLimits()) {
			c.fault("I9: nobody set tenant %s, and its row says something", id)
		}
		if t.Full() && t.ThrottledAt == 0 || t.ThrottledAt > m.Header.Clock || t.ThrottledAt != 0 &&
			t.Limits.MaxConcurrent == 0 {
			c.fault("I9: tenant %s with %d of %d leases open is throttled since %d", id, t.Open, t.Limits.MaxConcurrent,
				t.ThrottledAt)
		}
		return true
	})
	c.laneStates()
	c.mode()
}

// budget is a limit on bytes that applies to a submission: the cluster's, a queue's or a tenant's.
type budget struct {
	// subject is the setting that contains it; what and name are the kind and name of the object with that setting.
	subject, what, name string
	used, most          int64
}

// owner returns the object with the setting.
func (b budget) owner() string { return strings.TrimRight(b.what+" "+b.name, " ") }

// overfull returns the first limit on what a queue and a tenant hold for which over is true; its subject is "" if there
// is none. A limit of 0 does not apply.
func (lm *admission) overfull(q *state.QueueRow, tenant rota.TenantID,
	over func(used, most int64) bool) (b budget, found bool) {
	t := &lm.s.Ledger.Tally
	if most := lm.s.Header.Settings.StateBytesMax; most != 0 && over(t.All, most) {
		return budget{"state_bytes_max", "the cluster", "", t.All, most}, true
	}
	if q != nil && q.Policy.BytesMax != 0 && over(t.Queues.Get(q.Name), q.Policy.BytesMax) {
		return budget{"bytes_max", "queue", string(q.Name), t.Queues.Get(q.Name), q.Policy.BytesMax}, true
	}
	if row := lm.tenants.Get(tenant); row != nil && row.Limits.BytesMax != 0 &&
		over(t.Tenants.Get(tenant), row.Limits.BytesMax) {
		return budget{"bytes_max", "tenant", string(tenant), t.Tenants.Get(tenant), row.Limits.BytesMax}, true
	}
	return b, false
}

// admitBytes refuses more bytes for which a budget has no room (SPEC §4.14). Bytes added earlier in the current entry
// count from its end on.
func (lm *admission) admitBytes(q *state.QueueRow, tenant rota.TenantID, more int64) error {
	b, over := lm.overfull(q, tenant, func(used, most int64) bool { return used+more > most })
	if !over {
		return nil
	}
	return lm.overBudget(q, b, "%s holds %d bytes, %d more are wanted: %s is %d", b.owner(), b.used, more, b.subject,
		b.most)
}

// admitFill refuses if a budget is filled to at least `least` permille.
func (lm *admission) admitFill(q *state.QueueRow, tenant rota.TenantID, least int64) error {
	b, over := lm.overfull(q, tenant, func(used, most int64) bool { return permille(used, most) >= least })
	if !over {
		return nil
	}
	return lm.overBudget(q, b, "%s holds %d bytes, %d permille of %s %d: at reject_threshold only priority 0 is taken",
		b.owner(), b.used, permille(b.used, b.most), b.subject, b.most)
}

// permille returns part ÷ whole in permille; whole is at most MaxStateBytes, far from overflow.
func permille(part, whole int64) int64 { return part * 1000 / whole }

// overBudget returns the refusal of a full budget, with a remedy, as time alone may not help.
func (lm *admission) overBudget(q *state.QueueRow, b budget, format string, args ...any) error {
	cure := "; let jobs end or cancel some, or raise it"
	if q != nil && lm.cure(q) != "" {
		cure = lm.cure(q)
	}
	e := rota.Refusef(rota.KindExhausted, b.subject, format+"%s", append(args, cure)...)
	e.RetryAfter = limits.StuckRetryAfter
	return e
}

// crowded reports whether a budget is more than half full.
func (lm *admission) crowded(q *state.QueueRow, tenant rota.TenantID) bool {
	_, over := lm.overfull(q, tenant, func(used, most int64) bool { return used > most/2 })
	return over
}

// setCluster changes the cluster's settings.
func (lm *admission) setCluster(op *fsmpb.SetCluster) *fsmpb.Outcome {
	settings, err := lm.wantCluster(op)
	switch {
	case err != nil:
		return entry.Refused(err)
	case settings.Same(&lm.s.Header.Settings):
		return &fsmpb.Outcome{Existed: true}
	}
	if err := lm.s.Journal.Matches("the cluster's settings", lm.s.Header.SettingsETag()); err != nil {
		return entry.Refused(err)
	}
	lm.changeCluster(settings, "")
	return &fsmpb.Outcome{}
}

// wantCluster returns the settings that an operation would give, or its refusal; it changes nothing.
func (lm *admission) wantCluster(op *fsmpb.SetCluster) (rota.ClusterSettings, error) {
	settings := lm.s.Header.Settings
	if lm.s.Header.Cluster == "" {
		return settings, rota.Refusef(rota.KindUnavailable, "cluster", "the cluster has no leader yet: try again")
	}
	for _, s := range op.GetSet() {
		if !ascii(s.GetKey()) || !ascii(s.GetValue()) { // as in wantQueue
			return settings, rota.Refusef(rota.KindInvalid, "key", "key %q or its value is not ASCII", s.GetKey())
		}
		if err := settings.Set(rota.Setting{Key: s.GetKey(), Value: s.GetValue()}); err != nil {
			return settings, err
		}
	}
	return settings, nil
}

// changeCluster puts other settings into force; an empty actor means the caller.
func (lm *admission) changeCluster(to rota.ClusterSettings, actor rota.Principal) {
	lm.s.Header.Settings = to
	lm.s.Journal.Emit(rota.Event{Kind: rota.EventClusterChanged, Payload: state.Payload(to), Actor: actor})
}

// settings checks the cluster's settings.
func (c *checker) settings() {
	s := c.m.Header.Settings
	if s.StateBytesMax < rota.LeastStateBytes || s.StateBytesMax > rota.MaxStateBytes {
		c.fault("I4: state_bytes_max is %d", s.StateBytesMax)
	}
	if s.VotersWanted < rota.LeastVotersWanted || s.VotersWanted > rota.MaxVoters {
		c.fault("I4: voters_wanted is %d", s.VotersWanted)
	}
}

// ClusterSettings returns the cluster's settings with their ETag.
func (vw *View) ClusterSettings() rota.ClusterSettings {
	s := vw.m.Header.Settings
	s.ETag = vw.m.Header.SettingsETag()
	return s
}

// StateBytes returns the bytes that state_bytes_max bounds.
func (vw *View) StateBytes() int64 { return vw.m.Ledger.Tally.All }

// deleteTenant deletes a tenant's settings: no job, lease, workflow, schedule, batch or token names it.
func (lm *admission) deleteTenant(op *fsmpb.DeleteTenant) *fsmpb.Outcome {
	id := rota.TenantID(op.GetId())
	if err := rota.CheckID("tenant", id); err != nil {
		return entry.Refused(err)
	}
	t := lm.tenants.Get(id)
	switch {
	case t == nil:
		return &fsmpb.Outcome{Existed: true}
	}
	if err := lm.s.Journal.Matches(tenantText(t, id)); err != nil {
		return entry.Refused(err)
	}
	switch {
	case t.Open > 0 || lm.s.Ledger.Named(t):
		return entry.Refused(rota.Refusef(rota.KindConflict, "tenant",
			"a live job, a workflow, a schedule, a batch or a unique key is of tenant %q: let it end, "+
				"cancel the job, or delete it first", id))
	case lm.access.NamesTenant(id):
		return entry.Refused(rota.Refusef(rota.KindConflict, "tenant",
			"a token is for tenant %q: revoke it, or wait for its end", id))
	}
	lm.s.Timers.Penalty.Refile(string(id), int64(t.PenaltyAt()), 0)
	lm.access.Hold(t.By, access.OwnsTenant, -1)
	lm.tenants.Drop(id)
	lm.keyring.ForgetTenant(id)
	lm.typeStats.ForgetTenant(id)
	lm.syncBusyLanes(id)
	lm.s.Journal.Emit(rota.Event{Kind: rota.EventTenantDeleted, Tenant: id})
	return &fsmpb.Outcome{}
}
