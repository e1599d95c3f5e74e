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
		i.share(tenant, i.open[tenant], want.weight)
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
	lm.m.placement.registry.busy.Scan(func(t turn) bool {
		lm.syncLanes(lm.m.placement.registry.queues[t.name], lm.m.queues.get(t.name), tenant)
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
	if lm.m.flows.doomed(j) && !note("WORKFLOW_ENDING", "workflow "+string(j.workflow)) {
		return
	}
	if q.policy.Paused && !note("QUEUE_PAUSED", "") {
		return
	}
	if lm.modeHolds(j.spec.Priority, turn) && !note("MODE_HOLDS", lm.m.head.mode.String()) {
		return
	}
	if t := lm.tenants.get(j.spec.Tenant); t != nil && t.throttledAt != 0 && !note("TENANT_AT_LIMIT", "") {
		return
	}
	if lm.windowFull(q, j.spec.Tenant) && !note("TENANT_WINDOW_FULL", "") {
		return
	}
	if d := lm.domainOf(q.name, j.spec.Domain); d != nil && d.throttled {
		note("DOMAIN_ISOLATED", j.spec.Domain)
	}
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
	return lm.throttled(q, j.spec.Tenant) || d != nil && d.throttled || lm.low() != sched.LowFree && j.spec.Priority > lowPriority
}

// timeLimits computes the timers of mode, tenants, limiters and domains.
func (lm *admission) timeLimits(t *timers) {
	t.mode.set("", 0, int64(lm.m.head.holdsUntil))
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
		if lm.m.queues.get(r.queue) == nil {
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
		lm.timeLimits(&lm.m.timers)
	}
	return err
}

// owned is a kind of rows that a principal may have so many of.
type owned uint8

const (
	ownsQueue owned = iota
	ownsTenant
	ownsWorker
	ownsWorkflow
	ownsToken
	ownsEnd
)

// ownedKinds say how each kind is named, how many one principal has at most, and what makes
// room.
var ownedKinds = [ownsEnd]struct {
	subject, plural string
	most            int64
	remedy          string
}{
	ownsQueue:    {"max_queues", "queues", limits.MaxOwnedQueues, "delete one with `rota queue delete`"},
	ownsTenant:   {"max_tenants", "tenants", limits.MaxOwnedTenants, "delete one with `rota tenant delete`"},
	ownsWorker:   {"max_workers", "workers", limits.MaxOwnedWorkers, "retire and delete one with `rota worker delete`, or wait until silent ones are forgotten"},
	ownsWorkflow: {"max_workflows", "workflows that have not ended", limits.MaxOwnedWorkflows, "wait for one to end, or cancel it"},
	ownsToken:    {"max_tokens", "tokens", limits.MaxOwnedTokens, "wait until one expires, revoked ones too: `rota auth token list` shows when"},
}

// holding is what a principal has of a kind.
type holding struct {
	by   rota.Principal
	what owned
}

// hold counts rows of a principal; the leader's own, and those whose principal has gone, count
// for none.
func (ac *authority) hold(by rota.Principal, what owned, n int64) {
	if by == "" || by == nobody {
		return
	}
	key := holding{by, what}
	if ac.held == nil {
		ac.held = make(map[holding]int64)
	}
	if ac.held[key] += n; ac.held[key] == 0 {
		delete(ac.held, key)
	}
}

// mayHold refuses one more row of a kind to a principal that has as many as one may have
// (SPEC §4.15). Those who may do everything, and the account that the node runs as, have
// as many as the cluster takes.
func (ac *authority) mayHold(by rota.Principal, what owned) error {
	if by == "" || by == rota.Local {
		return nil
	}
	k := &ownedKinds[what]
	if ac.held[holding{by, what}] < k.most {
		return nil
	}
	rights, refusal := ac.rightsOf(by)
	if refusal == nil && rights.All() {
		return nil
	}
	return exhausted(k.subject, "%s has %d %s, as many as one principal may have: %s", by, k.most, k.plural, k.remedy)
}

// eachHeld calls yield for each row that counts for its principal.
func (m *Machine) eachHeld(yield func(by rota.Principal, what owned)) {
	m.queues.scan(func(_ rota.QueueName, r *queueRow) bool { yield(r.by, ownsQueue); return true })
	m.admission.tenants.scan(func(_ rota.TenantID, r *tenantRow) bool { yield(r.by, ownsTenant); return true })
	m.fleet.workers.scan(func(_ rota.WorkerID, r *workerRow) bool { yield(r.by, ownsWorker); return true })
	m.access.tokens.scan(func(_ tokenID, r *tokenRow) bool { yield(r.By, ownsToken); return true })
	m.flows.workflows.scan(func(_ rota.WorkflowID, r *workflowRow) bool {
		if r.lives() {
			yield(r.by, ownsWorkflow)
		}
		return true
	})
}
