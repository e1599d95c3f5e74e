package client

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

const (
	// ackHold is how long an ack is held back: a handler that ends sooner
	// acknowledges by completing (SPEC §8.1).
	ackHold = 5 * time.Millisecond
	// finishedKept is how many ended leases are remembered, so that a replica
	// that lags behind cannot give one to a handler again.
	finishedKept = 1 << 15
	// progressEvery is how often a job's progress is sent (SPEC §8.7).
	progressEvery = time.Second
)

// phase is where a lease stands at the worker.
type phase uint8

const (
	// waiting for a slot, or for a first view of time.
	waiting phase = iota
	// running: its handler has been started and has not returned.
	running
	// reporting: its outcome is settled and waits for the cluster's answer.
	reporting
)

// lease is one lease that the worker holds. The book's lock guards it.
type lease struct {
	assignment *rota.Assignment // as it came first; never changed
	job        Job              // what its handler sees
	phase      phase
	received   time.Duration
	// acked: an ack or a renewal is known to be committed; ackRefused is why an ack was
	// not.
	acked      bool
	ackRefused *rota.Error
	deadline   rota.Clock
	renewals   int32
	// renewNext is the earliest local time of the next renewal; renewOver says
	// that the cluster takes no more.
	renewNext time.Duration
	renewOver bool
	cancel    context.CancelCauseFunc
	// lost is why the lease is believed in no more, nil while it is; declines
	// says that it must still be given back when the handler has returned.
	lost     *LostError
	declines bool
	// ack, renew, progress and outcome are the commands under way, nil if none.
	ack, renew, progress, outcome *command
	// progressNext is the earliest local time of the next report, progressHeld
	// the report that waits for it.
	progressNext time.Duration
	progressHeld *peer.LeaseCommand
}

// book is all that a running worker knows: its leases, its view of time and its
// outbox, under one lock.
type book struct {
	worker *Worker
	log    *slog.Logger
	// reports and parents are progress and Client.parentOutputs, made once for all jobs.
	reports func(j *Job, percent int, note string)
	parents func(ctx context.Context, job rota.JobID) ([]rota.ParentOutput, error)
	// base is what handlers' contexts descend from: values, no end.
	base context.Context

	mu      sync.Mutex
	told    []telling // what observers hear once the lock is free
	session rota.Session
	point   viewpoint
	leases  map[rota.LeaseID]*lease
	queue   []*lease // in the order of arrival; lost ones are skipped
	waiting int
	running int
	// idle are the goroutines that run handlers and have none, dismissed says that no
	// more are kept.
	idle      []hand
	dismissed bool
	// busy are the jobs whose handlers have not returned, given up or not.
	busy     map[rota.JobID]struct{}
	finished recent
	out      outbox

	// beats are those of this connection without an answer, by the local time
	// before sending them.
	beats        map[uint64]time.Duration
	beatSequence uint64
	// heardSequence is that of the newest beat that the node has heard.
	heardSequence uint64

	draining bool
	// drainedAt is when the drain began, untold the jobs whose outcomes were given up
	// since.
	drainedAt time.Duration
	untold    []rota.JobID
	stopping  error // why handlers' contexts end; nil while they may go on
	farewell  bool  // say Bye once all is said
	quiet     chan struct{}
	isQuiet   bool
	// superseded is closed once another process has taken the worker's id over: this one
	// only confirms that it has stopped.
	superseded chan struct{}

	// nextTick is when the watch wakes next; watchKick wakes it sooner.
	nextTick  time.Duration
	watchKick chan struct{}
	sendKick  chan struct{}
}

func newBook(w *Worker, base context.Context) *book {
	b := &book{
		worker: w, log: w.log.With("worker", string(w.spec.ID)), parents: w.client.parentOutputs, base: base,
		leases: make(map[rota.LeaseID]*lease), busy: make(map[rota.JobID]struct{}),
		finished: newRecent(finishedKept), out: newOutbox(),
		beats: make(map[uint64]time.Duration),
		quiet: make(chan struct{}), superseded: make(chan struct{}), watchKick: make(chan struct{}, 1), sendKick: make(chan struct{}, 1),
	}
	b.reports = b.progress
	return b
}

// telling is one lease's news for an observer.
type telling struct {
	f     func(HandlerEvent)
	lease *lease
	verb  rota.LeaseVerb // of an outcome
	err   error
}

// tell notes what an observer hears once the lock is free.
func (b *book) tell(f func(HandlerEvent), l *lease, err error) {
	if f != nil {
		b.told = append(b.told, telling{f: f, lease: l, err: err})
	}
}

// unlock frees the lock, then tells the observers.
func (b *book) unlock() {
	told := b.told
	b.told = nil
	b.mu.Unlock()
	for i := range told {
		t := &told[i]
		b.worker.observer.tell(t.f, b.worker.spec.ID, t.lease.assignment, t.verb, t.err)
	}
}

func kick(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// capacity is how many leases the worker asked for.
func (b *book) capacity() int { return int(b.worker.spec.Slots + b.worker.spec.Prefetch) }

// welcome begins a connection. Another session than before means that all
// leases of the old one are void: they are not the caller's to report on.
func (b *book) welcome(session rota.Session) {
	b.mu.Lock()
	defer b.unlock()
	if b.session != 0 && b.session != session {
		b.loseAll("the worker has a new session")
	}
	b.session = session
}

func (b *book) loseAll(text string) {
	for _, l := range b.leases {
		if l.phase == reporting {
			b.forget(l)
			continue
		}
		b.lose(l, &LostError{Text: text}, false)
	}
}

// notice takes what the node tells.
func (b *book) notice(notices []peer.Notice) {
	b.mu.Lock()
	defer b.unlock()
	now := b.worker.now()
	for i := range notices {
		switch n := &notices[i]; {
		case n.Assigned != nil:
			b.assigned(n.Assigned, now)
		case n.Revoked != nil:
			b.revoked(n.Revoked)
		case n.Ended != nil:
			if l := b.leases[n.Ended.Lease]; l != nil {
				b.lose(l, &LostError{Reason: n.Ended.Reason, Text: "the cluster ended it"}, false)
			}
		case n.Draining:
			b.log.Info("an operator drains this worker: it gets no new lease")
		}
	}
	b.startMore(now)
	kick(b.sendKick)
}

// assigned takes a lease: a new one, or one given back after reconnecting.
func (b *book) assigned(a *rota.Assignment, now time.Duration) {
	if l := b.leases[a.Lease.ID]; l != nil {
		b.givenBack(l, a, now)
		return
	}
	if b.finished.has(a.Lease.ID) {
		return // the replica lags behind what was answered
	}
	l := &lease{
		assignment: a, received: now, acked: a.Lease.Acked.Clock > 0 || a.Lease.Renewals > 0,
		deadline: a.Lease.Deadline.Clock, renewals: a.Lease.Renewals,
	}
	b.leases[a.Lease.ID] = l
	b.waiting++
	switch {
	case a.Lease.Revoked != rota.ReasonNone:
		b.revoke(l, a.Lease.Revoked)
	case b.draining:
		b.decline(l, "the worker drains")
	case b.waiting > b.capacity():
		b.decline(l, "the worker has no room left for it")
	case b.worker.handler(a.Spec.Type) == nil:
		b.decline(l, "the worker has no handler for type "+string(a.Spec.Type))
	default:
		b.queue = append(b.queue, l)
		b.out.holdAck(l, now+ackHold)
		b.wakeFor(l)
	}
}

// givenBack takes what a replica says of a lease that is held already. What it
// says is committed, but may be old: only steps forward count, and none for a
// lease that is given up (SPEC §3.9).
func (b *book) givenBack(l *lease, a *rota.Assignment, now time.Duration) {
	if b.expired(l, now) || l.lost != nil {
		l.declines = true
		return
	}
	if l.phase == reporting {
		return
	}
	if a.Lease.Revoked != rota.ReasonNone {
		b.revoke(l, a.Lease.Revoked)
		return
	}
	if a.Lease.Acked.Clock > 0 || a.Lease.Renewals > 0 {
		b.extend(l, a.Lease.Deadline.Clock, a.Lease.Renewals)
	}
}

// extend takes a committed deadline.
func (b *book) extend(l *lease, deadline rota.Clock, renewals int32) {
	l.acked = true
	l.deadline = max(l.deadline, deadline)
	l.renewals = max(l.renewals, renewals)
}

// unjudged reports whether the view is older than a lease that waits: it says nothing
// of it. The lease neither starts nor is given back before a newer one is there.
func (b *book) unjudged(l *lease, now time.Duration) bool {
	return l.phase == waiting && b.point.sent < l.received && now < l.received+limits.BeatLost
}

// expired gives a lease up whose end has passed by the view that counted until
// now. It is asked before anything that would move that end (H23).
func (b *book) expired(l *lease, now time.Duration) bool {
	if !b.point.known || l.phase == reporting || l.lost != nil || now < l.end(b.point) {
		return false
	}
	if b.unjudged(l, now) {
		return false
	}
	why := &LostError{Text: "its deadline has come by the worker's view"}
	switch {
	case l.timedOut(b.point, now):
		why.Reason, why.Text = rota.ReasonTimedOut, "max_runtime is over but for the second that the worker keeps to report it"
	case l.assignment.Grace > 0 && now >= l.broken(b.point):
		why.Text = "no beat was heard for so long that the cluster may take the stream for broken"
	case now >= b.point.lost():
		why.Text = "no beat was answered for too long"
	case !l.acked && l.ackRefused != nil:
		why.Text = "its ack was refused: " + l.ackRefused.Text
	case !l.acked:
		why.Text = "its ack was not answered in time"
	}
	b.lose(l, why, true)
	return true
}

func (b *book) revoke(l *lease, reason rota.Reason) {
	b.lose(l, &LostError{Reason: reason, Revoked: true, Text: "the cluster revoked it"}, true)
}

// lose gives a lease up for ever. It is declined, where the cluster may still
// count on it, once its handler has returned: not sooner, for then another
// worker may begin (SPEC §8.5).
func (b *book) lose(l *lease, why *LostError, declines bool) {
	if l.phase == reporting {
		return
	}
	l.declines = l.declines || declines
	if l.lost != nil {
		return
	}
	why.Job, why.Lease = l.assignment.Lease.Job, l.assignment.Lease.ID
	l.lost = why
	b.log.Warn("lease lost", "job", string(why.Job), "lease", why.Lease.String(),
		"reason", why.Reason.String(), "why", why.Text)
	b.tell(b.worker.observer.Lost, l, why)
	switch {
	case l.phase == running:
		l.cancel(why)
	case l.declines:
		b.decline(l, why.Text)
	default:
		b.waiting--
		b.forget(l)
	}
}

// decline gives back a lease whose handler never started.
func (b *book) decline(l *lease, text string) {
	b.waiting--
	b.report(l, peer.LeaseCommand{Verb: rota.VerbDecline, Text: text})
}

// report settles a lease's outcome; what else was to be said of it is not.
func (b *book) report(l *lease, c peer.LeaseCommand) {
	l.phase = reporting
	for _, other := range []*command{l.ack, l.renew, l.progress} {
		if other != nil {
			other.dropped = true
		}
	}
	l.ack, l.renew, l.progress, l.progressHeld = nil, nil, nil, nil
	l.outcome = b.put(l, c)
}

// put queues a command on a lease.
func (b *book) put(l *lease, c peer.LeaseCommand) *command {
	c.Lease, c.Job = l.assignment.Lease.ID, l.assignment.Lease.Job
	cmd := &command{lease: l, LeaseCommand: c}
	b.out.push(cmd)
	kick(b.sendKick)
	return cmd
}

// forget is the last of a lease.
func (b *book) forget(l *lease) {
	if b.leases[l.assignment.Lease.ID] != l {
		return
	}
	l.phase = reporting
	for _, c := range []*command{l.ack, l.renew, l.progress, l.outcome} {
		if c != nil {
			c.dropped = true
		}
	}
	delete(b.leases, l.assignment.Lease.ID)
	b.finished.add(l.assignment.Lease.ID)
	b.checkQuiet()
}

// checkQuiet ends the draining once nothing is left to do.
func (b *book) checkQuiet() {
	if b.draining && len(b.leases) == 0 && !b.isQuiet {
		b.isQuiet = true
		close(b.quiet)
	}
}

// wakeFor has the watch look again if the lease needs it sooner than planned.
func (b *book) wakeFor(l *lease) {
	if !b.point.known {
		return
	}
	at := min(l.end(b.point), l.tooLate(b.point))
	if l.renewable() {
		at = min(at, l.renewAt(b.point))
	}
	if b.nextTick == 0 || at < b.nextTick {
		kick(b.watchKick)
	}
}

// recent remembers the newest leases that ended, as many as it was made for and no more
// than twice as many.
type recent struct {
	most  int
	young map[rota.LeaseID]struct{}
	old   map[rota.LeaseID]struct{}
}

func newRecent(most int) recent {
	return recent{most: most, young: make(map[rota.LeaseID]struct{}), old: make(map[rota.LeaseID]struct{})}
}

func (r *recent) has(id rota.LeaseID) bool {
	if _, ok := r.young[id]; ok {
		return true
	}
	_, ok := r.old[id]
	return ok
}

func (r *recent) add(id rota.LeaseID) {
	if len(r.young) >= r.most {
		clear(r.old)
		r.young, r.old = r.old, r.young
	}
	r.young[id] = struct{}{}
}
