package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
)

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
	p := &lm.m.queues.get(queue).policy
	return bucketOf(p.DomainProbeRPS, p.DomainProbeBurst)
}

// takeDomain counts an assignment against an isolated domain's bucket (SPEC §4.8).
func (lm *admission) takeDomain(l *leaseRow) {
	d := lm.domainOf(l.queue, l.domain)
	if d == nil || !d.isolated {
		return
	}
	d = lm.domains.edit(domainKey(l.queue, l.domain))
	d.tat = lm.probes(l.queue).take(d.tat, lm.m.head.clock)
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
	d.window.count(domainSpan, lm.m.head.clock, ok, fail)
	lm.settleDomain(d)
}

// fireDomain looks again at a domain whose window or bucket changes now.
func (lm *admission) fireDomain(key string) {
	d := lm.domains.edit(key)
	d.window.expire(domainSpan, lm.m.head.clock)
	lm.settleDomain(d)
}

// settleDomain puts a domain right after its window or bucket changed; d is
// editable. It is isolated above the threshold and recovers at half of it, so that
// it does not flap. One of which nothing was heard for a whole window recovers too:
// nothing says any more that it fails. A threshold of 0 isolates none.
func (lm *admission) settleDomain(d *domainRow) {
	p := &lm.m.queues.get(d.queue).policy
	threshold := p.DomainFailureThresholdPermille
	ok, fail := d.window.total()
	switch {
	case !d.isolated && threshold > 0 && ok+fail >= p.DomainMinSamples && fail*1000 > threshold*(ok+fail):
		lm.isolate(d, true)
	case d.isolated && (threshold == 0 || fail*2000 <= threshold*(ok+fail)):
		lm.isolate(d, false)
	}
	if throttled := d.isolated && lm.probes(d.queue).tokens(d.tat, lm.m.head.clock) == 0; throttled != d.throttled {
		d.throttled = throttled
		lm.m.placement.registry.queues[d.queue].pending.ThrottleDomain(d.name, throttled)
	}
	key, due := domainKey(d.queue, d.name), lm.domainDue(d)
	lm.m.timers.domain.set(key, int64(d.due), int64(due))
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
	d.isolated, d.since, d.tat = isolated, lm.m.head.now(), 0
	ok, fail := d.window.total()
	lm.m.journal.emit(rota.Event{Kind: kind, Queue: d.queue, Payload: payload(domainChanged{d.name, ok + fail, fail,
		lm.m.queues.get(d.queue).policy.DomainFailureThresholdPermille})})
}

// domainDue is when a domain must be looked at: when its oldest sub-window goes, or
// its lanes get the next token; 0 when it is at rest.
func (lm *admission) domainDue(d *domainRow) rota.Clock {
	due := d.window.leaves(domainSpan)
	if d.throttled {
		due = sooner(due, lm.probes(d.queue).nextToken(d.tat, lm.m.head.clock))
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
