package fsm

import (
	"fmt"
	"math"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
)

// laneState is how a tenant in a queue's lanes differs from the default: that it waits for a limit, and its weight.
type laneState struct {
	throttled bool
	weight    int64
}

// syncLanes updates a queue's lanes from a tenant's rows. It runs whenever a job is filed, so that a queue without jobs
// of the tenant need not be updated: throttling a tenant does not walk over all queues.
func (lm *admission) syncLanes(i *queueIndex, q *state.QueueRow, tenant rota.TenantID) {
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
		i.share(tenant, i.open.Get(tenant), want.weight)
	}
}

// share sets a tenant's open leases and weight in the lanes.
func (i *queueIndex) share(tenant rota.TenantID, open, weight int64) {
	i.pending.SetShare(tenant, open, weight)
	if len(i.laneStates) == 0 && weight == 1 {
		return // usual case
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

// syncBusyLanes is syncLanes for all queues that have QUEUED jobs; others follow when they get some.
func (lm *admission) syncBusyLanes(tenant rota.TenantID) {
	lm.placement.registry.busy.Scan(func(t turn) bool {
		lm.syncLanes(lm.placement.registry.queues[t.name], lm.s.QueueTable.Get(t.name), tenant)
		return true
	})
}

// initLanes sets everything in rebuilt lanes that does not come from the jobs.
func (lm *admission) initLanes(q *state.QueueRow, i *queueIndex) {
	i.laneStates = make(map[rota.TenantID]laneState)
	i.pending.HoldLow(lm.low())
	for _, key := range lm.domainsOf(q.Name) {
		if d := lm.domains.Get(key); d.Throttled {
			i.pending.ThrottleDomain(d.Name, true)
		}
	}
}

// throttled reports whether a tenant's lanes in a queue wait: for max_concurrent (SPEC §4.9), or for its rolling
// window.
func (lm *admission) throttled(q *state.QueueRow, tenant rota.TenantID) bool {
	t := lm.tenants.Get(tenant)
	return t != nil && t.ThrottledAt != 0 || lm.windowFull(q, tenant)
}

// blocked returns the first job-side reason why a QUEUED job may not be assigned now (SPEC §6.1), "" if there is none.
// turn means by a turn of the oldest, which runs what an automatic DEGRADED has held long enough.
func (lm *admission) blocked(j *state.JobRow, q *state.QueueRow, turn bool) (first string) {
	lm.obstacles(j, q, turn, func(reason, _ string) bool {
		first = reason
		return false
	})
	return first
}

// obstacles calls note with every job-side reason, in a fixed order, until it
// returns false.
func (lm *admission) obstacles(j *state.JobRow, q *state.QueueRow, turn bool, note func(reason, detail string) bool) {
	if lm.flows.doomed(j) && !note("WORKFLOW_ENDING", "workflow "+string(j.Workflow)) {
		return
	}
	if q.Policy.Paused && !note("QUEUE_PAUSED", "") {
		return
	}
	if lm.modeHolds(j.Spec.Priority, turn) && !note("MODE_HOLDS", lm.s.Header.Mode.String()) {
		return
	}
	if t := lm.tenants.Get(j.Spec.Tenant); t != nil && t.ThrottledAt != 0 && !note("TENANT_AT_LIMIT", "") {
		return
	}
	if lm.windowFull(q, j.Spec.Tenant) && !note("TENANT_WINDOW_FULL", "") {
		return
	}
	if d := lm.domainOf(q.Name, j.Spec.Domain); d != nil && d.Throttled && !note("DOMAIN_ISOLATED", j.Spec.Domain) {
		return
	}
	if lm.keyring.Obstacles(j, note) {
		lm.budgets.Obstacles(j, note)
	}
}

// caps implements the bounds on what one entry of rounds may assign (SPEC §7.2).
type caps struct{ m *parts }

var _ sched.Caps = caps{}

// Tenant returns what max_concurrent leaves a tenant.
func (c caps) Tenant(id rota.TenantID) int64 {
	t := c.m.admission.tenants.Get(id)
	if t == nil || t.Limits.MaxConcurrent == 0 {
		return math.MaxInt64
	}
	return max(0, t.Limits.MaxConcurrent-t.Open)
}

// Window returns what tenant_window_max leaves a tenant in a queue. A sub-window that is over counts until a sweep, or
// the next assignment, removes it.
func (c caps) Window(queue rota.QueueName, tenant rota.TenantID) int64 {
	most := c.m.QueueTable.Get(queue).Policy.TenantWindowMax
	if most == 0 {
		return math.MaxInt64
	}
	r := c.m.admission.limiters.Get(state.LimiterKey(queue, tenant))
	if r == nil {
		return most
	}
	n, _ := r.Window.Total()
	return max(0, most-n)
}

// Domain returns how many tokens an isolated domain's bucket holds.
func (c caps) Domain(queue rota.QueueName, name string) int64 {
	d := c.m.admission.domainOf(queue, name)
	if d == nil || !d.Isolated {
		return math.MaxInt64
	}
	return c.m.admission.probes(queue).Tokens(d.Tat, c.m.Header.Clock)
}

// Key returns what the rules leave a count.
func (c caps) Key(count string) int64 {
	if c.m.budgets.ByName[count] != nil {
		return math.MaxInt64
	}
	r := c.m.keyring.CountRows.Get(count)
	if r.Full {
		return 0
	}
	return c.m.keyring.Left(r, c.m.keyring.RuleOf(r))
}

// Amount returns what a weighted rate or a budget leaves a count.
func (c caps) Amount(count string) sched.Amount {
	if b := c.m.budgets.ByName[count]; b != nil {
		return c.m.budgets.Amount(b)
	}
	r := c.m.keyring.CountRows.Get(count)
	rule := c.m.keyring.RuleOf(r)
	if rule.Unit == "" {
		return sched.Amount{Left: math.MaxInt64}
	}
	need := c.m.keyring.Needed(r, rule)
	return sched.Amount{Left: c.m.keyring.AmountLeft(r, rule) + need - 1, Least: need}
}

// Weight returns what an assignment of a job takes of that.
func (c caps) Weight(count string, it *sched.Item) int64 {
	if b := c.m.budgets.ByName[count]; b != nil {
		return b.Budget.Estimate(it.JobSpec)
	}
	return c.m.keyring.RuleOf(c.m.keyring.CountRows.Get(count)).CostOf(it.JobSpec)
}

// laneStates checks the data of a queue's lanes against the rows.
func (c *checker) laneStates() {
	m := c.m
	m.JobTable.Scan(func(id rota.JobID, j *state.JobRow) bool {
		if j.State != rota.JobQueued {
			return true
		}
		q := m.QueueTable.Get(j.Spec.Queue)
		got, ok := m.placement.registry.queues[q.Name].laneStates[j.Spec.Tenant]
		if !ok {
			got = laneState{weight: 1}
		}
		if want := (laneState{m.admission.throttled(q, j.Spec.Tenant),
			m.admission.limitsOf(j.Spec.Tenant).Weight}); got != want {
			c.fault("I4: queue %s takes tenant %s for %v, the rows say %v", q.Name, j.Spec.Tenant, got, want)
		}
		if held := m.placement.registry.queues[q.Name].pending.Blocked(j.Item); held != m.admission.laneBlocked(j, q) {
			c.fault("I4: job %s is blocked in its lane: %v, the rows say otherwise", id, held)
		}
		return true
	})
}

// laneBlocked reports whether rounds may not draw from a QUEUED job's lane.
func (lm *admission) laneBlocked(j *state.JobRow, q *state.QueueRow) bool {
	d := lm.domainOf(q.Name, j.Spec.Domain)
	return lm.throttled(q, j.Spec.Tenant) || d != nil && d.Throttled || lm.keyring.Holds(j) ||
		lm.low() != sched.LowFree && j.Spec.Priority > lowPriority
}

// timeLimits calculates the timers of mode, tenants, limiters and domains.
func (lm *admission) timeLimits(t *state.Timers) {
	t.Mode.Refile("", 0, int64(lm.s.Header.HoldsUntil))
	lm.tenants.Scan(func(id rota.TenantID, r *state.TenantRow) bool {
		t.Penalty.Refile(string(id), 0, int64(r.PenaltyAt()))
		return true
	})
	lm.limiters.Scan(func(key string, r *state.LimiterRow) bool {
		t.Limiter.Refile(key, 0, int64(lm.limiterDue(r)))
		return true
	})
	lm.domains.Scan(func(key string, r *state.DomainRow) bool {
		t.Domain.Refile(key, 0, int64(lm.domainDue(r)))
		return true
	})
}

// deriveLimits rebuilds the data derived from mode, tenants, limiters and domains.
func (lm *admission) deriveLimits() error {
	var err error
	lm.domains.Scan(func(key string, r *state.DomainRow) bool {
		if lm.s.QueueTable.Get(r.Queue) == nil {
			err = fmt.Errorf("failure domain %s is of an unknown queue", key)
			return false
		}
		r.Due = lm.domainDue(r)
		return true
	})
	lm.limiters.Scan(func(_ string, r *state.LimiterRow) bool {
		r.Due = lm.limiterDue(r)
		return true
	})
	if err == nil {
		lm.timeLimits(&lm.s.Timers)
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

// domainOf returns a queue's failure domain; nil if nothing is recorded about it.
func (lm *admission) domainOf(queue rota.QueueName, name string) *state.DomainRow {
	if name == "" {
		return nil
	}
	return lm.domains.Get(state.DomainKey(queue, name))
}

// domainsOf lists the keys of a queue's failure domains.
func (lm *admission) domainsOf(queue rota.QueueName) []string {
	return state.KeysUnder(&lm.domains, state.DomainKey(queue, ""))
}

// probes returns the bucket that limits an isolated domain's jobs.
func (lm *admission) probes(queue rota.QueueName) state.Bucket {
	p := &lm.s.QueueTable.Get(queue).Policy
	return state.BucketOf(p.DomainProbeRPS, p.DomainProbeBurst)
}

// takeDomain counts an assignment against an isolated domain's bucket (SPEC §4.8).
func (lm *admission) takeDomain(l *state.LeaseRow) {
	d := lm.domainOf(l.Queue, l.Domain)
	if d == nil || !d.Isolated {
		return
	}
	d = lm.domains.Edit(state.DomainKey(l.Queue, l.Domain))
	d.Tat = lm.probes(l.Queue).Take(d.Tat, lm.s.Header.Clock)
	lm.settleDomain(d)
}

// countDomain counts an outcome in the job's failure domain. Declines and cancellations do not count; beyond MaxDomains
// nothing is counted.
func (lm *admission) countDomain(l *state.LeaseRow, what state.Outcome) {
	var ok, fail int64
	switch what {
	case state.OutcomeSuccess:
		ok = 1
	case state.OutcomeFailure, state.OutcomeProofInvalid, state.OutcomeExpired, state.OutcomeAckTimeout,
		state.OutcomeTimedOut:
		fail = 1
	default:
		return
	}
	if l.Domain == "" {
		return
	}
	key := state.DomainKey(l.Queue, l.Domain)
	d := lm.domains.Edit(key)
	if d == nil {
		if lm.domains.Len() >= limits.MaxDomains {
			return
		}
		d = &state.DomainRow{Key: key, Queue: l.Queue, Name: l.Domain}
		lm.domains.Insert(key, d)
	}
	d.Window.Count(domainSpan, lm.s.Header.Clock, ok, fail)
	lm.settleDomain(d)
}

// fireDomain reviews a domain whose window or bucket changes now.
func (lm *admission) fireDomain(key string) {
	d := lm.domains.Edit(key)
	d.Window.Expire(domainSpan, lm.s.Header.Clock)
	if lm.s.Header.Rules >= state.ShortenRules {
		d.Tat = lm.probes(d.Queue).Within(d.Tat, lm.s.Header.Clock)
	}
	lm.settleDomain(d)
}

// settleDomain updates a domain after its window or bucket changed; d is editable. It is isolated above the threshold
// and recovers at half of it, to avoid flapping. A domain without outcomes for a whole window recovers too: there is no
// longer evidence that it fails. A threshold of 0 isolates none.
func (lm *admission) settleDomain(d *state.DomainRow) {
	p := &lm.s.QueueTable.Get(d.Queue).Policy
	threshold := p.DomainFailureThresholdPermille
	ok, fail := d.Window.Total()
	switch {
	case !d.Isolated && threshold > 0 && ok+fail >= p.DomainMinSamples && fail*1000 > threshold*(ok+fail):
		lm.isolate(d, true)
	case d.Isolated && (threshold == 0 || fail*2000 <= threshold*(ok+fail)):
		lm.isolate(d, false)
	}
	if throttled := d.Isolated && lm.probes(d.Queue).Tokens(d.Tat, lm.s.Header.Clock) == 0; throttled != d.Throttled {
		d.Throttled = throttled
		lm.placement.registry.queues[d.Queue].pending.ThrottleDomain(d.Name, throttled)
	}
	key, due := state.DomainKey(d.Queue, d.Name), lm.domainDue(d)
	lm.s.Timers.Domain.Refile(key, int64(d.Due), int64(due))
	if d.Due = due; due == 0 {
		lm.domains.Drop(key)
	}
}

// isolate changes whether a domain is isolated; its bucket is then full.
func (lm *admission) isolate(d *state.DomainRow, isolated bool) {
	kind := rota.EventDomainRecovered
	if isolated {
		kind = rota.EventDomainIsolated
	}
	d.Isolated, d.Since, d.Tat = isolated, lm.s.Header.Now(), 0
	ok, fail := d.Window.Total()
	lm.s.Journal.Emit(rota.Event{Kind: kind, Queue: d.Queue,
		Payload: state.Payload(domainChanged{d.Name, ok + fail, fail,
			lm.s.QueueTable.Get(d.Queue).Policy.DomainFailureThresholdPermille})})
}

// domainDue returns when a domain must be reviewed: when its oldest sub-window ends, or its lanes get the next token; 0
// at rest.
func (lm *admission) domainDue(d *state.DomainRow) rota.Clock {
	due := d.Window.Leaves(domainSpan)
	if d.Throttled {
		due = state.Sooner(due, lm.probes(d.Queue).NextToken(d.Tat, lm.s.Header.Clock))
	}
	return due
}

// domains checks the data derived from domains. Invariant I9.
func (c *checker) domains() {
	m := c.m
	if n := m.admission.domains.Len(); n > limits.MaxDomains {
		c.fault("I9: %d failure domains are counted, at most %d may be", n, limits.MaxDomains)
	}
	m.admission.domains.Scan(func(key string, d *state.DomainRow) bool {
		if key != state.DomainKey(d.Queue, d.Name) || d.Name == "" || m.QueueTable.Get(d.Queue) == nil {
			c.fault("I9: failure domain %s is of unknown queue %q", key, d.Queue)
			return true
		}
		if d.Throttled && !d.Isolated || d.Since.Clock > m.Header.Clock {
			c.fault("I9: failure domain %s since %d, isolated %v, throttled %v", key, d.Since.Clock, d.Isolated,
				d.Throttled)
		}
		if due := m.admission.domainDue(d); due == 0 || due != d.Due {
			c.fault("I4: failure domain %s is due at %d, filed at %d", key, due, d.Due)
		}
		return true
	})
}
