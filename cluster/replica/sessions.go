package replica

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/internal/fault"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/failpoint"
	"github.com/rotasched/rota/internal/peer"
)

// WorkerSession is one worker connected to this node. Its notices are read from this node's own replica (SPEC §13.3).
type WorkerSession struct {
	rp   *Replica
	logs *Logs
	// beat sends a sign of life to the leader.
	beat    func(context.Context, peer.Beat) (peer.Beaten, error)
	worker  rota.WorkerID
	session rota.Session
	// by is the principal that opened it: the session ends once the worker belongs to another principal.
	by rota.Principal
	// connection numbers the stream, 0 if its worker does not number it.
	connection uint64
	notify     chan struct{}
	// graced is set once a lease with a grace was assigned on this stream.
	graced atomic.Bool
	// older is the stream of the session whose id this one took over, until that confirms; the hub's lock guards it.
	older *WorkerSession

	mu sync.Mutex
	// notices wait for the stream; all reports that the stream must be sent every open lease again.
	notices []peer.Notice
	all     bool
	over    bool
	// deciding counts the calls of Do in progress. On a busy node a lease waits for the end of one, until leaseTimer
	// fires, and the answer of one call waits for a lease: then answerWaits is set, and leaseReady is notified of the
	// first notice. It is nil for a worker that polls, whose answers and leases never wait.
	deciding    int
	leaseTimer  *time.Timer
	answerWaits bool
	leaseReady  chan struct{}
}

const (
	// BusyBatches is the number of batches of workers' commands being decided from which a node is busy. There an
	// answer and the next lease wait for each other, so that both are written and read together. A node that answers
	// workers without delay decides fewer.
	BusyBatches = 16
	// leaseHeld bounds how long a lease waits for an answer, answerHeld how long an answer waits for a lease.
	leaseHeld  = 50 * time.Millisecond
	answerHeld = 150 * time.Millisecond
	// noticesKept bounds the notices queued for a worker's stream; beyond it the stream is sent all open leases again.
	noticesKept = 65_536
)

// NewSession returns a session that this node does not serve yet.
func NewSession(rp *Replica, logs *Logs, beat func(context.Context, peer.Beat) (peer.Beaten, error),
	id rota.WorkerID, session rota.Session, by rota.Principal) *WorkerSession {
	return &WorkerSession{rp: rp, logs: logs, beat: beat, worker: id, session: session, by: by.Owner(),
		notify: make(chan struct{}, 1), all: true}
}

// Serve makes the session of a stream receive notices, beginning with every open lease.
func (s *WorkerSession) Serve(link peer.WorkerLink) {
	s.connection = link.Connection
	if !link.Polls {
		s.leaseReady = make(chan struct{}, 1)
	}
	Notify(s.notify)
	s.Resume()
}

// Resume makes the session receive notices.
func (s *WorkerSession) Resume() { s.rp.Hub.enter(s) }

// precedes reports whether the stream is older than one of a session with a connection.
func (s *WorkerSession) precedes(session rota.Session, connection uint64) bool {
	return s.session < session || s.session == session && s.connection < connection
}

// Notified returns the channel that is notified of a notice, or of the session's end.
func (s *WorkerSession) Notified() <-chan struct{} { return s.notify }

// AnswerWaits reports that an answer waits for a lease.
func (s *WorkerSession) AnswerWaits() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answerWaits
}

// Session returns the number of the worker's session.
func (s *WorkerSession) Session() rota.Session { return s.session }

// Push queues a notice; beyond the bound the stream is sent all leases again.
func (s *WorkerSession) Push(notice peer.Notice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all && notice.Assigned != nil {
		return // it will be among all
	}
	if r := notice.Revoked; r != nil && r.Reason == rota.ReasonAccessEnded {
		s.notices = slices.DeleteFunc(s.notices, func(n peer.Notice) bool {
			return n.Assigned != nil && n.Assigned.Lease.ID == r.Lease
		})
	}
	s.note(notice.Assigned)
	if len(s.notices) >= noticesKept {
		s.notices, s.all = nil, true
	} else {
		s.notices = append(s.notices, notice)
	}
	switch {
	case s.answerWaits:
		Notify(s.leaseReady)
	case s.deciding > 0 && notice.Assigned != nil && s.busy():
		if s.leaseTimer == nil {
			s.leaseTimer = time.AfterFunc(s.rp.Hub.LeaseHeld, func() { Notify(s.notify) })
		} else if len(s.notices) <= 1 {
			s.leaseTimer.Reset(s.rp.Hub.LeaseHeld)
		}
	default:
		Notify(s.notify)
	}
}

// note records whether a lease assigned to the worker has a grace.
func (s *WorkerSession) note(a *rota.Assignment) {
	if a != nil && a.Grace > 0 {
		s.graced.Store(true)
	}
}

// Graced reports whether a lease with a grace was assigned on this stream. Only then does the worker need to know that a
// beat was received before it is answered (SPEC §16.7).
func (s *WorkerSession) Graced() bool { return s.graced.Load() }

func (s *WorkerSession) resync() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notices, s.all = nil, true
	Notify(s.notify)
}

func (s *WorkerSession) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	Notify(s.notify)
}

// Await waits until there is a notice for the worker.
func (s *WorkerSession) Await(ctx context.Context) error {
	for {
		// Check before waiting: one notification may cover notices and the end.
		if s.waits() {
			return nil
		}
		if err := s.live(); err != nil {
			return err
		}
		select {
		case <-s.notify:
		case <-ctx.Done():
			return fault.Deadline(ctx, "waiting for leases")
		case <-s.rp.host.Stopped:
			return fault.Stopping()
		}
	}
}

func (s *WorkerSession) waits() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.notices) > 0 || s.all
}

// Take returns the notices for the worker, in order: first, and after a gap, every open lease. It reads the state under
// the lock that publish holds, so that no lease is lost between sending all and the first notice.
func (s *WorkerSession) Take() (notices []peer.Notice) {
	s.mu.Lock()
	all := s.all
	if !all {
		notices, s.notices = s.notices, nil
	}
	if s.leaseTimer != nil {
		s.leaseTimer.Stop()
	}
	s.mu.Unlock()
	if all {
		s.rp.Look(func(m *fsm.View) { notices = s.takeFrom(m) })
	}
	if len(notices) > 0 {
		failpoint.Pass("lease-before-delivery")
	}
	return notices
}

func (s *WorkerSession) takeFrom(m *fsm.View) []peer.Notice {
	s.mu.Lock()
	defer s.mu.Unlock()
	notices := s.notices
	s.notices = nil
	if !s.all {
		return notices
	}
	s.all = false
	leases, ours := fsm.Deliverable(m, s.worker, s.session, s.by)
	if !ours {
		s.over = true
		Notify(s.notify)
		return notices
	}
	for _, a := range leases {
		if a.Lease.Revoked != rota.ReasonNone {
			notices = append(notices, peer.Notice{Revoked: &peer.LeaseEnd{Lease: a.Lease.ID, Job: a.Spec.ID,
				Reason: a.Lease.Revoked}})
			continue
		}
		s.note(&a)
		notices = append(notices, peer.Notice{Assigned: &a})
	}
	if _, status := m.Session(s.worker); status == rota.WorkerDraining {
		notices = append(notices, peer.Notice{Draining: true})
	}
	return notices
}

func (s *WorkerSession) live() error {
	s.mu.Lock()
	over := s.over
	s.mu.Unlock()
	if !over {
		return nil
	}
	if err := s.rp.RefuseRebuilding(); err != nil {
		return err
	}
	var session rota.Session
	var status rota.WorkerStatus
	var by rota.Principal
	s.rp.Look(func(m *fsm.View) {
		session, status = m.Session(s.worker)
		by = fsm.RegisteredBy(m, s.worker)
	})
	if session == s.session && status != rota.WorkerRetired && by != s.by {
		return errMoved(s.worker)
	}
	if session == s.session && status != rota.WorkerRetired {
		return rota.Refusef(rota.KindUnavailable, "worker", "worker %s connected again on another stream", s.worker)
	}
	if s.confirms() {
		return nil
	}
	return rota.Refusef(rota.KindStale, "session", "session %d of worker %s is over: it was retired or taken over",
		s.session, s.worker)
}

// confirms reports whether the session has open leases that a takeover revoked: none has ended until its worker
// confirms that it stopped, or was silent for too long (SPEC §8.5).
func (s *WorkerSession) confirms() (open bool) {
	s.rp.Look(func(m *fsm.View) { open = len(m.Assignments(s.worker, s.session)) > 0 })
	return open
}

// costRules is the rules version that introduced costs of attempts (SPEC §30.1).
const costRules = 2

// Do proposes a batch of verbs on the worker's leases.
func (s *WorkerSession) Do(ctx context.Context, commands []peer.LeaseCommand) ([]peer.LeaseAnswer, error) {
	if err := packLogs(commands); err != nil {
		return nil, err
	}
	s.Begin()
	defer s.done()
	reports := false // rules version 1 knows neither costs nor pauses: no outcome is lost for them
	s.rp.Look(func(m *fsm.View) { reports = m.Head().Rules >= costRules })
	ops := make([]*fsmpb.Op, len(commands))
	for i := range commands {
		commands[i].Worker, commands[i].Session = s.worker, s.session
		if !reports {
			commands[i].Costs, commands[i].PauseKey = nil, ""
		}
		ops[i] = entry.LeaseCommandOp(&commands[i])
	}
	s.rp.Hub.Deciding.Add(1)
	outcomes, index, err := s.rp.host.Propose(ctx, ops)
	s.rp.Hub.Deciding.Add(-1)
	if err != nil {
		return nil, err
	}
	frees := false
	answers := make([]peer.LeaseAnswer, len(outcomes))
	for i, o := range outcomes {
		if endsLease(commands[i].Verb) && rota.Kind(o.GetKind()) != rota.KindStale {
			s.logs.drop(commands[i].Lease)
		}
		frees = frees || endsLease(commands[i].Verb) && o.GetKind() == 0
		answers[i] = peer.LeaseAnswer{Err: entry.OutcomeError(o), Deadline: rota.Clock(o.GetDeadlineMs()),
			Renewals: o.GetRenewals(), JobState: rota.JobState(o.GetJobState()), Index: index}
	}
	if frees && s.busy() && !keepsLease(commands) {
		s.awaitLease(ctx)
	}
	return answers, nil
}

// keepsLease reports whether a batch has an ack or a renewal of a lease that it does not end: a worker trusts a lease
// only while these are answered in time.
func keepsLease(commands []peer.LeaseCommand) bool {
	ended := make(map[rota.LeaseID]bool, len(commands))
	for i := range commands {
		if endsLease(commands[i].Verb) {
			ended[commands[i].Lease] = true
		}
	}
	return slices.ContainsFunc(commands, func(c peer.LeaseCommand) bool { return !ended[c.Lease] })
}

// Begin and done count calls of Do.
func (s *WorkerSession) Begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deciding++
}

func (s *WorkerSession) done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deciding--
}

// busy reports whether messages to the worker wait for each other.
func (s *WorkerSession) busy() bool {
	return s.leaseReady != nil && s.rp.Hub.Deciding.Load() >= BusyBatches
}

// awaitLease waits up to answerHeld for a lease to send together with an answer.
func (s *WorkerSession) awaitLease(ctx context.Context) {
	if !s.startWait() {
		return
	}
	timer := time.NewTimer(s.rp.Hub.AnswerHeld)
	defer timer.Stop()
	select {
	case <-s.leaseReady:
	case <-timer.C:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answerWaits = false
}

// startWait reports whether an answer should wait for a lease, and records that it does. Only one answer per worker
// waits at a time: a worker has at most two batches in flight, and must be able to send the next.
func (s *WorkerSession) startWait() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answerWaits || s.over || s.all || len(s.notices) > 0 || !s.busy() {
		return false
	}
	select {
	case <-s.leaseReady: // left by an earlier wait
	default:
	}
	s.answerWaits = true
	return true
}

// Beat reports a sign of life to the leader, and the time until the next beat (SPEC §3.9).
func (s *WorkerSession) Beat(ctx context.Context, next time.Duration) (peer.Beaten, error) {
	beaten, err := s.beat(ctx, peer.Beat{Worker: s.worker, Session: s.session, Next: next})
	if rota.KindOf(err) == rota.KindStale && s.confirms() {
		return peer.Beaten{}, rota.Refusef(rota.KindUnavailable, "session",
			"session %d of worker %s is over, but its leases are not", s.session, s.worker)
	}
	return beaten, err
}

// Bye retires the worker.
func (s *WorkerSession) Bye(ctx context.Context) error {
	_, err := s.rp.proposeOne(ctx, &fsmpb.Op{Op: &fsmpb.Op_SetStatus{SetStatus: &fsmpb.SetStatus{
		Worker: string(s.worker), Status: uint32(rota.WorkerRetired), Session: uint64(s.session)}}})
	return err
}

// Close removes the session from this node; the worker remains registered.
func (s *WorkerSession) Close() {
	s.rp.Hub.leave(s)
}

// errMoved returns the error for a session whose worker has since been registered under another credential.
func errMoved(id rota.WorkerID) *rota.Error {
	return rota.Refusef(rota.KindUnavailable, "worker",
		"worker %s was registered again under another credential: connect again to move it back", id)
}
