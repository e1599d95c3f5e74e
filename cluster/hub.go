package cluster

import (
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/peer"
)

// hub wakes loops, streams and waiters when an entry was applied. publish runs under the apply lock and never blocks:
// it appends to bounded queues and notifies channels.
type hub struct {
	mu sync.Mutex
	// sessions holds the newest session of each worker connected to this node.
	sessions map[rota.WorkerID]*WorkerSession
	// broken holds the workers whose stream here ended, until the state reflects that.
	broken map[rota.WorkerID]brokenStream
	// jobs holds the jobs that callers wait for here.
	jobs map[rota.JobID][]*jobWait
	// ends holds, by callback id, a channel for each caller that waits for the end of a workflow or batch here.
	ends map[string][]chan struct{}
	// waits are callers waiting for an applied index.
	waits []indexWait
	index rota.Index
	// matchable is notified when supply or demand changed.
	matchable chan struct{}
	// due stays true until deciding begins, since a notified loop runs a moment later.
	due atomic.Bool
	// deciding counts the batches of workers' commands being decided, except those whose answers are delayed. leaseHeld
	// and answerHeld equal the constants of these names, except in tests.
	deciding              atomic.Int64
	leaseHeld, answerHeld time.Duration
}

type indexWait struct {
	index rota.Index
	done  chan struct{}
}

// jobWait collects ended jobs for one waiter.
type jobWait struct {
	ended  []rota.JobID
	notify chan struct{}
}

func newHub() *hub {
	return &hub{sessions: make(map[rota.WorkerID]*WorkerSession), broken: make(map[rota.WorkerID]brokenStream),
		jobs:      make(map[rota.JobID][]*jobWait),
		ends:      make(map[string][]chan struct{}),
		matchable: make(chan struct{}, 1), leaseHeld: leaseHeld, answerHeld: answerHeld}
}

// publish passes an entry's events to the sessions and waiters that they concern.
func (h *hub) publish(m *fsm.Machine, a *fsm.Applied) {
	h.mu.Lock()
	defer h.mu.Unlock()
	match := a.Offered
	for i := range a.Events {
		e := &a.Events[i]
		switch e.Kind {
		case rota.EventJobEnqueued, rota.EventJobChanged, rota.EventQueueChanged, rota.EventModeChanged,
			rota.EventTenantChanged, rota.EventDomainRecovered:
			match = true
		case rota.EventJobAssigned:
			s := h.session(e)
			if s == nil {
				continue
			}
			if fsm.RegisteredBy(&m.View, e.Worker) != s.by {
				s.end() // a node that the worker connected to later has its newest stream
			} else if given, ok := m.Assignment(e.Lease); ok {
				s.push(peer.Notice{Assigned: &given})
			}
		case rota.EventLeaseExpired, rota.EventLeaseCancelled, rota.EventLeaseDeclined:
			match = true
			if s := h.session(e); s != nil && e.Kind != rota.EventLeaseDeclined {
				s.push(peer.Notice{Ended: &peer.LeaseEnd{Lease: e.Lease, Job: e.Job, Reason: e.Reason}})
			}
		case rota.EventLeaseRevoked:
			if s := h.session(e); s != nil {
				s.push(peer.Notice{Revoked: &peer.LeaseEnd{Lease: e.Lease, Job: e.Job, Reason: e.Reason}})
			}
		case rota.EventProviderRegistered, rota.EventProviderStatusChanged:
			match = true
			h.standing(e)
		case rota.EventJobCompleted, rota.EventJobDead, rota.EventJobExpired, rota.EventJobCancelled:
			match = true
			h.ended(e.Job)
		case rota.EventWorkflowFinished:
			h.over(string(e.Run))
		case rota.EventBatchFinished:
			h.over(string(e.Job))
		}
	}
	if match && m.Waiting() {
		h.matchSoon()
	}
}

func (h *hub) standing(e *rota.Event) {
	for s := h.sessions[e.Worker]; s != nil; s = s.older {
		switch {
		case s.session != e.Session || e.Status == rota.WorkerRetired:
			s.end()
		case e.Status == rota.WorkerDraining:
			s.push(peer.Notice{Draining: true})
		}
	}
}

// streams yields all workers' streams.
func (h *hub) streams() iter.Seq[*WorkerSession] {
	return func(yield func(*WorkerSession) bool) {
		for _, s := range h.sessions {
			for ; s != nil; s = s.older {
				if !yield(s) {
					return
				}
			}
		}
	}
}

// session returns the stream here for an event's session, nil for none.
func (h *hub) session(e *rota.Event) *WorkerSession {
	s := h.sessions[e.Worker]
	for s != nil && s.session != e.Session {
		s = s.older
	}
	return s
}

// enter registers a worker's stream. Registrations may be answered in another order than they were applied in: whatever
// the order, the newest stream is served and the others end. One stream of each other session stays reachable for as
// long as it lives, since it may have leases to confirm.
func (h *hub) enter(s *WorkerSession) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if b, ok := h.broken[s.worker]; ok && s.precedes(b.session, b.connection) {
		s.end() // a newer one has already ended
	} else {
		delete(h.broken, s.worker)
	}
	first := h.sessions[s.worker]
	at := &first
	for *at != nil && (*at).session > s.session {
		at = &(*at).older
	}
	if same := *at; same != nil && same.session == s.session {
		if s.precedes(same.session, same.connection) {
			s.end()
			return
		}
		same.end()
		*at = same.older
	}
	s.older, *at = *at, s
	h.sessions[s.worker] = first
	for old := first.older; old != nil; old = old.older {
		old.end()
	}
}

// leave removes a stream.
func (h *hub) leave(s *WorkerSession) {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := h.sessions[s.worker]
	if b := h.broken[s.worker]; first == s && s.connection != 0 && !s.precedes(b.session, b.connection) {
		h.broken[s.worker] = brokenStream{s.session, s.connection, time.Now()}
	}
	if first == s && s.older == nil {
		delete(h.sessions, s.worker)
	} else if first == s {
		h.sessions[s.worker] = s.older
	}
	for p := first; p != nil; p = p.older {
		if p.older == s {
			p.older = s.older
		}
	}
}

func (h *hub) ended(id rota.JobID) {
	for _, w := range h.jobs[id] {
		w.ended = append(w.ended, id)
		notify(w.notify)
	}
	delete(h.jobs, id)
}

// resync makes every stream and waiter check the state again, after a snapshot replaced the state that they followed.
// There are no events for the time in between, so the ended sessions and leases are derived from the difference.
func (h *hub) resync(before, after *fsm.Machine) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.streams() {
		s.resync()
		if session, status := after.Session(s.worker); session != s.session || status == rota.WorkerRetired {
			s.end()
		}
		for _, a := range before.Assignments(s.worker, s.session) {
			if _, open := after.Assignment(a.Lease.ID); !open {
				s.push(peer.Notice{Ended: &peer.LeaseEnd{Lease: a.Lease.ID, Job: a.Lease.Job}})
			}
		}
	}
	seen := make(map[*jobWait]bool)
	for id, waits := range h.jobs {
		for _, w := range waits {
			w.ended = append(w.ended, id)
			if !seen[w] {
				seen[w] = true
				notify(w.notify)
			}
		}
	}
	clear(h.jobs)
	for _, waiters := range h.ends {
		for _, waiter := range waiters {
			notify(waiter)
		}
	}
	h.matchSoon()
}

// matchSoon requests a round.
func (h *hub) matchSoon() {
	h.due.Store(true)
	notify(h.matchable)
}

// advance notifies the callers that wait for an index up to the given one.
func (h *hub) advance(index rota.Index) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.index = max(h.index, index)
	if len(h.waits) == 0 {
		return
	}
	h.waits = slices.DeleteFunc(h.waits, func(w indexWait) bool {
		if w.index <= h.index {
			close(w.done)
			return true
		}
		return false
	})
}

// reached returns a channel that is closed once the index is applied here.
func (h *hub) reached(index rota.Index) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	done := make(chan struct{})
	if index <= h.index {
		close(done)
		return done
	}
	h.waits = append(h.waits, indexWait{index, done})
	return done
}

// forgetWait removes a waiter that gave up.
func (h *hub) forgetWait(done <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waits = slices.DeleteFunc(h.waits, func(w indexWait) bool { return (<-chan struct{})(w.done) == done })
}

// await registers a waiter for the ends of those ids that are in waiting; ended ids are collected in w.
func (h *hub) await(w *jobWait, waiting map[rota.JobID]bool, ids []rota.JobID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range ids {
		if waiting[id] && !slices.Contains(h.jobs[id], w) {
			h.jobs[id] = append(h.jobs[id], w)
		}
	}
}

// forget removes a waiter from the given jobs.
func (h *hub) forget(w *jobWait, ids []rota.JobID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range ids {
		if rest := slices.DeleteFunc(h.jobs[id], func(x *jobWait) bool { return x == w }); len(rest) > 0 {
			h.jobs[id] = rest
		} else {
			delete(h.jobs, id)
		}
	}
}

// taken returns and clears the ended jobs of a waiter.
func (h *hub) taken(w *jobWait) []rota.JobID {
	h.mu.Lock()
	defer h.mu.Unlock()
	ended := w.ended
	w.ended = nil
	return ended
}

// over notifies the callers that wait for the end of a workflow or a batch.
func (h *hub) over(id string) {
	for _, waiter := range h.ends[id] {
		notify(waiter)
	}
}

// awaitEnd returns a channel that is notified whenever a workflow or batch may have ended, until forget is called.
func (h *hub) awaitEnd(id string) (notified <-chan struct{}, forget func()) {
	waiter := make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ends[id] = append(h.ends[id], waiter)
	return waiter, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if rest := slices.DeleteFunc(h.ends[id], func(x chan struct{}) bool { return x == waiter }); len(rest) > 0 {
			h.ends[id] = rest
		} else {
			delete(h.ends, id)
		}
	}
}

// notify wakes a loop that waits on a channel of capacity one; a pending notification is enough.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// brokenStream is a worker's stream that ended at this node (SPEC §16.7). Its beats are no longer answered; this node
// knows nothing else about the worker.
type brokenStream struct {
	session    rota.Session
	connection uint64
	at         time.Time
}
