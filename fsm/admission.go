package fsm

import (
	"fmt"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/authz"
	"github.com/rotasched/rota/fsm/internal/budgets"
	"github.com/rotasched/rota/fsm/internal/keys"
	"github.com/rotasched/rota/fsm/internal/learn"
	"github.com/rotasched/rota/fsm/internal/refuse"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
)

// admission decides which jobs may enter and which may start: modes of the cluster, tenants and their rates, failure
// domains, windows.
type admission struct {
	s         *state.State
	access    *authz.Authority
	budgets   *budgets.Budgets
	flows     *flows
	keyring   *keys.Keyring
	leasing   *leasing
	placement *placement
	typeStats *learn.Stats
	tenants   state.Table[rota.TenantID, state.TenantRow, *state.TenantRow]
	limiters  state.Table[string, state.LimiterRow, *state.LimiterRow]
	domains   state.Table[string, state.DomainRow, *state.DomainRow]
}

// ofNode adds a node's number and name to a refusal.
func ofNode(number uint32, name string, err error) error {
	named := *err.(*rota.Error) // every refusal is one
	named.Text = fmt.Sprintf("node %d, %.80q: %s", number, name, named.Text)
	return &named
}

func ascii(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] > 127 {
			return false
		}
	}
	return true
}

// rateOf returns the rate limit of a tenant's submissions to a queue, 0 for none, and the queue of the limiter that
// measures it: the tenant's own limit covers all queues (SPEC §4.5).
func (lm *admission) rateOf(tenant rota.TenantID, q *state.QueueRow) (queue rota.QueueName, rate int64) {
	switch own := lm.limitsOf(tenant).RateLimitRPS; {
	case own < 0:
		return q.Name, q.Policy.RateLimitRPS
	default:
		return "", own
	}
}

// admitRate refuses a submission beyond its tenant's rate (SPEC §4.5); it changes nothing.
func (lm *admission) admitRate(spec *rota.JobSpec, q *state.QueueRow) error {
	queue, rate := lm.rateOf(spec.Tenant, q)
	if rate == 0 {
		return nil
	}
	r := lm.limiters.Get(state.LimiterKey(queue, spec.Tenant))
	if r == nil {
		if lm.limiters.Len() >= limits.MaxRateLimiters {
			return refuse.Exhausted("rate_limit_rps",
				"the rates of %d tenants are measured: no more tenants are taken now",
				limits.MaxRateLimiters)
		}
		return nil
	}
	wait := state.BucketOf(rate, rate).Wait(r.Tat, lm.s.Header.Clock)
	if wait == 0 {
		return nil
	}
	where := "all queues"
	if queue != "" {
		where = "queue " + string(queue)
	}
	e := rota.Refusef(rota.KindExhausted, "rate_limit_rps",
		"tenant %s submits to %s faster than its rate_limit_rps, %d a second: "+
			"the next job is taken in %d ms", spec.Tenant, where, rate, wait)
	e.RetryAfter = time.Duration(wait) * time.Millisecond
	return e
}

// chargeRate takes an admitted submission from its tenant's bucket.
func (lm *admission) chargeRate(spec *rota.JobSpec, q *state.QueueRow) {
	queue, rate := lm.rateOf(spec.Tenant, q)
	if rate == 0 {
		return
	}
	r := lm.limiter(queue, spec.Tenant)
	r.Tat = state.BucketOf(rate, rate).Take(r.Tat, lm.s.Header.Clock)
	lm.timeLimiter(r)
}

// limiter returns a limiter to edit, a new one if there is none.
func (lm *admission) limiter(queue rota.QueueName, tenant rota.TenantID) *state.LimiterRow {
	key := state.LimiterKey(queue, tenant)
	r := lm.limiters.Edit(key)
	if r == nil {
		r = &state.LimiterRow{Key: key, Queue: queue, Tenant: tenant}
		lm.limiters.Insert(key, r)
	}
	return r
}

// admitPressure refuses a submission if the queue, or the backlog of its workers, is filled to reject_threshold (SPEC
// §4.6). It reads only counters.
func (lm *admission) admitPressure(spec *rota.JobSpec, q *state.QueueRow) error {
	p := &q.Policy
	least := p.RejectThresholdPermille
	if spec.Priority == 0 || least == 0 {
		return nil
	}
	if pending := q.Pending(); pending*1000 >= p.QueueCap*least {
		return lm.full(
			q, "queue %q holds %d pending jobs, %d permille of queue_cap %d: at reject_threshold only priority 0 is taken",
			q.Name, pending, pending*1000/p.QueueCap, p.QueueCap)
	}
	if err := lm.admitFill(q, spec.Tenant, least); err != nil {
		return err
	}
	if ready, room := lm.backlog(q); room > 0 && ready*1000 >= room*least {
		return lm.full(
			q, "queue %q has %d jobs ready or leased, %d permille of the %d that max_queue_size gives its %d workers: at "+
				"reject_threshold only priority 0 is taken", q.Name, ready, ready*1000/room, room, room/p.MaxQueueSize)
	}
	return nil
}

// backlog returns the backlog of a queue's workers and the limit from max_queue_size. A limit of 0 bounds nothing: the
// setting is off or no worker is active.
func (lm *admission) backlog(q *state.QueueRow) (ready, room int64) {
	if q.Policy.MaxQueueSize > 0 {
		room = int64(lm.placement.registry.supply.Workers(q.Name)) * q.Policy.MaxQueueSize
	}
	return q.Queued + q.Assigned + q.Running, room
}

// full returns the refusal of a full queue, with a remedy if time alone does not help.
func (lm *admission) full(q *state.QueueRow, format string, args ...any) error {
	cure := lm.cure(q)
	if cure == "" {
		return refuse.Exhausted("queue", format, args...)
	}
	e := rota.Refusef(rota.KindExhausted, "queue", format+"%s", append(args, cure)...)
	e.RetryAfter = limits.StuckRetryAfter
	return e
}

// cure returns how to get a queue drained that nothing drains; "" if something drains it.
func (lm *admission) cure(q *state.QueueRow) string {
	switch {
	case q.Policy.Paused:
		return fmt.Sprintf("; queue %s is paused: `rota queue resume %s` has it worked off", q.Name, q.Name)
	case lm.placement.registry.supply.Workers(q.Name) == 0:
		return fmt.Sprintf("; no worker serves queue %s: `rota worker run --queues %s` has it worked off", q.Name,
			q.Name)
	}
	return ""
}

// QueueFull returns the refusal that a submission would now get because its queue, or the queue's workers, are too full
// (SPEC §4.4, §4.6). It is nil if there is no refusal, if another one comes first, or if the job is known. It changes
// nothing, so a leader can refuse without the log.
func (vw *View) QueueFull(op *fsmpb.Submit) *fsmpb.Outcome {
	s := op.GetSpec()
	if s.GetUnique() != nil {
		return nil // it may be merged into another job, for which there is room
	}
	q := vw.m.QueueTable.Get(rota.QueueName(s.GetQueue()))
	spec := &rota.JobSpec{Queue: rota.QueueName(s.GetQueue()), Tenant: rota.TenantID(s.GetTenant()),
		Priority: s.GetPriority()}
	if q == nil || vw.m.Header.Cluster == "" || vw.m.admission.admitMode(spec) != nil {
		return nil
	}
	err := vw.m.admission.admitCap(q)
	if err == nil {
		err = vw.m.admission.admitBytes(q, spec.Tenant, int64(len(s.GetPayload())))
	}
	if err == nil && vw.m.admission.admitRate(spec, q) == nil {
		err = vw.m.admission.admitPressure(spec, q)
	}
	if err == nil {
		return nil
	}
	id := rota.JobID(s.GetId())
	if vw.m.JobTable.Get(id) != nil || vw.m.ended.tombs.Get(id) != nil {
		return nil
	}
	return entry.Refused(err)
}

// admitCap refuses a job beyond the queue's cap (SPEC §4.4).
func (lm *admission) admitCap(q *state.QueueRow) error {
	if pending := q.Pending(); pending >= q.Policy.QueueCap {
		return lm.full(q, "queue %q holds %d pending jobs: queue_cap is %d", q.Name, pending, q.Policy.QueueCap)
	}
	return nil
}

// pressure returns the name of what admitPressure and slowDown report for a submission of normal priority.
func (lm *admission) pressure(q *state.QueueRow) string {
	switch {
	case q.Pending() >= q.Policy.QueueCap, lm.admitBytes(q, "", 1) != nil,
		lm.admitPressure(&rota.JobSpec{Priority: rota.DefaultPriority}, q) != nil:
		return rota.BackpressureRefuse
	case lm.slowDown(q, ""):
		return rota.BackpressureThrottle
	}
	return rota.BackpressureNone
}

// load returns a queue's open leases and the number that its workers can have open, at least 1.
func (lm *admission) load(q *state.QueueRow) (open, room int64) {
	return q.Assigned + q.Running, max(1, lm.placement.registry.supply.Capacity(q.Name))
}

// slowDown reports whether submitters should slow down: the queue, or the backlog of its workers, is more than half
// full (SPEC §4.6).
func (lm *admission) slowDown(q *state.QueueRow, tenant rota.TenantID) bool {
	ready, room := lm.backlog(q)
	return q.Pending()*2 > q.Policy.QueueCap || room > 0 && ready*2 > room || lm.crowded(q, tenant)
}

// countWindow counts an assignment in its tenant's rolling window, and throttles the tenant's lanes in the queue when
// the window is full. Beyond MaxRateLimiters it counts nothing.
func (lm *admission) countWindow(l *state.LeaseRow) {
	q := lm.s.QueueTable.Get(l.Queue)
	if q.Policy.TenantWindowMax == 0 ||
		lm.limiters.Len() >= limits.MaxRateLimiters && lm.limiters.Get(state.LimiterKey(l.Queue, l.Tenant)) == nil {
		return
	}
	r := lm.limiter(l.Queue, l.Tenant)
	r.Window.Count(rota.Clock(q.Policy.TenantWindowMs), lm.s.Header.Clock, 1, 0)
	lm.settleLimiter(r)
}

// windowFull reports whether a tenant's lanes in a queue wait for its rolling window.
func (lm *admission) windowFull(q *state.QueueRow, tenant rota.TenantID) bool {
	if q.Policy.TenantWindowMax == 0 {
		return false
	}
	r := lm.limiters.Get(state.LimiterKey(q.Name, tenant))
	return r != nil && r.Throttled
}

// settleLimiter updates a limiter after its window changed; r is editable.
func (lm *admission) settleLimiter(r *state.LimiterRow) {
	if q := lm.s.QueueTable.Get(r.Queue); q != nil {
		n, _ := r.Window.Total()
		if throttled := q.Policy.TenantWindowMax > 0 && n >= q.Policy.TenantWindowMax; throttled != r.Throttled {
			r.Throttled = throttled
			lm.syncLanes(lm.placement.registry.queues[q.Name], q, r.Tenant)
		}
	}
	lm.timeLimiter(r)
}

// timeLimiter updates a limiter's timer; a limiter at rest is dropped.
func (lm *admission) timeLimiter(r *state.LimiterRow) {
	key, due := state.LimiterKey(r.Queue, r.Tenant), lm.limiterDue(r)
	lm.s.Timers.Limiter.Refile(key, int64(r.Due), int64(due))
	if r.Due = due; due == 0 {
		lm.limiters.Drop(key)
	}
}

// limiterDue returns when a limiter must be reviewed: when its bucket is full again, or its oldest sub-window ends; 0
// at rest.
func (lm *admission) limiterDue(r *state.LimiterRow) (due rota.Clock) {
	if r.Tat != 0 {
		due = state.Moment(r.Tat, lm.s.Header.Clock)
	}
	if q := lm.s.QueueTable.Get(r.Queue); q != nil {
		due = state.Sooner(due, r.Window.Leaves(rota.Clock(q.Policy.TenantWindowMs)))
	}
	return due
}

// fireLimiter reviews a limiter whose bucket or window changes now.
func (lm *admission) fireLimiter(key string) {
	lm.reviewLimiter(lm.limiters.Edit(key))
}

// reviewLimiter removes expired data from a limiter.
func (lm *admission) reviewLimiter(r *state.LimiterRow) {
	if state.Ahead(r.Tat, lm.s.Header.Clock) == 0 {
		r.Tat = 0
	}
	if q := lm.s.QueueTable.Get(r.Queue); q != nil {
		r.Window.Expire(rota.Clock(q.Policy.TenantWindowMs), lm.s.Header.Clock)
		if q.Policy.TenantWindowMax == 0 {
			r.Window = state.Window{}
		}
	}
	lm.settleLimiter(r)
}

// reviewQueue reviews a queue's limiters and failure domains after its policy changed.
func (lm *admission) reviewQueue(q *state.QueueRow, old *rota.QueuePolicy) {
	p := &q.Policy
	if p.TenantWindowMax != old.TenantWindowMax || p.TenantWindowMs != old.TenantWindowMs {
		for _, key := range state.KeysUnder(&lm.limiters, state.LimiterKey(q.Name, "")) {
			lm.reviewLimiter(lm.limiters.Edit(key))
		}
	}
	if p.DomainFailureThresholdPermille != old.DomainFailureThresholdPermille ||
		p.DomainMinSamples != old.DomainMinSamples ||
		p.DomainProbeRPS != old.DomainProbeRPS || p.DomainProbeBurst != old.DomainProbeBurst {
		for _, key := range lm.domainsOf(q.Name) {
			lm.fireDomain(key)
		}
	}
}

// limiters checks the data derived from limiters.
func (c *checker) limiters() {
	m := c.m
	m.admission.limiters.Scan(func(key string, r *state.LimiterRow) bool {
		q := m.QueueTable.Get(r.Queue)
		n, bad := r.Window.Total()
		switch {
		case key != state.LimiterKey(r.Queue, r.Tenant) || q == nil && r.Queue != "":
			c.fault("I4: limiter %s is of tenant %s in unknown queue %q", key, r.Tenant, r.Queue)
		case q == nil && (n != 0 || r.Throttled) || bad != 0:
			c.fault("I4: limiter %s counts what it cannot", key)
		case q != nil && r.Throttled != (q.Policy.TenantWindowMax > 0 && n >= q.Policy.TenantWindowMax):
			c.fault("I4: limiter %s counts %d of %d and is throttled: %v", key, n, q.Policy.TenantWindowMax,
				r.Throttled)
		}
		if due := m.admission.limiterDue(r); due == 0 || due != r.Due {
			c.fault("I4: limiter %s is due at %d, filed at %d", key, due, r.Due)
		}
		return true
	})
}

// forgetQueue drops the rate limiters and failure domains of a queue without leases.
func (lm *admission) forgetQueue(name rota.QueueName) {
	for _, key := range state.KeysUnder(&lm.limiters, state.LimiterKey(name, "")) {
		lm.s.Timers.Limiter.Refile(key, int64(lm.limiters.Get(key).Due), 0)
		lm.limiters.Drop(key)
	}
	for _, key := range lm.domainsOf(name) {
		lm.s.Timers.Domain.Refile(key, int64(lm.domains.Get(key).Due), 0)
		lm.domains.Drop(key)
	}
}
