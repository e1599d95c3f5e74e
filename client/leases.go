package client

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

const (
	// ackHold is how long an ack is held back: a handler that ends sooner acknowledges by completing (SPEC §8.1).
	ackHold = 5 * time.Millisecond
	// finishedKept is how many ended leases are remembered, so that a lagging replica cannot start the handler of an
	// ended lease again.
	finishedKept = 1 << 15
	// progressEvery is how often a job's progress is sent (SPEC §8.7).
	progressEvery = time.Second
)

// leaseTable is the state of a running worker: its leases, its view of time and its outbox, under one lock.
type leaseTable struct {
	worker *Worker
	log    *slog.Logger
	// reports and parents are progress and Client.parentOutputs, made once for all jobs.
	reports func(j *Job, percent int, note string)
	parents func(ctx context.Context, job rota.JobID) ([]rota.ParentOutput, error)
	// base is the parent of handlers' contexts: it has values and never ends.
	base context.Context

	// taken is set while the cluster accepts the worker: from its first welcome until a refusal.
	taken atomic.Bool

	mu      sync.Mutex
	news    []observation // observations for observers, delivered once the lock is free
	session rota.Session
	point   viewpoint
	leases  map[rota.LeaseID]*lease
	queue   []*lease // in the order of arrival; lost ones are skipped
	waiting int
	running int
	pool    pool
	// busy are the jobs whose handlers have not returned, even if their leases were given up.
	busy     map[rota.JobID]struct{}
	finished recent
	out      outbox

	// beats are this connection's unanswered beats, with the local time before each was sent.
	beats        map[uint64]time.Duration
	beatSequence uint64
	// beaten is the time of the latest beat, said the announced time until the next one.
	beaten, said time.Duration
	// idleEvery is how often the cluster asks for beats while no lease is held.
	idleEvery time.Duration
	// heardSequence is the sequence number of the newest beat that the node has received.
	heardSequence uint64

	draining bool
	// drainedAt is when the drain began, unreported the jobs whose outcomes were given up since.
	drainedAt  time.Duration
	unreported []rota.JobID
	stopping   error // why handlers' contexts end; nil while they may continue
	farewell   bool  // send Bye once everything else is sent
	quiet      chan struct{}
	isQuiet    bool
	// superseded is closed once another process has taken over the worker's id: this one only confirms that it has
	// stopped.
	superseded chan struct{}

	// watcher calls tick at nextTick, nil while leases are not watched; ticks are its calls. sendWake wakes the sender.
	watcher  *time.Timer
	ticks    sync.WaitGroup
	nextTick time.Duration
	sendWake chan struct{}
	// sleeps is when the sender looks next, 0 while it is awake; alarm wakes it earlier.
	sleeps time.Duration
	alarm  *time.Timer
}

func newLeaseTable(w *Worker, base context.Context) *leaseTable {
	t := &leaseTable{
		worker: w, log: w.log.With("worker", string(w.spec.ID)), parents: w.client.parentOutputs, base: base,
		leases: make(map[rota.LeaseID]*lease), busy: make(map[rota.JobID]struct{}),
		finished: newRecent(finishedKept), out: newOutbox(),
		beats: make(map[uint64]time.Duration),
		quiet: make(chan struct{}), superseded: make(chan struct{}), sendWake: make(chan struct{}, 1),
	}
	t.alarm = time.AfterFunc(farFuture, func() { notify(t.sendWake) })
	t.alarm.Stop()
	t.reports = t.progress
	t.pool.work = t.work
	return t
}

// observation is one lease's event for an observer.
type observation struct {
	f     func(HandlerEvent)
	lease *lease
	verb  rota.LeaseVerb // of an outcome
	err   error
}

// observe queues a call of an observer for when the lock is free.
func (t *leaseTable) observe(f func(HandlerEvent), l *lease, err error) {
	if f != nil {
		t.news = append(t.news, observation{f: f, lease: l, err: err})
	}
}

// unlock frees the lock, then calls the observers.
func (t *leaseTable) unlock() {
	news := t.news
	t.news = nil
	t.mu.Unlock()
	for i := range news {
		o := &news[i]
		t.worker.observer.call(o.f, t.worker.spec.ID, o.lease.assignment, o.verb, o.err)
	}
}

// notify wakes a receiver of c, now or at its next receive.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// capacity returns how many leases the worker asked for.
func (t *leaseTable) capacity() int { return int(t.worker.spec.Slots + t.worker.spec.Prefetch) }

// welcome begins a connection. If the session is not the previous one, all leases of the old session are void: this
// process may not report on them.
func (t *leaseTable) welcome(session rota.Session) {
	t.mu.Lock()
	defer t.unlock()
	if t.session != 0 && t.session != session {
		t.loseAll("the worker has a new session")
	}
	t.session = session
}

func (t *leaseTable) loseAll(text string) {
	for _, l := range t.leases {
		if l.phase == reporting {
			t.forget(l)
			continue
		}
		t.lose(l, &LostError{Text: text}, false)
	}
}

// notice handles the node's notices.
func (t *leaseTable) notice(notices []peer.Notice) {
	t.mu.Lock()
	defer t.unlock()
	now := t.worker.now()
	for i := range notices {
		switch n := &notices[i]; {
		case n.Assigned != nil:
			t.assigned(n.Assigned, now)
		case n.Revoked != nil:
			t.revoked(n.Revoked)
		case n.Ended != nil:
			if l := t.leases[n.Ended.Lease]; l != nil {
				t.lose(l, &LostError{Reason: n.Ended.Reason, Text: "the cluster ended it"}, false)
			}
		case n.Draining:
			t.log.Info("an operator drains this worker: it gets no new lease")
		}
	}
	t.startMore(now)
	t.wakeSender(now)
}

// assigned handles a lease: a new one, or one assigned again after reconnecting.
func (t *leaseTable) assigned(a *rota.Assignment, now time.Duration) {
	if l := t.leases[a.Lease.ID]; l != nil {
		t.givenBack(l, a, now)
		return
	}
	if t.finished.has(a.Lease.ID) {
		return // the replica lags behind an answer already received
	}
	l := &lease{
		assignment: a, received: now, acked: a.Lease.Acked.Clock > 0 || a.Lease.Renewals > 0,
		deadline: a.Lease.Deadline.Clock, renewals: a.Lease.Renewals,
	}
	t.leases[a.Lease.ID] = l
	t.waiting++
	switch {
	case a.Lease.Revoked != rota.ReasonNone:
		t.revoke(l, a.Lease.Revoked)
	case t.draining:
		t.decline(l, "the worker drains")
	case t.waiting > t.capacity():
		t.decline(l, "the worker has no room left for it")
	case t.worker.handler(a.Spec.Type) == nil:
		t.decline(l, "the worker has no handler for type "+string(a.Spec.Type))
	default:
		t.queue = append(t.queue, l)
		t.out.holdAck(l, now+ackHold)
		t.wakeFor(l, now)
	}
}

// givenBack handles a replica's row of a lease that is already held. The row is committed but may be old: only steps
// forward count, and none for a lease that was given up (SPEC §3.9).
func (t *leaseTable) givenBack(l *lease, a *rota.Assignment, now time.Duration) {
	if t.expired(l, now) || l.lost != nil {
		l.declines = true
		return
	}
	if l.phase == reporting {
		return
	}
	if a.Lease.Revoked != rota.ReasonNone {
		t.revoke(l, a.Lease.Revoked)
		return
	}
	if a.Lease.Acked.Clock > 0 || a.Lease.Renewals > 0 {
		t.extend(l, a.Lease.Deadline.Clock, a.Lease.Renewals)
	}
}

// extend applies a committed deadline.
func (t *leaseTable) extend(l *lease, deadline rota.Clock, renewals int32) {
	l.acked = true
	l.deadline = max(l.deadline, deadline)
	l.renewals = max(l.renewals, renewals)
}

// unjudged reports whether the view is older than a waiting lease and does not cover it. The lease is neither started
// nor declined before a newer view arrives.
func (t *leaseTable) unjudged(l *lease, now time.Duration) bool {
	return l.phase == waiting && t.point.sent < l.received && now < l.received+limits.BeatLost
}

// expired gives up a lease whose end has passed by the view in force until now. It must run before anything that would
// move that end (H23).
func (t *leaseTable) expired(l *lease, now time.Duration) bool {
	if !t.point.known || l.phase == reporting || l.lost != nil || now < l.end(t.point) {
		return false
	}
	if t.unjudged(l, now) {
		return false
	}
	why := &LostError{Text: "its deadline has come by the worker's view"}
	switch {
	case l.timedOut(t.point, now):
		why.Reason, why.Text = rota.ReasonTimedOut, "max_runtime is over but for the second that the worker keeps to report it"
	case l.assignment.Grace > 0 && now >= l.broken(t.point):
		why.Text = "no beat was heard for a time after which the cluster may treat the stream as broken"
	case now >= t.point.lost():
		why.Text = "no beat was answered for too long"
	case !l.acked && l.ackRefused != nil:
		why.Text = "its ack was refused: " + l.ackRefused.Text
	case !l.acked:
		why.Text = "its ack was not answered in time"
	}
	t.lose(l, why, true)
	return true
}

func (t *leaseTable) revoke(l *lease, reason rota.Reason) {
	t.lose(l, &LostError{Reason: reason, Revoked: true, Text: "the cluster revoked it"}, true)
}

// lose gives up a lease forever. If the cluster may still count on it, it is declined once its handler has returned:
// not sooner, because then another worker may begin (SPEC §8.5).
func (t *leaseTable) lose(l *lease, why *LostError, declines bool) {
	if l.phase == reporting {
		return
	}
	l.declines = l.declines || declines
	if l.lost != nil {
		return
	}
	why.Job, why.Lease = l.assignment.Lease.Job, l.assignment.Lease.ID
	l.lost = why
	t.log.Warn("lease lost", "job", string(why.Job), "lease", why.Lease.String(),
		"reason", why.Reason.String(), "why", why.Text)
	t.observe(t.worker.observer.Lost, l, why)
	switch {
	case l.phase == running:
		l.cancel(why)
	case l.declines:
		t.decline(l, why.Text)
	default:
		t.waiting--
		t.forget(l)
	}
}

// decline returns a lease whose handler never started.
func (t *leaseTable) decline(l *lease, text string) {
	t.waiting--
	t.report(l, peer.LeaseCommand{Verb: rota.VerbDecline, Text: text})
}

// report settles a lease's outcome; its queued commands are dropped.
func (t *leaseTable) report(l *lease, c peer.LeaseCommand) {
	l.phase = reporting
	reported := l.reported
	if l.lost != nil {
		reported = nil
	}
	for _, other := range []*command{l.ack, l.renew, l.progress} {
		if other != nil {
			other.dropped = true
		}
	}
	l.ack, l.renew, l.progress, l.progressHeld = nil, nil, nil, nil
	if reported != nil { // send it again: a report less than a second after another was not kept
		final := *reported
		final.Ordinal = peer.FinalReport
		final.Costs = l.costs
		t.put(l, final)
	}
	c.Log = l.logged()
	c.Costs = l.costs
	l.outcome = t.put(l, c)
}

// put queues a command on a lease.
func (t *leaseTable) put(l *lease, c peer.LeaseCommand) *command {
	c.Lease, c.Job = l.assignment.Lease.ID, l.assignment.Lease.Job
	cmd := &command{lease: l, LeaseCommand: c}
	t.out.push(cmd)
	notify(t.sendWake)
	return cmd
}

// forget removes a lease.
func (t *leaseTable) forget(l *lease) {
	if t.leases[l.assignment.Lease.ID] != l {
		return
	}
	l.phase = reporting
	for _, c := range []*command{l.ack, l.renew, l.progress, l.outcome} {
		if c != nil {
			c.dropped = true
		}
	}
	delete(t.leases, l.assignment.Lease.ID)
	t.finished.add(l.assignment.Lease.ID)
	t.checkQuiet()
}

// checkQuiet ends the drain once nothing is left to do.
func (t *leaseTable) checkQuiet() {
	if t.draining && len(t.leases) == 0 && !t.isQuiet {
		t.isQuiet = true
		close(t.quiet)
	}
}

// wakeFor moves the next check forward if the lease needs one sooner than planned.
func (t *leaseTable) wakeFor(l *lease, now time.Duration) {
	if !t.point.known || l.phase == reporting || l.lost != nil {
		return
	}
	at := min(l.end(t.point), l.tooLate(t.point), now+maxWatch)
	if l.renewable() {
		at = min(at, l.renewAt(t.point))
	}
	if at < t.nextTick && t.watcher != nil {
		t.nextTick = at
		t.watcher.Reset(max(0, at-now))
	}
}
