package fsm

import (
	"fmt"
	"math"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
)

// laneState is what a queue's lanes know of a tenant that is not as any other: that it
// waits for a limit, and its weight.
type laneState struct {
	throttled bool
	weight    int64
}

// syncLanes brings a queue's lanes up to date with what the rows say of a tenant. It
// runs whenever a job is filed, so that a queue which has none of a tenant's jobs
// need not follow: throttling a tenant costs no walk over all queues.
func (lm *admission) syncLanes(i *queueIndex, q *queueRow, tenant rota.TenantID) {
	want := laneState{lm.throttled(q, tenant), lm.limitsOf(tenant).Weight}
	had, ok := i.laneStates[tenant]
	if !ok {
		had = laneState{weight: 1}
	}
	if want == had {
		return
	}
	if want.throttled != had.throttled {
		i.pending.Throttle(tenant, want.throttled)
	}
	i.note(tenant, want)
	if want.weight != had.weight {
		i.share(tenant, i.open.get(tenant), want.weight)
	}
}

// share sets a tenant's open leases and weight in the lanes.
func (i *queueIndex) share(tenant rota.TenantID, open, weight int64) {
	i.pending.SetShare(tenant, open, weight)
	if len(i.laneStates) == 0 && weight == 1 {
		return // as mostly
	}
	if t, ok := i.laneStates[tenant]; ok || weight != 1 {
		i.note(tenant, laneState{t.throttled, weight})
	}
}

func (i *queueIndex) note(tenant rota.TenantID, t laneState) {
	if t == (laneState{weight: 1}) {
		delete(i.laneStates, tenant)
	} else {
		i.laneStates[tenant] = t
	}
}

// syncBusyLanes is syncLanes for all queues that have QUEUED jobs; others follow when they
// get some.
func (lm *admission) syncBusyLanes(tenant rota.TenantID) {
	lm.placement.registry.busy.Scan(func(t turn) bool {
		lm.syncLanes(lm.placement.registry.queues[t.name], lm.s.queues.get(t.name), tenant)
		return true
	})
}

// initLanes sets in lanes that were built anew all that the rows say beside the jobs.
func (lm *admission) initLanes(q *queueRow, i *queueIndex) {
	i.laneStates = make(map[rota.TenantID]laneState)
	i.pending.HoldLow(lm.low())
	for _, key := range lm.domainsOf(q.name) {
		if d := lm.domains.get(key); d.throttled {
			i.pending.ThrottleDomain(d.name, true)
		}
	}
}

// throttled reports whether a tenant's lanes in a queue wait: for max_concurrent (SPEC
// §4.9), or for its rolling window.
func (lm *admission) throttled(q *queueRow, tenant rota.TenantID) bool {
	t := lm.tenants.get(tenant)
	return t != nil && t.throttledAt != 0 || lm.windowFull(q, tenant)
}

// blocked names the first job-side reason for which a QUEUED job may not be
// assigned now (SPEC §6.1), "" if there is none. turn says that it would be by a
// turn of the oldest, which runs what an automatic DEGRADED has held for long enough.
func (lm *admission) blocked(j *jobRow, q *queueRow, turn bool) (first string) {
	lm.obstacles(j, q, turn, func(reason, _ string) bool {
		first = reason
		return false
	})
	return first
}

// obstacles calls note with every job-side reason, in a fixed order, until it
// returns false.
func (lm *admission) obstacles(j *jobRow, q *queueRow, turn bool, note func(reason, detail string) bool) {
	if lm.flows.doomed(j) && !note("WORKFLOW_ENDING", "workflow "+string(j.workflow)) {
		return
	}
	if q.policy.Paused && !note("QUEUE_PAUSED", "") {
		return
	}
	if lm.modeHolds(j.spec.Priority, turn) && !note("MODE_HOLDS", lm.s.head.mode.String()) {
		return
	}
	if t := lm.tenants.get(j.spec.Tenant); t != nil && t.throttledAt != 0 && !note("TENANT_AT_LIMIT", "") {
		return
	}
	if lm.windowFull(q, j.spec.Tenant) && !note("TENANT_WINDOW_FULL", "") {
		return
	}
	if d := lm.domainOf(q.name, j.spec.Domain); d != nil && d.throttled && !note("DOMAIN_ISOLATED", j.spec.Domain) {
		return
	}
	lm.keyring.obstacles(j, note)
}

// caps bound what one entry of rounds may assign (SPEC §7.2).
type caps struct{ m *Machine }

var _ sched.Caps = caps{}

// Tenant is what max_concurrent leaves a tenant.
func (c caps) Tenant(id rota.TenantID) int64 {
	t := c.m.admission.tenants.get(id)
	if t == nil || t.limits.MaxConcurrent == 0 {
		return math.MaxInt64
	}
	return max(0, t.limits.MaxConcurrent-t.open)
}

// Window is what tenant_window_max leaves a tenant in a queue. A sub-window that is
// over counts until a sweep, or the next assignment, takes it off.
func (c caps) Window(queue rota.QueueName, tenant rota.TenantID) int64 {
	most := c.m.queues.get(queue).policy.TenantWindowMax
	if most == 0 {
		return math.MaxInt64
	}
	r := c.m.admission.limiters.get(limiterKey(queue, tenant))
	if r == nil {
		return most
	}
	n, _ := r.window.total()
	return max(0, most-n)
}

// Domain is how many tokens an isolated domain's bucket holds.
func (c caps) Domain(queue rota.QueueName, name string) int64 {
	d := c.m.admission.domainOf(queue, name)
	if d == nil || !d.isolated {
		return math.MaxInt64
	}
	return c.m.admission.probes(queue).tokens(d.tat, c.m.head.clock)
}

// laneStates checks what a queue's lanes know against the rows.
func (c *checker) laneStates() {
	m := c.m
	m.jobs.scan(func(id rota.JobID, j *jobRow) bool {
		if j.state != rota.JobQueued {
			return true
		}
		q := m.queues.get(j.spec.Queue)
		got, ok := m.placement.registry.queues[q.name].laneStates[j.spec.Tenant]
		if !ok {
			got = laneState{weight: 1}
		}
		if want := (laneState{m.admission.throttled(q, j.spec.Tenant), m.admission.limitsOf(j.spec.Tenant).Weight}); got != want {
			c.fault("I4: queue %s takes tenant %s for %v, the rows say %v", q.name, j.spec.Tenant, got, want)
		}
		if held := m.placement.registry.queues[q.name].pending.Blocked(j.item); held != m.admission.laneBlocked(j, q) {
			c.fault("I4: job %s is blocked in its lane: %v, the rows say otherwise", id, held)
		}
		return true
	})
}

// laneBlocked reports whether rounds may not draw from a QUEUED job's lane.
func (lm *admission) laneBlocked(j *jobRow, q *queueRow) bool {
	d := lm.domainOf(q.name, j.spec.Domain)
	return lm.throttled(q, j.spec.Tenant) || d != nil && d.throttled || lm.keyring.holds(j) || lm.low() != sched.LowFree && j.spec.Priority > lowPriority
}

// timeLimits computes the timers of mode, tenants, limiters and domains.
func (lm *admission) timeLimits(t *timers) {
	t.mode.set("", 0, int64(lm.s.head.holdsUntil))
	lm.tenants.scan(func(id rota.TenantID, r *tenantRow) bool {
		t.penalty.set(string(id), 0, int64(r.penaltyAt()))
		return true
	})
	lm.limiters.scan(func(key string, r *limiterRow) bool {
		t.limiter.set(key, 0, int64(lm.limiterDue(r)))
		return true
	})
	lm.domains.scan(func(key string, r *domainRow) bool {
		t.domain.set(key, 0, int64(lm.domainDue(r)))
		return true
	})
}

// deriveLimits rebuilds what is derived of mode, tenants, limiters and domains.
func (lm *admission) deriveLimits() error {
	var err error
	lm.domains.scan(func(key string, r *domainRow) bool {
		if lm.s.queues.get(r.queue) == nil {
			err = fmt.Errorf("failure domain %s is of an unknown queue", key)
			return false
		}
		r.due = lm.domainDue(r)
		return true
	})
	lm.limiters.scan(func(_ string, r *limiterRow) bool {
		r.due = lm.limiterDue(r)
		return true
	})
	if err == nil {
		lm.timeLimits(&lm.s.timers)
	}
	return err
}

// domainSpan is the length of a failure domain's window (SPEC §4.8).
const domainSpan = limits.WindowSlots * limits.WindowSlotMs

// domainChanged is the payload of domainIsolated and domainRecovered.
type domainChanged struct {
	Domain            string `json:"domain"`
	Outcomes          int64  `json:"outcomes"`
	Failures          int64  `json:"failures"`
	ThresholdPermille int64  `json:"threshold_permille"`
}

// domainOf returns a queue's failure domain; nil where nothing is known of it.
func (lm *admission) domainOf(queue rota.QueueName, name string) *domainRow {
	if name == "" {
		return nil
	}
	return lm.domains.get(domainKey(queue, name))
}

// domainsOf lists the keys of a queue's failure domains.
func (lm *admission) domainsOf(queue rota.QueueName) []string {
	return keysUnder(&lm.domains, domainKey(queue, ""))
}

// probes is the bucket that an isolated domain's jobs pass.
func (lm *admission) probes(queue rota.QueueName) bucket {
	p := &lm.s.queues.get(queue).policy
	return bucketOf(p.DomainProbeRPS, p.DomainProbeBurst)
}

// takeDomain counts an assignment against an isolated domain's bucket (SPEC §4.8).
func (lm *admission) takeDomain(l *leaseRow) {
	d := lm.domainOf(l.queue, l.domain)
	if d == nil || !d.isolated {
		return
	}
	d = lm.domains.edit(domainKey(l.queue, l.domain))
	d.tat = lm.probes(l.queue).take(d.tat, lm.s.head.clock)
	lm.settleDomain(d)
}

// countDomain counts an outcome in the job's failure domain. Declines and
// cancellations say nothing of it; beyond MaxDomains nothing is counted.
func (lm *admission) countDomain(l *leaseRow, what outcome) {
	var ok, fail int64
	switch what {
	case outcomeSuccess:
		ok = 1
	case outcomeFailure, outcomeProofInvalid, outcomeExpired, outcomeAckTimeout, outcomeTimedOut:
		fail = 1
	default:
		return
	}
	if l.domain == "" {
		return
	}
	key := domainKey(l.queue, l.domain)
	d := lm.domains.edit(key)
	if d == nil {
		if lm.domains.len() >= limits.MaxDomains {
			return
		}
		d = &domainRow{key: key, queue: l.queue, name: l.domain}
		lm.domains.insert(key, d)
	}
	d.window.count(domainSpan, lm.s.head.clock, ok, fail)
	lm.settleDomain(d)
}

// fireDomain looks again at a domain whose window or bucket changes now.
func (lm *admission) fireDomain(key string) {
	d := lm.domains.edit(key)
	d.window.expire(domainSpan, lm.s.head.clock)
	if lm.s.head.rules >= shortenRules {
		d.tat = lm.probes(d.queue).within(d.tat, lm.s.head.clock)
	}
	lm.settleDomain(d)
}

// settleDomain puts a domain right after its window or bucket changed; d is
// editable. It is isolated above the threshold and recovers at half of it, so that
// it does not flap. One of which nothing was heard for a whole window recovers too:
// nothing says any more that it fails. A threshold of 0 isolates none.
func (lm *admission) settleDomain(d *domainRow) {
	p := &lm.s.queues.get(d.queue).policy
	threshold := p.DomainFailureThresholdPermille
	ok, fail := d.window.total()
	switch {
	case !d.isolated && threshold > 0 && ok+fail >= p.DomainMinSamples && fail*1000 > threshold*(ok+fail):
		lm.isolate(d, true)
	case d.isolated && (threshold == 0 || fail*2000 <= threshold*(ok+fail)):
		lm.isolate(d, false)
	}
	if throttled := d.isolated && lm.probes(d.queue).tokens(d.tat, lm.s.head.clock) == 0; throttled != d.throttled {
		d.throttled = throttled
		lm.placement.registry.queues[d.queue].pending.ThrottleDomain(d.name, throttled)
	}
	key, due := domainKey(d.queue, d.name), lm.domainDue(d)
	lm.s.timers.domain.set(key, int64(d.due), int64(due))
	if d.due = due; due == 0 {
		lm.domains.drop(key)
	}
}

// isolate changes whether a domain is isolated; its bucket is full then.
func (lm *admission) isolate(d *domainRow, isolated bool) {
	kind := rota.EventDomainRecovered
	if isolated {
		kind = rota.EventDomainIsolated
	}
	d.isolated, d.since, d.tat = isolated, lm.s.head.now(), 0
	ok, fail := d.window.total()
	lm.s.journal.emit(rota.Event{Kind: kind, Queue: d.queue, Payload: payload(domainChanged{d.name, ok + fail, fail,
		lm.s.queues.get(d.queue).policy.DomainFailureThresholdPermille})})
}

// domainDue is when a domain must be looked at: when its oldest sub-window goes, or
// its lanes get the next token; 0 when it is at rest.
func (lm *admission) domainDue(d *domainRow) rota.Clock {
	due := d.window.leaves(domainSpan)
	if d.throttled {
		due = sooner(due, lm.probes(d.queue).nextToken(d.tat, lm.s.head.clock))
	}
	return due
}

// domains checks what is derived of the domains. Invariant I9.
func (c *checker) domains() {
	m := c.m
	if n := m.admission.domains.len(); n > limits.MaxDomains {
		c.fault("I9: %d failure domains are counted, at most %d may be", n, limits.MaxDomains)
	}
	m.admission.domains.scan(func(key string, d *domainRow) bool {
		if key != domainKey(d.queue, d.name) || d.name == "" || m.queues.get(d.queue) == nil {
			c.fault("I9: failure domain %s is of unknown queue %q", key, d.queue)
			return true
		}
		if d.throttled && !d.isolated || d.since.Clock > m.head.clock {
			c.fault("I9: failure domain %s since %d, isolated %v, throttled %v", key, d.since.Clock, d.isolated, d.throttled)
		}
		if due := m.admission.domainDue(d); due == 0 || due != d.due {
			c.fault("I4: failure domain %s is due at %d, filed at %d", key, due, d.due)
		}
		return true
	})
}
