package fsm

import (
	"fmt"
	"strings"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/tree"
	"github.com/rotasched/rota/internal/limits"
)

// admission decides what may enter and what may start: modes of the cluster, tenants and
// their rates, failure domains, windows.
type admission struct {
	s         *state
	access    *authority
	flows     *flows
	keyring   *keyring
	leasing   *leasing
	placement *placement
	typeStats *typeStats
	tenants   table[rota.TenantID, tenantRow, *tenantRow]
	limiters  table[string, limiterRow, *limiterRow]
	domains   table[string, domainRow, *domainRow]
}

// exhausted is a refusal that time cures.
func exhausted(subject, format string, args ...any) error {
	e := rota.Refusef(rota.KindExhausted, subject, format, args...)
	e.RetryAfter = time.Second
	return e
}

func ascii(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] > 127 {
			return false
		}
	}
	return true
}

// rateOf is the rate that a tenant's submissions to a queue are held to, 0 for
// none, and the queue of the limiter that measures it: the tenant's own limit is over
// all queues (SPEC §4.5).
func (lm *admission) rateOf(tenant rota.TenantID, q *queueRow) (queue rota.QueueName, rate int64) {
	switch own := lm.limitsOf(tenant).RateLimitRPS; {
	case own < 0:
		return q.name, q.policy.RateLimitRPS
	default:
		return "", own
	}
}

// admitRate refuses a submission beyond its tenant's rate (SPEC §4.5); it changes
// nothing.
func (lm *admission) admitRate(spec *rota.JobSpec, q *queueRow) error {
	queue, rate := lm.rateOf(spec.Tenant, q)
	if rate == 0 {
		return nil
	}
	r := lm.limiters.get(limiterKey(queue, spec.Tenant))
	if r == nil {
		if lm.limiters.len() >= limits.MaxRateLimiters {
			return exhausted("rate_limit_rps", "the rates of %d tenants are measured: no more tenants are taken now", limits.MaxRateLimiters)
		}
		return nil
	}
	wait := bucketOf(rate, rate).wait(r.tat, lm.s.head.clock)
	if wait == 0 {
		return nil
	}
	where := "all queues"
	if queue != "" {
		where = "queue " + string(queue)
	}
	e := rota.Refusef(rota.KindExhausted, "rate_limit_rps", "tenant %s submits to %s faster than its rate_limit_rps, %d a second: "+
		"the next job is taken in %d ms", spec.Tenant, where, rate, wait)
	e.RetryAfter = time.Duration(wait) * time.Millisecond
	return e
}

// chargeRate takes an admitted submission from its tenant's bucket.
func (lm *admission) chargeRate(spec *rota.JobSpec, q *queueRow) {
	queue, rate := lm.rateOf(spec.Tenant, q)
	if rate == 0 {
		return
	}
	r := lm.limiter(queue, spec.Tenant)
	r.tat = bucketOf(rate, rate).take(r.tat, lm.s.head.clock)
	lm.timeLimiter(r)
}

// limiter returns a limiter to edit, a new one where there is none.
func (lm *admission) limiter(queue rota.QueueName, tenant rota.TenantID) *limiterRow {
	key := limiterKey(queue, tenant)
	r := lm.limiters.edit(key)
	if r == nil {
		r = &limiterRow{key: key, queue: queue, tenant: tenant}
		lm.limiters.insert(key, r)
	}
	return r
}

// admitPressure refuses by the fill of the queue and of what its workers have before
// them, at reject_threshold of either (SPEC §4.6). It looks at counters only.
func (lm *admission) admitPressure(spec *rota.JobSpec, q *queueRow) error {
	p := &q.policy
	least := p.RejectThresholdPermille
	if spec.Priority == 0 || least == 0 {
		return nil
	}
	if pending := q.pending(); pending*1000 >= p.QueueCap*least {
		return lm.full(q, "queue %q holds %d pending jobs, %d permille of queue_cap %d: at reject_threshold only priority 0 is taken",
			q.name, pending, pending*1000/p.QueueCap, p.QueueCap)
	}
	if err := lm.admitFill(q, spec.Tenant, least); err != nil {
		return err
	}
	if ready, room := lm.backlog(q); room > 0 && ready*1000 >= room*least {
		return lm.full(q, "queue %q has %d jobs ready or leased, %d permille of the %d that max_queue_size gives its %d workers: at "+
			"reject_threshold only priority 0 is taken", q.name, ready, ready*1000/room, room, room/p.MaxQueueSize)
	}
	return nil
}

// backlog is what a queue's workers have before them, and what max_queue_size gives them
// to: nothing, which bounds nothing, where that is off or no worker is active.
func (lm *admission) backlog(q *queueRow) (ready, room int64) {
	if q.policy.MaxQueueSize > 0 {
		room = int64(lm.placement.registry.supply.Workers(q.name)) * q.policy.MaxQueueSize
	}
	return q.queued + q.assigned + q.running, room
}

// full is the refusal by a queue that is full in some way: with what makes room, where
// time alone does not.
func (lm *admission) full(q *queueRow, format string, args ...any) error {
	cure := lm.cure(q)
	if cure == "" {
		return exhausted("queue", format, args...)
	}
	e := rota.Refusef(rota.KindExhausted, "queue", format+"%s", append(args, cure)...)
	e.RetryAfter = limits.StuckRetryAfter
	return e
}

// cure says what has a queue worked off that nothing drains; "" of one that something does.
func (lm *admission) cure(q *queueRow) string {
	switch {
	case q.policy.Paused:
		return fmt.Sprintf("; queue %s is paused: `rota queue resume %s` has it worked off", q.name, q.name)
	case lm.placement.registry.supply.Workers(q.name) == 0:
		return fmt.Sprintf("; no worker serves queue %s: `rota worker run --queues %s` has it worked off", q.name, q.name)
	}
	return ""
}

// QueueFull returns the refusal that a submission would meet now because its queue, or the
// queue's workers, are too full (SPEC §4.4, §4.6); nil where it would meet none, another one
// first, or where its job is known. It changes nothing, so a leader can refuse what need not
// go through the log.
func (vw *View) QueueFull(op *fsmpb.Submit) *fsmpb.Outcome {
	s := op.GetSpec()
	if s.GetUnique() != nil {
		return nil // it may be merged into another job, for which there is room
	}
	q := vw.m.queues.get(rota.QueueName(s.GetQueue()))
	spec := &rota.JobSpec{Queue: rota.QueueName(s.GetQueue()), Tenant: rota.TenantID(s.GetTenant()), Priority: s.GetPriority()}
	if q == nil || vw.m.head.cluster == "" || vw.m.admission.admitMode(spec) != nil {
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
	if vw.m.jobs.get(id) != nil || vw.m.ended.tombs.get(id) != nil {
		return nil
	}
	return entry.Refused(err)
}

// admitCap refuses what a queue has no place for (SPEC §4.4).
func (lm *admission) admitCap(q *queueRow) error {
	if pending := q.pending(); pending >= q.policy.QueueCap {
		return lm.full(q, "queue %q holds %d pending jobs: queue_cap is %d", q.name, pending, q.policy.QueueCap)
	}
	return nil
}

// pressure names what admitPressure and slowDown say of a submission of a usual
// priority.
func (lm *admission) pressure(q *queueRow) string {
	switch {
	case q.pending() >= q.policy.QueueCap, lm.admitBytes(q, "", 1) != nil, lm.admitPressure(&rota.JobSpec{Priority: rota.DefaultPriority}, q) != nil:
		return rota.BackpressureRefuse
	case lm.slowDown(q, ""):
		return rota.BackpressureThrottle
	}
	return rota.BackpressureNone
}

// load is a queue's open leases and what its workers can have open, at least 1.
func (lm *admission) load(q *queueRow) (open, room int64) {
	return q.assigned + q.running, max(1, lm.placement.registry.supply.Capacity(q.name))
}

// slowDown asks submitters to slow down: the queue, or what its workers have before
// them, is more than half full (SPEC §4.6).
func (lm *admission) slowDown(q *queueRow, tenant rota.TenantID) bool {
	ready, room := lm.backlog(q)
	return q.pending()*2 > q.policy.QueueCap || room > 0 && ready*2 > room || lm.crowded(q, tenant)
}

// countWindow counts an assignment in its tenant's rolling window, and throttles the
// tenant's lanes in the queue when that is full. Beyond MaxRateLimiters nothing is
// counted.
func (lm *admission) countWindow(l *leaseRow) {
	q := lm.s.queues.get(l.queue)
	if q.policy.TenantWindowMax == 0 ||
		lm.limiters.len() >= limits.MaxRateLimiters && lm.limiters.get(limiterKey(l.queue, l.tenant)) == nil {
		return
	}
	r := lm.limiter(l.queue, l.tenant)
	r.window.count(rota.Clock(q.policy.TenantWindowMs), lm.s.head.clock, 1, 0)
	lm.settleLimiter(r)
}

// windowFull reports whether a tenant's lanes in a queue wait for its rolling window.
func (lm *admission) windowFull(q *queueRow, tenant rota.TenantID) bool {
	if q.policy.TenantWindowMax == 0 {
		return false
	}
	r := lm.limiters.get(limiterKey(q.name, tenant))
	return r != nil && r.throttled
}

// settleLimiter puts a limiter right after its window changed; r is editable.
func (lm *admission) settleLimiter(r *limiterRow) {
	if q := lm.s.queues.get(r.queue); q != nil {
		n, _ := r.window.total()
		if throttled := q.policy.TenantWindowMax > 0 && n >= q.policy.TenantWindowMax; throttled != r.throttled {
			r.throttled = throttled
			lm.syncLanes(lm.placement.registry.queues[q.name], q, r.tenant)
		}
	}
	lm.timeLimiter(r)
}

// timeLimiter puts a limiter where it stands in the timers; one at rest leaves.
func (lm *admission) timeLimiter(r *limiterRow) {
	key, due := limiterKey(r.queue, r.tenant), lm.limiterDue(r)
	lm.s.timers.limiter.set(key, int64(r.due), int64(due))
	if r.due = due; due == 0 {
		lm.limiters.drop(key)
	}
}

// limiterDue is when a limiter must be looked at: when its bucket is full again, or its
// oldest sub-window goes; 0 when it is at rest.
func (lm *admission) limiterDue(r *limiterRow) (due rota.Clock) {
	if r.tat != 0 {
		due = moment(r.tat, lm.s.head.clock)
	}
	if q := lm.s.queues.get(r.queue); q != nil {
		due = sooner(due, r.window.leaves(rota.Clock(q.policy.TenantWindowMs)))
	}
	return due
}

// fireLimiter looks again at a limiter whose bucket or window changes now.
func (lm *admission) fireLimiter(key string) {
	lm.reviewLimiter(lm.limiters.edit(key))
}

// reviewLimiter takes off a limiter what has passed.
func (lm *admission) reviewLimiter(r *limiterRow) {
	if ahead(r.tat, lm.s.head.clock) == 0 {
		r.tat = 0
	}
	if q := lm.s.queues.get(r.queue); q != nil {
		r.window.expire(rota.Clock(q.policy.TenantWindowMs), lm.s.head.clock)
		if q.policy.TenantWindowMax == 0 {
			r.window = window{}
		}
	}
	lm.settleLimiter(r)
}

// reviewQueue looks again at a queue's limiters and failure domains after its policy
// changed.
func (lm *admission) reviewQueue(q *queueRow, old *rota.QueuePolicy) {
	p := &q.policy
	if p.TenantWindowMax != old.TenantWindowMax || p.TenantWindowMs != old.TenantWindowMs {
		for _, key := range keysUnder(&lm.limiters, limiterKey(q.name, "")) {
			lm.reviewLimiter(lm.limiters.edit(key))
		}
	}
	if p.DomainFailureThresholdPermille != old.DomainFailureThresholdPermille || p.DomainMinSamples != old.DomainMinSamples ||
		p.DomainProbeRPS != old.DomainProbeRPS || p.DomainProbeBurst != old.DomainProbeBurst {
		for _, key := range lm.domainsOf(q.name) {
			lm.fireDomain(key)
		}
	}
}

// keysUnder lists a table's keys that begin with a prefix.
func keysUnder[R any, P interface {
	*R
	row
	tree.Row[string]
}](t *table[string, R, P], prefix string) (keys []string) {
	t.tree.Ascend(prefix, func(key string, _ P) bool {
		if !strings.HasPrefix(key, prefix) {
			return false
		}
		keys = append(keys, key)
		return true
	})
	return keys
}

// limiters checks what is derived of the limiters.
func (c *checker) limiters() {
	m := c.m
	m.admission.limiters.scan(func(key string, r *limiterRow) bool {
		q := m.queues.get(r.queue)
		n, bad := r.window.total()
		switch {
		case key != limiterKey(r.queue, r.tenant) || q == nil && r.queue != "":
			c.fault("I4: limiter %s is of tenant %s in unknown queue %q", key, r.tenant, r.queue)
		case q == nil && (n != 0 || r.throttled) || bad != 0:
			c.fault("I4: limiter %s counts what it cannot", key)
		case q != nil && r.throttled != (q.policy.TenantWindowMax > 0 && n >= q.policy.TenantWindowMax):
			c.fault("I4: limiter %s counts %d of %d and is throttled: %v", key, n, q.policy.TenantWindowMax, r.throttled)
		}
		if due := m.admission.limiterDue(r); due == 0 || due != r.due {
			c.fault("I4: limiter %s is due at %d, filed at %d", key, due, r.due)
		}
		return true
	})
}

// forgetQueue drops the rate limiters and failure domains of a queue without leases.
func (lm *admission) forgetQueue(name rota.QueueName) {
	for _, key := range keysUnder(&lm.limiters, limiterKey(name, "")) {
		lm.s.timers.limiter.set(key, int64(lm.limiters.get(key).due), 0)
		lm.limiters.drop(key)
	}
	for _, key := range lm.domainsOf(name) {
		lm.s.timers.domain.set(key, int64(lm.domains.get(key).due), 0)
		lm.domains.drop(key)
	}
}
