package client

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rotasched/rota"
)

// ErrHeldBack is the cause of a refusal that the client made itself: the cluster
// named a delay for jobs of this kind, and it has not passed.
var ErrHeldBack = errors.New("held back here until the delay that the cluster named has passed")

const (
	// heldKinds bounds the kinds of jobs that are held back; jobs of more are sent.
	heldKinds = 1_000
	// queueJitter spreads the return of many clients to one queue: up to this part of
	// the delay is added. A tenant's rate names the exact moment, and is kept to it.
	queueJitter = 4
)

// restraint holds submissions back that would be refused: full queues and tenants beyond
// their rate say for how long (SPEC §4.4 to §4.6), and to ask sooner costs the cluster
// about what a job does, just when it has no more to give. Only jobs with new ids are held
// back: a known id is answered before any of this is looked at (SPEC §4.1).
type restraint struct {
	off  bool
	some atomic.Bool // something may be held back

	mu    sync.Mutex
	holds map[jobKind]hold
}

// jobKind is which jobs a refusal is for: a queue's jobs of priority 0, for which there is room
// longer than for others, or the rest; a tenant's in one queue, as its rate may be for
// that queue alone.
type jobKind struct {
	queue  rota.QueueName
	tenant rota.TenantID
	urgent bool
}

// hold is a refusal that stands for a while.
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

// note takes the cluster's answer about a job. The first of several refusals counts: those
// that were on their way together must not add up.
func (r *restraint) note(s *rota.JobSpec, e *rota.Error) {
	if r.off || e == nil || e.Kind != rota.KindExhausted || e.RetryAfter <= 0 {
		return
	}
	var kind jobKind
	delay := min(e.RetryAfter, retryAfterMost)
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

// refuses returns the refusal of a job with a new id, nil where it may be sent.
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

// forget makes room: it drops what has passed.
func (r *restraint) forget(now time.Time) {
	for kind, h := range r.holds {
		if !now.Before(h.until) {
			delete(r.holds, kind)
		}
	}
}
