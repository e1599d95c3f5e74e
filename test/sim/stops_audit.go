package sim

import (
	"encoding/json"
	"strings"

	"github.com/rotasched/rota"
)

// stops is the naive model of SPEC §30.3 and §30.4: the pauses as events report them, and a breaker of its own for each
// count, from the starts and ends of attempts.
type stops struct {
	// paused holds the end of each paused count, as the clock counted when it was paused; 0 for none.
	paused   map[string]rota.Clock
	breakers map[string]*breakers
	// began names the breaker of each open attempt.
	began map[rota.LeaseID]*breakers
	// reported counts the keys that an entry's events open and close, made those that the model does.
	reported, made int
}

// breakers is the breaker of a count.
type breakers struct {
	rule  rota.KeyBreaker
	state rota.BreakerState
	// epoch counts how often it has opened, attempts has the epoch in which each open attempt began.
	epoch    int
	attempts map[rota.LeaseID]int
	outcomes []bool
	until    rota.Clock
	opened   int64
	passed   int64
}

func newStops() stops {
	return stops{paused: map[string]rota.Clock{}, breakers: map[string]*breakers{}, began: map[rota.LeaseID]*breakers{}}
}

// stopEvent follows an event about a pause or a breaker.
func (a *auditor) stopEvent(e *rota.Event) {
	m := &a.keyed.stops
	var stop struct {
		Key   string    `json:"key"`
		Why   string    `json:"why"`
		Until rota.Date `json:"until"`
	}
	if err := json.Unmarshal([]byte(e.Payload), &stop); err != nil {
		a.failf("event %s has the payload %s: %v", e.ID, e.Payload, err)
	}
	count := string(e.Tenant) + "/" + stop.Key
	until, paused := m.paused[count]
	switch e.Kind {
	case rota.EventKeyPaused:
		a.KeysPaused++
		end := rota.Clock(0)
		if stop.Until != 0 {
			end = e.Clock + rota.Clock(stop.Until-e.Date)
		}
		if paused && (until == 0 || end != 0 && end <= until) {
			a.failf("event %s shortens the pause of key %s to %d from %d", e.ID, count, end, until)
		}
		m.paused[count] = end
	case rota.EventKeyResumed:
		if !paused || stop.Why == "its time is over" && (until == 0 || e.Clock < until) {
			a.failf("event %s ends the pause of key %s at %d, which lasts until %d", e.ID, count, e.Clock, until)
		}
		delete(m.paused, count)
	case rota.EventKeyOpened:
		a.KeysOpened++
		m.reported++
	case rota.EventKeyClosed:
		if stop.Why == "its probes succeeded" {
			m.reported++
		} else if b := m.breakers[count]; b != nil {
			b.close()
		}
	}
}

// stopsAllow checks an assignment, and notes it.
func (a *auditor) stopsAllow(e *rota.Event, key, count string, r *rota.KeyRule, at rota.Clock) {
	m := &a.keyed.stops
	if until, paused := m.paused[count]; paused {
		a.failf("job %s was assigned at %d while its key %s is paused until %d", e.Job, at, key, until)
	}
	if r.Breaker.Trip == 0 {
		return
	}
	b := m.breaker(count, r)
	if b.state == rota.BreakerOpen {
		if at < b.until {
			a.failf("job %s was assigned at %d while its key %s is open until %d", e.Job, at, key, b.until)
		}
		b.state = rota.BreakerProbing
	}
	if b.state == rota.BreakerProbing {
		probes := int64(1)
		for _, epoch := range b.attempts {
			if epoch == b.epoch {
				probes++
			}
		}
		if probes > max(b.rule.Probes, 1) {
			a.failf("job %s is the %d. probe of its key %s", e.Job, probes, key)
		}
	}
	b.attempts[e.Lease] = b.epoch
	m.began[e.Lease] = b
}

// breaker returns the breaker of a count.
func (m *stops) breaker(count string, r *rota.KeyRule) *breakers {
	b := m.breakers[count]
	if b == nil {
		b = &breakers{rule: r.Breaker, attempts: map[rota.LeaseID]int{}}
		m.breakers[count] = b
	}
	return b
}

// ruled counts the attempts that are open when a rule gets a breaker.
func (a *auditor) ruled(r *rota.KeyRule) {
	m := &a.keyed.stops
	for id, l := range a.leases {
		s := a.keyed.specs[l.job]
		if s == nil || m.began[id] != nil || r.Breaker.Trip == 0 {
			continue
		}
		for _, key := range s.Keys {
			if a.keyed.rule(key) == r {
				b := m.breaker(a.keyed.count(l.job, key), r)
				b.attempts[id], m.began[id] = b.epoch, b
			}
		}
	}
}

// ended follows the ends of attempts. A job that dies at once has no event of its lease.
func (m *stops) ended(e *rota.Event, lease rota.LeaseID) {
	b := m.began[lease]
	if b == nil {
		return
	}
	failed := b.rule.Failure(e.Reason)
	switch e.Kind {
	case rota.EventJobCompleted, rota.EventLeaseCancelled, rota.EventLeaseExpired, rota.EventLeaseDeclined:
	case rota.EventJobDead: // the attempt has ended, and may have an event of it already
	case rota.EventJobCancelled:
		if e.Reason != rota.ReasonCancelledByHandler {
			return
		}
	default:
		return
	}
	delete(m.began, lease)
	epoch := b.attempts[lease]
	delete(b.attempts, lease)
	if epoch != b.epoch || !failed && e.Kind != rota.EventJobCompleted {
		return
	}
	if b.state == rota.BreakerClosed {
		b.outcomes = append(b.outcomes, failed)
		n := int64(0)
		for _, f := range b.outcomes[max(0, len(b.outcomes)-int(max(b.rule.Of, b.rule.Trip))):] {
			if f {
				n++
			}
		}
		failed = n >= b.rule.Trip
	} else if !failed {
		if b.passed++; b.passed >= max(b.rule.Probes, 1) {
			m.made++
			b.close()
		}
	}
	if failed {
		m.made++
		b.state, b.epoch, b.outcomes, b.passed = rota.BreakerOpen, b.epoch+1, nil, 0
		b.until = e.Clock + rota.Clock(b.rule.OpenMs<<min(b.opened, 5))
		b.opened++
	}
}

func (b *breakers) close() { b.state, b.outcomes, b.passed, b.opened = rota.BreakerClosed, nil, 0, 0 }

// forget drops the data about counts without a rule.
func (m *stops) forget(gone func(key string) bool) {
	for count := range m.breakers {
		if _, key, _ := strings.Cut(count, "/"); gone(key) {
			delete(m.breakers, count)
		}
	}
}

// settled checks that an entry reports each key that opened or closed, and no other.
func (m *stops) settled(a *auditor, index rota.Index) {
	if m.reported != m.made {
		a.failf("entry %d reports %d keys opened and closed, want %d as in the model", index, m.reported, m.made)
	}
	m.reported, m.made = 0, 0
}
