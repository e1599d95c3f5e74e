package fsm

import (
	"fmt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
	"github.com/rotasched/rota/sched"
)

// model is the second, naive implementation of lives and leases: plain maps, every rule written out where it applies, a
// walk over everything at each sweep. It serves one queue with a known policy, and relies on the machine only for
// matching: a matched worker must have been free.
type model struct {
	policy  rota.QueuePolicy
	now     rota.Clock
	jobs    map[rota.JobID]*modelJob
	leases  map[rota.LeaseID]*modelLease
	logs    map[rota.LeaseID]string
	workers map[rota.WorkerID]*modelWorker
	tokens  rota.Token
	count   rota.Session // sessions given
	keys    modelKeys
}

type modelJob struct {
	began    rota.Clock   // its submission, or when its last retry may run
	first    rota.JobSpec // as it was submitted
	state    rota.JobState
	attempt  int32
	declines int
	snoozes  int
	losses   []rota.Session // of workers that were lost while running it
	retry    rota.RetryPolicy
	due      rota.Clock
	ttl      rota.Clock
	abs, rel rota.Clock
	lease    rota.LeaseID
	lives    int // how often it was retried
	typ      rota.JobType
	runtime  rota.Clock // of an attempt, 0 without a bound
	proof    bool       // it expects the digest of "right"
	ready    rota.Clock // when it would wake if it did not wait for a lease whose job has ended; 0 for none
	gone     rota.Clock // when it is forgotten, once it has ended
	leased   bool       // ever in this life
	key      string     // its unique key, "" for none
	payload  string
}

type modelLease struct {
	job             rota.JobID
	worker          rota.WorkerID
	session         rota.Session
	acked, revoked  bool
	taken           bool // revoked by a takeover
	ackBy, deadline rota.Clock
	renewBy         rota.Clock
	renewals        int32
	lostSince       rota.Clock
	grace           bool
	timesOut        rota.Clock // 0 for never
	// over reports that its job ended before it, alone that the job ran alone then; key is the unique key that it held,
	// "" for none.
	id          rota.LeaseID
	over, alone bool
	key         string
}

type modelWorker struct {
	session rota.Session
	secret  string
	slots   int
	silent  rota.Clock
	// connection, 0 for none, and since when its stream is broken.
	connection uint64
	broken     rota.Clock
	// polls, the newest poll, and its offer and end.
	polls  bool
	poll   uint64
	free   int32
	offers rota.Clock
	modelReputation
}

func newModel(p rota.QueuePolicy) *model {
	return &model{policy: p, now: startClock, jobs: map[rota.JobID]*modelJob{}, leases: map[rota.LeaseID]*modelLease{},
		logs: map[rota.LeaseID]string{}, workers: map[rota.WorkerID]*modelWorker{}, keys: newModelKeys()}
}

// submit reports whether the submission must be accepted.
func (m *model) submit(s *rota.JobSpec) bool {
	if j := m.jobs[s.ID]; j != nil {
		return j.first.Difference(s) == ""
	}
	if taken, met := m.judge(s); met {
		return taken
	}
	j := &modelJob{first: *s, began: m.now, state: rota.JobQueued, retry: s.Retry,
		ttl: rota.Clock(s.TTL.Milliseconds()), typ: s.Type, proof: len(s.ExpectedDigest) > 0,
		runtime: rota.Clock(s.MaxRuntime.Milliseconds()), key: keyOf(s, m.now), payload: string(s.Payload)}
	if s.TTL > 0 {
		j.abs = m.now + j.ttl
	}
	if s.Delay > 0 {
		j.state, j.due = rota.JobDelayed, m.now+rota.Clock(s.Delay.Milliseconds())
	}
	m.jobs[s.ID] = j
	m.holdBack(s.ID, max(j.due, m.now))
	return true
}

// cancel and retry report whether the call must be accepted.
func (m *model) cancel(id rota.JobID) bool {
	j := m.jobs[id]
	if j == nil || j.state.Terminal() {
		return j != nil && j.state == rota.JobCancelled
	}
	m.expel(j, rota.JobCancelled)
	return true
}

func (m *model) retry(id rota.JobID) bool {
	j := m.jobs[id]
	if j == nil || j.state == rota.JobCompleted || !j.state.Terminal() {
		return j != nil && j.lives > 0 && !j.state.Terminal() // a repetition
	}
	now := j.first // another payload may make another key
	now.Payload = rota.Blob(j.payload)
	key := keyOf(&now, m.now)
	if _, held := m.keys.held[key]; held {
		return false
	}
	began := m.now
	if l := m.lingering(id); l != nil {
		began = max(began, m.dueNow(l))
	}
	*j = modelJob{key: key, payload: j.payload, first: j.first, began: began, state: rota.JobQueued, retry: j.retry,
		ttl: j.ttl, lives: j.lives + 1, typ: j.typ, proof: j.proof, runtime: j.runtime}
	m.holdBack(id, m.now)
	if j.ttl > 0 {
		j.abs = j.began + j.ttl
	}
	return true
}

// alter reports whether a change of a job's time to live must be accepted.
func (m *model) alter(c *rota.JobChange) bool {
	j := m.jobs[c.ID]
	if j == nil || j.state != rota.JobQueued && j.state != rota.JobDelayed {
		return false
	}
	j.ttl, j.abs = rota.Clock(c.TTL.Milliseconds()), 0
	if j.ttl > 0 {
		j.abs = j.began + j.ttl
	}
	return true
}

// remove reports whether the deletion of the job in its present state must be accepted.
func (m *model) remove(id rota.JobID) bool {
	j := m.jobs[id]
	if j == nil || !j.state.Terminal() || m.lingering(id) != nil {
		return false
	}
	delete(m.jobs, id)
	return true
}

// expel ends a job in any state; its worker must confirm.
func (m *model) expel(j *modelJob, state rota.JobState) {
	if l := m.leases[j.lease]; l != nil {
		l.over, l.revoked, l.alone = true, true, len(j.losses) >= 2
		if h, ok := m.keys.held[j.key]; ok && h.job == l.job {
			l.key = j.key
		}
		j.lease = rota.LeaseID{}
	}
	m.end(j, state)
	if l := m.lingering(j.first.ID); l != nil {
		j.gone = max(j.gone, m.dueNow(l))
	}
}

// lingering returns the lease that outlived a job, nil if none is open.
func (m *model) lingering(id rota.JobID) *modelLease {
	for _, l := range m.leases {
		if l.over && l.job == id {
			return l
		}
	}
	return nil
}

// bar returns until when a job waits for leases that outlived their jobs; 0 if it waits for none.
func (m *model) bar(id rota.JobID) (until rota.Clock) {
	for _, l := range m.leases {
		if l.over && (l.job == id || l.key != "" && l.key == m.jobs[id].key) {
			until = max(until, m.dueNow(l), m.now+1)
		}
	}
	return until
}

// holdBack makes a job wait for leases that outlived their jobs.
func (m *model) holdBack(id rota.JobID, ready rota.Clock) {
	if until := m.bar(id); until != 0 {
		j := m.jobs[id]
		j.state, j.ready, j.due = rota.JobDelayed, ready, max(ready, until)
	}
}

// release ends a lease that outlived its job; jobs that only waited for it continue.
func (m *model) release(over *modelLease) {
	delete(m.leases, over.id)
	for id, j := range m.jobs {
		if j.ready == 0 || m.bar(id) != 0 || over.job != id && (over.key == "" || over.key != j.key) {
			continue
		}
		if j.due = j.ready; j.ready <= m.now {
			j.state = rota.JobQueued
		}
		j.ready = 0
	}
}

// end records the end of a job without an open lease. The clock and the date run alike here.
func (m *model) end(j *modelJob, state rota.JobState) {
	j.state, j.ready, j.gone = state, 0, m.now+rota.Clock(m.policy.GCHorizonMs)
	if h := m.keys.held[j.key]; j.key != "" && state == rota.JobCompleted && j.inScope() &&
		(h.job == "" || m.jobs[h.job] == j) {
		j.gone = max(j.gone, m.now+rota.Clock(j.first.Unique.Keep.Milliseconds()))
	}
}

// registerOn is register on a numbered connection, 0 for none.
func (m *model) registerOn(id rota.WorkerID, secret string, takeover bool, slots int, connection uint64) bool {
	w := m.workers[id]
	if w != nil && w.secret == secret && !w.retired {
		if connection > 0 && connection < w.connection {
			return false
		}
		if connection != w.connection || connection == 0 {
			w.connection, w.broken = connection, 0
		}
	}
	if !m.register(id, secret, takeover, slots) {
		return false
	}
	if now := m.workers[id]; now != w {
		now.connection = connection
	}
	return true
}

// offer reports whether an offer must be accepted.
func (m *model) offer(id rota.WorkerID, session rota.Session, poll uint64, free int32, until rota.Clock) bool {
	w := m.workers[id]
	switch {
	case w == nil || w.session != session || w.retired || !w.polls || poll == 0 || free < 0:
		return false
	case (free > 0) == (poll == w.poll): // an older poll withdraws, or this one is repeated
		return true
	case free == 0:
		w.free = 0
		return true
	case until <= m.now || until > m.now+9_000:
		return false
	}
	w.poll, w.free, w.offers = poll, free, until
	return true
}

// registerPolling is registerOn for a worker that polls, or has a stream again.
func (m *model) registerPolling(id rota.WorkerID, secret string, takeover bool, slots int, connection uint64,
	polls bool) bool {
	w := m.workers[id]
	if !m.registerOn(id, secret, takeover, slots, connection) {
		return false
	}
	if now := m.workers[id]; now != w || now.polls != polls {
		now.polls, now.poll, now.free = polls, 0, 0
	}
	return true
}

// disconnect reports whether a stream's end must be accepted.
func (m *model) disconnect(id rota.WorkerID, session rota.Session, connection uint64) bool {
	w := m.workers[id]
	if w == nil || w.session != session || w.retired || w.connection != connection {
		return false
	}
	if w.broken == 0 {
		w.broken = m.now
	}
	return true
}

// register reports whether the registration must be accepted.
func (m *model) register(id rota.WorkerID, secret string, takeover bool, slots int) bool {
	w := m.workers[id]
	switch {
	case w == nil:
		w = &modelWorker{modelReputation: newModelReputation(m.now)}
	case w.secret == secret && !w.retired:
		w.unreachable = false
		return true
	case w.secret == secret && w.dismissed:
		return false
	case !w.retired && !(w.status() == rota.WorkerUnreachable && m.open(id) == 0):
		if !takeover {
			return false
		}
		for _, l := range m.leases {
			if l.worker == id {
				l.taken = l.taken || !l.revoked
				l.revoked = true
				if l.lostSince == 0 && w.unreachable {
					l.lostSince = w.silent
				} else if l.lostSince == 0 {
					l.lostSince = m.now
				}
			}
		}
	}
	m.count++
	m.workers[id] = &modelWorker{session: m.count, secret: secret, slots: slots, modelReputation: w.lasting()}
	return true
}

func (m *model) open(id rota.WorkerID) (n int) {
	for _, l := range m.leases {
		if l.worker == id {
			n++
		}
	}
	return n
}

// assigned adopts a new lease of the machine, if it was free to give it.
func (m *model) assigned(l rota.Lease) error {
	j, w := m.jobs[l.Job], m.workers[l.Worker]
	switch {
	case j == nil || j.state != rota.JobQueued:
		return fmt.Errorf("job %s was assigned but is not QUEUED", l.Job)
	case w == nil || w.status() != rota.WorkerActive || w.session != l.Session:
		return fmt.Errorf("worker %s got a lease but is not active", l.Worker)
	case w.broken != 0:
		return fmt.Errorf("worker %s got a lease but its stream is broken", l.Worker)
	case m.barred(&w.modelReputation, j.typ) || w.seen < m.policy.MinHealth:
		return fmt.Errorf("worker %s got a lease of type %s but is not eligible: %+v", l.Worker, j.typ,
			w.modelReputation)
	case w.polls && w.free == 0:
		return fmt.Errorf("worker %s got a lease but offers no slot", l.Worker)
	case m.alone(l.Worker), len(j.losses) >= 2 && m.open(l.Worker) > 0:
		return fmt.Errorf("worker %s got a lease next to a job that runs alone", l.Worker)
	case m.open(l.Worker) >= w.slots:
		return fmt.Errorf("worker %s has no slot for another lease", l.Worker)
	case m.tokens.Compare(l.Token) >= 0 || l.Attempt != j.attempt || m.leases[l.ID] != nil:
		return fmt.Errorf("lease %+v repeats token, id or attempt", l)
	}
	m.tokens = l.Token
	if w.polls {
		w.free--
	}
	j.leased = true
	j.state, j.lease = rota.JobAssigned, l.ID
	if j.rel == 0 {
		j.rel = m.now + rota.Clock(m.policy.TTLRelMaxMs)
	}
	m.leases[l.ID] = &modelLease{id: l.ID, grace: m.policy.LeaseGraceMs > 0 && w.connection > 0, job: l.Job,
		worker: l.Worker, session: l.Session,
		ackBy: m.now + rota.Clock(m.policy.AckTimeoutMs), deadline: m.now + rota.Clock(m.policy.LeaseMs),
		renewBy: m.now + rota.Clock(m.policy.LeaseMs)*6/10}
	if j.runtime > 0 {
		lease := m.leases[l.ID]
		lease.timesOut = m.now + j.runtime
		lease.deadline = min(lease.deadline, lease.timesOut)
		lease.renewBy = lease.deadline - rota.Clock(m.policy.LeaseMs)*4/10
	}
	return nil
}

// drop removes a job's lease.
func (m *model) drop(j *modelJob) {
	delete(m.leases, j.lease)
	j.lease = rota.LeaseID{}
}

// requeue ends a lease uncounted.
func (m *model) requeue(l *modelLease) {
	if l.over {
		m.release(l)
		return
	}
	j := m.jobs[l.job]
	m.drop(j)
	j.state = rota.JobQueued
}

// use ends a lease and counts its attempt.
func (m *model) use(l *modelLease) { m.useUntil(l, 0) }

// useUntil is use with the job's next delay, 0 for its backoff.
func (m *model) useUntil(l *modelLease, wait rota.Clock) {
	j := m.jobs[l.job]
	m.drop(j)
	j.declines, j.snoozes = 0, 0
	p := j.retry.Over(&m.policy)
	if int64(j.attempt)+1 >= p.AttemptMax {
		m.end(j, rota.JobDead)
		return
	}
	if wait == 0 {
		wait = rota.Clock(sched.BackoffMs(l.job, j.attempt, p))
	}
	j.attempt++
	j.state, j.due = rota.JobDelayed, m.now+wait
}

// lease applies a verb and reports whether it must be accepted. Directed tests cover verbs on leases that are over:
// known is false for them.
func (m *model) lease(c *peer.LeaseCommand) (taken, known bool) {
	if len(c.Log) > 0 && c.Verb != rota.VerbComplete && c.Verb != rota.VerbFail && c.Verb != rota.VerbDecline {
		return false, true
	}
	l := m.leases[c.Lease]
	taken, known = m.verb(c)
	if l != nil && m.leases[c.Lease] == nil && len(c.Log) > 0 && (!l.over || taken && m.jobs[c.Job] != nil) {
		m.logs[c.Lease] = string(c.Log)
	}
	return taken, known
}

func (m *model) verb(c *peer.LeaseCommand) (taken, known bool) {
	l, w := m.leases[c.Lease], m.workers[c.Worker]
	switch {
	case l == nil:
		return false, false
	case l.worker != c.Worker || l.session != c.Session:
		return false, true
	case w.session != c.Session && !(c.Verb == rota.VerbDecline && l.revoked):
		return false, true
	}
	j := m.jobs[l.job]
	if l.over {
		if c.Verb == rota.VerbComplete || c.Verb == rota.VerbFail || c.Verb == rota.VerbDecline {
			m.release(l)
		}
		return c.Verb == rota.VerbDecline, true
	}
	switch c.Verb {
	case rota.VerbAck:
		l.acked, j.state = true, rota.JobRunning
	case rota.VerbRenew:
		if c.Ordinal > 0 && c.Ordinal <= l.renewals {
			return true, true
		}
		if l.revoked || c.Ordinal != l.renewals+1 || int64(l.renewals) >= m.policy.RenewalsMax ||
			l.timesOut != 0 && l.deadline == l.timesOut {
			return false, true
		}
		l.renewals++
		l.acked, j.state = true, rota.JobRunning
		if m.now > l.renewBy {
			m.change(&w.modelReputation, -10)
		}
		t := rota.Clock(m.policy.LeaseMs)
		most := m.now + t
		if m.policy.RenewAdds {
			most = l.deadline + t
		}
		l.deadline = max(l.deadline, min(l.deadline+t/2, most))
		if l.timesOut != 0 {
			l.deadline = min(l.deadline, l.timesOut)
		}
		l.renewBy = l.deadline - t*4/10
	case rota.VerbComplete:
		if j.proof && string(c.Output) != "right" {
			m.disprove(c.Worker, l.job)
			m.use(l)
			return false, true
		}
		m.drop(j)
		m.end(j, rota.JobCompleted)
		delete(w.bad, j.typ)
		m.change(&w.modelReputation, 20)
	case rota.VerbFail:
		after, waits := rota.Clock(c.After.Milliseconds()), c.Fail == peer.FailRetryAfter || c.Fail == peer.FailSnooze
		switch {
		case c.Fail > peer.FailTimedOut, waits && (after <= 0 || after > 2_592_000_000), !waits && after != 0:
			return false, true
		case c.Fail == peer.FailTimedOut && l.timesOut != 0:
			m.use(l)
		case c.Fail == peer.FailSnooze && l.revoked:
			m.requeue(l)
		case c.Fail == peer.FailSnooze && j.snoozes < 1_000:
			m.requeue(l)
			j.snoozes++
			j.state, j.due = rota.JobDelayed, m.now+after
		case c.Fail == peer.FailCancel:
			m.drop(j)
			m.end(j, rota.JobCancelled)
		case c.Fail == peer.FailNoRetry:
			m.fails(&w.modelReputation, j.typ, false)
			m.drop(j)
			m.end(j, rota.JobDead)
		default:
			m.fails(&w.modelReputation, j.typ, false)
			m.useUntil(l, after)
		}
	case rota.VerbDecline:
		if !l.revoked && l.timesOut != 0 && m.now >= l.timesOut-2_000 {
			m.use(l)
			return true, true
		}
		if !l.revoked {
			m.fails(&w.modelReputation, j.typ, true)
			if j.declines++; j.declines >= limits.MaxDeclines {
				m.use(l)
				return true, true
			}
		}
		m.requeue(l)
		if !l.revoked && (m.policy.CoolAfter == 0 || !m.policy.DeclineCools) {
			wait := rota.Clock(100)
			for range j.declines - 1 {
				wait = min(2*wait, 10_000)
			}
			j.state, j.due = rota.JobDelayed, m.now+wait
		}
	}
	return true, true
}

// due returns when a lease ends if nothing happens.
func (m *model) due(l *modelLease) rota.Clock {
	due := l.deadline
	if !l.acked {
		due = min(due, l.ackBy)
	}
	if w := m.workers[l.worker]; l.lostSince != 0 {
		due = min(due, l.lostSince+rota.SilenceEnds)
	} else if w.unreachable {
		due = min(due, w.silent+rota.SilenceEnds)
	}
	return due
}

// dueNow is due with the grace of a worker whose stream is broken now.
func (m *model) dueNow(l *modelLease) rota.Clock {
	if w := m.workers[l.worker]; l.grace && w.broken != 0 && w.session == l.session {
		return min(m.due(l), w.broken+rota.Clock(m.policy.LeaseGraceMs))
	}
	return m.due(l)
}

// expireLease applies the cost of LEASE_EXPIRED.
func (m *model) expireLease(l *modelLease) {
	w := m.workers[l.worker]
	m.change(&w.modelReputation, -150)
	if m.policy.DenyMs > 0 {
		w.denied[m.jobs[l.job].typ] = m.now + rota.Clock(m.policy.DenyMs)
	}
	m.use(l)
}

// sweep ends everything that is due: leases, times to live, then delays.
func (m *model) sweep() {
	for _, id := range m.dueOrder() {
		l := m.leases[id]
		w := m.workers[l.worker]
		switch lost := m.isLost(l); {
		case m.dueNow(l) > m.now:
		case l.taken && !l.over && lost:
			m.lose(l)
		case l.revoked:
			m.requeue(l)
		case lost:
			m.expireLost(l)
		case !l.acked && l.ackBy == m.dueNow(l):
			m.change(&w.modelReputation, -50)
			m.use(l)
		case l.timesOut != 0 && l.timesOut == m.dueNow(l):
			m.use(l)
		default:
			m.expireLease(l)
		}
	}
	for id, j := range m.jobs {
		if j.state.Terminal() {
			if j.gone <= m.now {
				delete(m.jobs, id)
			}
			continue
		}
		if j.abs != 0 && j.abs <= m.now || j.rel != 0 && j.rel <= m.now {
			m.expel(j, rota.JobExpired)
		} else if j.state == rota.JobDelayed && j.due <= m.now {
			if until := m.bar(id); j.ready != 0 && until != 0 {
				j.due = until
				continue
			}
			j.state, j.ready = rota.JobQueued, 0
		}
	}
	for _, w := range m.workers {
		w.sweep(m.now)
		if w.offers <= m.now {
			w.free = 0
		}
	}
}
