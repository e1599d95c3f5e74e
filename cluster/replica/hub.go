package replica

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

// Hub wakes loops, streams and waiters when an entry was applied. publish runs under the apply lock and never blocks:
// it appends to bounded queues and notifies channels.
type Hub struct {
	Mu sync.Mutex
	// Sessions holds the newest session of each worker connected to this node.
	Sessions map[rota.WorkerID]*WorkerSession
	// Broken holds the workers whose stream here ended, until the state reflects that.
	Broken map[rota.WorkerID]brokenStream
	// Jobs holds the jobs that callers wait for here.
	Jobs map[rota.JobID][]*JobWait
	// Ends holds, by callback id, a channel for each caller that waits for the end of a workflow or batch here.
	Ends map[string][]chan struct{}
	// waits are callers waiting for an applied index.
	waits []indexWait
	index rota.Index
	// Matchable is notified when supply or demand changed.
	Matchable chan struct{}
	// Due stays true until deciding begins, since a notified loop runs a moment later.
	Due atomic.Bool
	// Deciding counts the batches of workers' commands being decided, except those whose answers are delayed. leaseHeld
	// and answerHeld equal the constants of these names, except in tests.
	Deciding              atomic.Int64
	LeaseHeld, AnswerHeld time.Duration
}

type indexWait struct {
	index rota.Index
	done  chan struct{}
}

// JobWait collects ended jobs for one waiter.
type JobWait struct {
	ended  []rota.JobID
	Notify chan struct{}
}

// NewHub returns a hub without waiters.
func NewHub() *Hub {
	return &Hub{Sessions: make(map[rota.WorkerID]*WorkerSession), Broken: make(map[rota.WorkerID]brokenStream),
		Jobs:      make(map[rota.JobID][]*JobWait),
		Ends:      make(map[string][]chan struct{}),
		Matchable: make(chan struct{}, 1), LeaseHeld: leaseHeld, AnswerHeld: answerHeld}
}

// Publish passes an entry's events to the sessions and waiters that they concern.
func (h *Hub) Publish(m *fsm.Machine, a *fsm.Applied) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
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
				s.Push(peer.Notice{Assigned: &given})
			}
		case rota.EventLeaseExpired, rota.EventLeaseCancelled, rota.EventLeaseDeclined:
			match = true
			if s := h.session(e); s != nil && e.Kind != rota.EventLeaseDeclined {
				s.Push(peer.Notice{Ended: &peer.LeaseEnd{Lease: e.Lease, Job: e.Job, Reason: e.Reason}})
			}
		case rota.EventLeaseRevoked:
			if s := h.session(e); s != nil {
				s.Push(peer.Notice{Revoked: &peer.LeaseEnd{Lease: e.Lease, Job: e.Job, Reason: e.Reason}})
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
		h.MatchSoon()
	}
}

func (h *Hub) standing(e *rota.Event) {
	for s := h.Sessions[e.Worker]; s != nil; s = s.older {
		switch {
		case s.session != e.Session || e.Status == rota.WorkerRetired:
			s.end()
		case e.Status == rota.WorkerDraining:
			s.Push(peer.Notice{Draining: true})
		}
	}
}

// streams yields all workers' streams.
func (h *Hub) streams() iter.Seq[*WorkerSession] {
	return func(yield func(*WorkerSession) bool) {
		for _, s := range h.Sessions {
			for ; s != nil; s = s.older {
				if !yield(s) {
					return
				}
			}
		}
	}
}

// session returns the stream here for an event's session, nil for none.
func (h *Hub) session(e *rota.Event) *WorkerSession {
	s := h.Sessions[e.Worker]
	for s != nil && s.session != e.Session {
		s = s.older
	}
	return s
}

// enter registers a worker's stream. Registrations may be answered in another order than they were applied in: whatever
// the order, the newest stream is served and the others end. One stream of each other session stays reachable for as
// long as it lives, since it may have leases to confirm.
func (h *Hub) enter(s *WorkerSession) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	if b, ok := h.Broken[s.worker]; ok && s.precedes(b.Session, b.Connection) {
		s.end() // a newer one has already ended
	} else {
		delete(h.Broken, s.worker)
	}
	first := h.Sessions[s.worker]
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
	h.Sessions[s.worker] = first
	for old := first.older; old != nil; old = old.older {
		old.end()
	}
}

// leave removes a stream.
func (h *Hub) leave(s *WorkerSession) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	first := h.Sessions[s.worker]
	if b := h.Broken[s.worker]; first == s && s.connection != 0 && !s.precedes(b.Session, b.Connection) {
		h.Broken[s.worker] = brokenStream{s.session, s.connection, time.Now()}
	}
	if first == s && s.older == nil {
		delete(h.Sessions, s.worker)
	} else if first == s {
		h.Sessions[s.worker] = s.older
	}
	for p := first; p != nil; p = p.older {
		if p.older == s {
			p.older = s.older
		}
	}
}

func (h *Hub) ended(id rota.JobID) {
	for _, w := range h.Jobs[id] {
		w.ended = append(w.ended, id)
		Notify(w.Notify)
	}
	delete(h.Jobs, id)
}

// resync makes every stream and waiter check the state again, after a snapshot replaced the state that they followed.
// There are no events for the time in between, so the ended sessions and leases are derived from the difference.
func (h *Hub) resync(before, after *fsm.Machine) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	for s := range h.streams() {
		s.resync()
		if session, status := after.Session(s.worker); session != s.session || status == rota.WorkerRetired {
			s.end()
		}
		for _, a := range before.Assignments(s.worker, s.session) {
			if _, open := after.Assignment(a.Lease.ID); !open {
				s.Push(peer.Notice{Ended: &peer.LeaseEnd{Lease: a.Lease.ID, Job: a.Lease.Job}})
			}
		}
	}
	seen := make(map[*JobWait]bool)
	for id, waits := range h.Jobs {
		for _, w := range waits {
			w.ended = append(w.ended, id)
			if !seen[w] {
				seen[w] = true
				Notify(w.Notify)
			}
		}
	}
	clear(h.Jobs)
	for _, waiters := range h.Ends {
		for _, waiter := range waiters {
			Notify(waiter)
		}
	}
	h.MatchSoon()
}

// MatchSoon requests a round.
func (h *Hub) MatchSoon() {
	h.Due.Store(true)
	Notify(h.Matchable)
}

// advance notifies the callers that wait for an index up to the given one.
func (h *Hub) advance(index rota.Index) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
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
func (h *Hub) reached(index rota.Index) <-chan struct{} {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	done := make(chan struct{})
	if index <= h.index {
		close(done)
		return done
	}
	h.waits = append(h.waits, indexWait{index, done})
	return done
}

// forgetWait removes a waiter that gave up.
func (h *Hub) forgetWait(done <-chan struct{}) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	h.waits = slices.DeleteFunc(h.waits, func(w indexWait) bool { return (<-chan struct{})(w.done) == done })
}

// Await registers a waiter for the ends of those ids that are in waiting; ended ids are collected in w.
func (h *Hub) Await(w *JobWait, waiting map[rota.JobID]bool, ids []rota.JobID) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	for _, id := range ids {
		if waiting[id] && !slices.Contains(h.Jobs[id], w) {
			h.Jobs[id] = append(h.Jobs[id], w)
		}
	}
}

// Forget removes a waiter from the given jobs.
func (h *Hub) Forget(w *JobWait, ids []rota.JobID) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	for _, id := range ids {
		if rest := slices.DeleteFunc(h.Jobs[id], func(x *JobWait) bool { return x == w }); len(rest) > 0 {
			h.Jobs[id] = rest
		} else {
			delete(h.Jobs, id)
		}
	}
}

// Taken returns and clears the ended jobs of a waiter.
func (h *Hub) Taken(w *JobWait) []rota.JobID {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	ended := w.ended
	w.ended = nil
	return ended
}

// over notifies the callers that wait for the end of a workflow or a batch.
func (h *Hub) over(id string) {
	for _, waiter := range h.Ends[id] {
		Notify(waiter)
	}
}

// AwaitEnd returns a channel that is notified whenever a workflow or batch may have ended, until forget is called.
func (h *Hub) AwaitEnd(id string) (notified <-chan struct{}, forget func()) {
	waiter := make(chan struct{}, 1)
	h.Mu.Lock()
	defer h.Mu.Unlock()
	h.Ends[id] = append(h.Ends[id], waiter)
	return waiter, func() {
		h.Mu.Lock()
		defer h.Mu.Unlock()
		if rest := slices.DeleteFunc(h.Ends[id], func(x chan struct{}) bool { return x == waiter }); len(rest) > 0 {
			h.Ends[id] = rest
		} else {
			delete(h.Ends, id)
		}
	}
}

// Notify wakes a loop that waits on a channel of capacity one; a pending notification is enough.
func Notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// brokenStream is a worker's stream that ended at this node (SPEC §16.7). Its beats are no longer answered; this node
// knows nothing else about the worker.
type brokenStream struct {
	Session    rota.Session
	Connection uint64
	At         time.Time
}
