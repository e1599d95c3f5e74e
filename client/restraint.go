package client

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rotasched/rota"
)

// ErrHeldBack is the cause of a refusal by the client itself: the cluster set a delay for jobs of this kind, and it has
// not passed.
var ErrHeldBack = errors.New("held back here until the delay that the cluster named has passed")

const (
	// heldKinds bounds the kinds of jobs that are held back; jobs of further kinds are sent.
	heldKinds = 1_000
	// queueJitter spreads the return of many clients to one queue: up to this part of the delay is added. A tenant's
	// rate limit gives the exact time, which gets no jitter.
	queueJitter = 4
)

// restraint holds back submissions that would be refused. Full queues and tenants above their rate set the delay (SPEC
// §4.4 to §4.6); a try before that costs the cluster about as much as a job, just when it is overloaded. Only jobs with
// new ids are held back: a known id is answered before any of these checks (SPEC §4.1).
type restraint struct {
	off  bool
	some atomic.Bool // something may be held back

	mu    sync.Mutex
	holds map[jobKind]hold
}

// jobKind is the set of jobs that a refusal applies to: a queue's jobs of priority 0, which have room for longer than
// others, or its other jobs; or a tenant's jobs in one queue, because its rate may apply to that queue only.
type jobKind struct {
	queue  rota.QueueName
	tenant rota.TenantID
	urgent bool
}

// hold is a refusal that stays in force until a given time.
type hold struct {
	until   time.Time
	refusal *rota.Error
}

func queueKind(s *rota.JobSpec) jobKind {
	k := jobKind{queue: s.Queue, urgent: s.Priority == 0}
	if k.queue == "" {
		k.queue = rota.DefaultQueue
	}
	return k
}

func tenantKind(s *rota.JobSpec) jobKind {
	k := jobKind{queue: queueKind(s).queue, tenant: s.Tenant}
	if k.tenant == "" {
		k.tenant = rota.DefaultTenant
	}
	return k
}

// note records the cluster's answer for a job. The first of several refusals counts: the delays of jobs sent at the
// same time must not add up.
func (r *restraint) note(s *rota.JobSpec, e *rota.Error) {
	if r.off || e == nil || e.Kind != rota.KindExhausted || e.RetryAfter <= 0 {
		return
	}
	var kind jobKind
	delay := min(e.RetryAfter, maxRetryAfter)
	switch e.Subject {
	case "queue":
		kind = queueKind(s)
		delay += rand.N(delay/queueJitter + 1)
	case "rate_limit_rps":
		kind = tenantKind(s)
	default:
		return
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Before(r.holds[kind].until) {
		return
	}
	if len(r.holds) >= heldKinds {
		r.forget(now)
	}
	if len(r.holds) < heldKinds {
		if r.holds == nil {
			r.holds = make(map[jobKind]hold)
		}
		r.holds[kind] = hold{now.Add(delay), e}
		r.some.Store(true)
	}
}

// refuses returns the refusal of a job with a new id, nil if it may be sent.
func (r *restraint) refuses(s *rota.JobSpec) *rota.Error {
	if !r.some.Load() {
		return nil
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, kind := range [...]jobKind{queueKind(s), tenantKind(s)} {
		h, ok := r.holds[kind]
		if !ok {
			continue
		}
		if left := h.until.Sub(now); left > 0 {
			e := *h.refusal
			e.RetryAfter, e.Cause = max(left, time.Millisecond), ErrHeldBack
			return &e
		}
		delete(r.holds, kind)
	}
	r.some.Store(len(r.holds) > 0)
	return nil
}

// forget drops expired holds to make room.
func (r *restraint) forget(now time.Time) {
	for kind, h := range r.holds {
		if !now.Before(h.until) {
			delete(r.holds, kind)
		}
	}
}
