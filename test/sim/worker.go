package sim

import (
	"fmt"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/peer"
)

const (
	beatEvery  = 2_000
	viewMargin = 1_000
	beatLost   = 30_000
	resend     = 400
	slots      = 3
)

// worker executes jobs: it has its own clock and only the information it received.
type worker struct {
	actor
	w       *World
	id      rota.WorkerID
	secret  byte
	session rota.Session
	conn    *node
	// cutUntil cuts it off from every node; soundSince is since when no fault kept its messages from arriving.
	cutUntil   Time
	soundSince Time
	// view is the last answered beat: local time of sending, clock in the answer.
	viewed    bool
	viewSent  Time
	viewClock rota.Clock
	// beaten is when the latest beat was sent, said the announced time until the next one, beatHeard whether it was
	// answered.
	beaten, said Time
	beatHeard    bool
	// connection numbers conn; heard is when the last confirmed beat was sent, asked when the oldest unconfirmed beat
	// since then was sent.
	connection   uint64
	heard, asked Time
	// polling is the session under which it polls, if it does.
	polling rota.Session
	tasks   map[rota.LeaseID]*task
	order   []*task
}

// task is one lease as the worker sees it.
type task struct {
	given    rota.Assignment
	acked    bool
	deadline rota.Clock
	renewals int32
	renewing bool
	// ended means that the handler's context is over; only the report remains.
	ended bool
	// deadBy is until when processes may exist of a handler that its node's silence ended.
	deadBy Time
	finish Time // local time at which the handler finishes
	report rota.LeaseVerb
	sent   Time
	done   bool
	// fail is the outcome that its handler requests if it fails, wait how long the job then waits.
	fail peer.FailKind
	wait time.Duration
	// growth is what its completion adds to its workflow.
	growth *rota.Growth
}

func newWorker(w *World, i int) *worker {
	k := &worker{w: w, id: rota.WorkerID(fmt.Sprint("w", i)), tasks: map[rota.LeaseID]*task{}}
	k.name, k.ppm, k.secret = string(k.id), int64(w.chance.IntN(401)-200), 1
	w.on(&k.actor, Time(w.chance.IntN(500)), k.connect)
	return k
}

func (k *worker) reaches(n *node) bool {
	return k.cutUntil <= k.w.now && !n.down && k.conn == n &&
		(!k.w.Grace || n.links[k.id] == nil || n.stands(k, k.connection))
}

// connect registers at some node, repeatedly until it receives a session.
func (k *worker) connect() {
	w := k.w
	n := w.nodes[w.chance.IntN(len(w.nodes))]
	if n.down {
		w.on(&k.actor, 200, k.connect)
		return
	}
	if k.conn != nil {
		if k.cutUntil <= w.now {
			k.conn.loses(k)
		}
		for i, c := range k.conn.conns {
			if c == k {
				k.conn.conns = append(k.conn.conns[:i:i], k.conn.conns[i+1:]...)
				break
			}
		}
	}
	if k.cutUntil <= w.now {
		delete(n.links, k.id) // the node now knows another connection
	}
	k.connection++
	k.conn, k.soundSince = n, max(k.soundSince, w.now)
	n.conns = append(n.conns, k)
	hash := make([]byte, 32)
	hash[0] = k.secret
	op := &fsmpb.Op{Op: &fsmpb.Op_Register{Register: &fsmpb.Register{SecretHash: hash, Takeover: k.secret > 1,
		Connection: k.connectionSaid(), Grace: w.Grace, Polls: k.polls(),
		Spec: entry.WorkerOp(&rota.WorkerSpec{ID: k.id, Queues: []rota.QueueName{"default"}, Slots: slots})}}}
	if w.Tokens {
		op.Actor, op.Via, op.Request = string(poolOf(k.id)), "sim/worker", fmt.Sprint("c", k.connection)
	}
	if w.Wide {
		spec := op.GetRegister().GetSpec()
		spec.Queues, spec.CpuMilli, spec.Slots = append(spec.GetQueues(), wideQueue), wideCPU, wideSlots
	}
	if w.Turns {
		op.GetRegister().GetSpec().Queues = append(op.GetRegister().GetSpec().GetQueues(), turnsQueue)
	}
	answered := false
	w.forward(n, &k.actor, k.reaches(n), op, func(o *fsmpb.Outcome) {
		if answered || k.conn != n || rota.Kind(o.GetKind()) == rota.KindDenied {
			return
		}
		answered = true
		if OutcomeOK(o) {
			k.session, k.asked = rota.Session(o.GetSession()), 0
			n.sees(k)
			w.on(&k.actor, 0, func() { k.beats(n, k.session) })
			w.on(&k.actor, 10, func() { k.work(n) })
			if fresh := k.session != k.polling; k.polls() && fresh {
				k.polling = k.session
				w.on(&k.actor, 0, func() { k.poll(k.polling) })
			}
		}
	})
	w.on(&k.actor, 2_000, func() {
		if !answered && k.conn == n {
			k.connect()
		}
	})
}

// end returns the local moment from which the worker no longer believes in the lease.
func (k *worker) end(t *task) Time {
	if !k.viewed {
		return 0
	}
	deadline := t.deadline
	if !t.acked && !k.w.NoAckBy {
		deadline = min(deadline, t.given.Lease.AckBy.Clock)
	}
	end := min(k.viewSent+Time(deadline-k.viewClock)-viewMargin, k.viewSent+beatLost)
	return min(end, k.unheardEnd(t))
}

// connectionSaid returns the number it gives its connection, 0 if it gives none.
func (k *worker) connectionSaid() uint64 {
	if !k.w.Grace {
		return 0
	}
	return k.connection
}

// believes reports whether the worker now assumes that it holds the task's job.
func (k *worker) believes(t *task) bool { return !t.ended && k.local(k.w.now) < k.end(t) }

func (k *worker) endOld() {
	for _, t := range k.order {
		if !t.ended && !k.believes(t) {
			t.ended, t.report = true, rota.VerbDecline
			if k.endsUnheard(t) {
				t.deadBy = k.end(t) + graceDying
			}
			if k.timesOut(t) {
				t.report, t.fail, t.wait = rota.VerbFail, peer.FailTimedOut, 0
			}
		}
	}
}

// timesOut reports whether the task's max_runtime is over by the view (SPEC §20.2).
func (k *worker) timesOut(t *task) bool {
	at := t.given.TimesOut()
	return k.viewed && at != 0 && k.local(k.w.now) >= k.viewSent+Time(at-k.viewClock)-viewMargin
}

func (k *worker) forgetAll() { k.tasks, k.order, k.viewed = map[rota.LeaseID]*task{}, nil, false }

// assigned accepts a lease; a known one stays unchanged.
func (k *worker) assigned(a rota.Assignment) {
	if a.Lease.Session != k.session {
		return
	}
	if t := k.tasks[a.Lease.ID]; t != nil {
		return
	}
	if len(k.tasks) == 0 && k.beatHeard && k.conn != nil &&
		k.local(k.w.now) >= k.beaten+k.busyBeat() { // the view is old
		k.beat(k.conn, k.session)
		if k.w.IdleBeat > 0 && a.Lease.Revoked == rota.ReasonNone {
			return // the answer repeats it
		}
	}
	t := &task{given: a, deadline: a.Lease.Deadline.Clock, renewals: a.Lease.Renewals, acked: !a.Lease.Acked.IsZero()}
	k.tasks[a.Lease.ID] = t
	k.order = append(k.order, t)
	switch {
	case !k.viewed || !k.believes(t) || a.Lease.Revoked != rota.ReasonNone:
		t.ended, t.report = true, rota.VerbDecline
	default:
		t.finish = k.local(k.w.now) + Time(10+k.w.chance.IntN(25_000))
		t.report = [...]rota.LeaseVerb{rota.VerbComplete, rota.VerbComplete, rota.VerbComplete,
			rota.VerbFail}[k.w.chance.IntN(4)]
		if t.report == rota.VerbFail {
			t.fail = [...]peer.FailKind{peer.FailRetry, peer.FailRetry, peer.FailRetryAfter, peer.FailSnooze,
				peer.FailSnooze, peer.FailCancel}[k.w.chance.IntN(6)]
			if t.fail.Waits() {
				t.wait = time.Duration(1+k.w.chance.IntN(20_000)) * time.Millisecond
			}
		}
		if k.w.audit.keyed.specs[a.Lease.Job] != nil {
			k.w.keyer.handles(t)
		}
		if _, _, node := rota.SplitNodeJobID(a.Lease.Job); node { // of a workflow's node
			k.w.flows.handles(k, t)
		}
		k.w.audit.holds(k, t)
	}
}

// told ends a handler immediately.
func (k *worker) told(id rota.LeaseID, revoked bool) {
	if t := k.tasks[id]; t != nil && !t.ended {
		t.ended, t.report = true, rota.VerbDecline
		t.done = !revoked
	}
}

// work is the worker's own loop: it checks its clock, ends, acks, renews, reports.
func (k *worker) work(n *node) {
	if k.conn != n {
		return
	}
	now := k.local(k.w.now)
	k.endOld()
	if k.viewed && now-k.viewSent > beatLost/2 && k.w.chance.IntN(20) == 0 || n.down || k.unheard() {
		k.connect()
		return
	}
	rest := k.order[:0]
	for _, t := range k.order {
		if t.done {
			continue
		}
		rest = append(rest, t)
		if !t.ended && now >= t.finish {
			t.ended = true
		}
		if now-t.sent < resend && t.sent != 0 || now < t.deadBy { // it is given back once all its processes have ended
			continue
		}
		switch {
		case t.ended:
			k.command(n, t, t.report)
		case !t.acked:
			k.command(n, t, rota.VerbAck)
		case !t.renewing && now >= k.end(t)-Time(t.given.LeaseFor.Milliseconds()-t.given.RenewEvery.Milliseconds())*8/10:
			k.command(n, t, rota.VerbRenew)
		}
	}
	k.order = rest
	k.w.on(&k.actor, Time(60+k.w.chance.IntN(40)), func() { k.work(n) })
}

func (k *worker) command(n *node, t *task, v rota.LeaseVerb) {
	l := &t.given.Lease
	t.sent = k.local(k.w.now)
	ordinal := t.renewals + 1
	op := entry.LeaseCommandOp(&peer.LeaseCommand{Verb: v, Lease: l.ID, Job: l.Job, Worker: k.id, Session: k.session,
		Ordinal: ordinal, Output: []byte(l.Job), Fail: t.fail, After: t.wait, Growth: t.growsBy(v), Log: logOf(v, l),
		Costs: k.w.keyer.spends(n, v, l), PauseKey: k.w.keyer.pauses(n, t, v, l)})
	k.w.forward(n, &k.actor, k.reaches(n), op, func(o *fsmpb.Outcome) { k.answered(t, v, ordinal, o) })
}

// logOf returns the handler's log that a verb carries: every third handler writes one.
func logOf(v rota.LeaseVerb, l *rota.Lease) []byte {
	ends := v == rota.VerbComplete || v == rota.VerbFail || v == rota.VerbDecline
	if !ends || l.ID[0]%3 != 0 {
		return nil
	}
	return []byte("log of " + l.ID.String())
}

func (k *worker) answered(t *task, v rota.LeaseVerb, ordinal int32, o *fsmpb.Outcome) {
	k.endOld()
	ok := OutcomeOK(o)
	switch {
	case v == rota.VerbComplete || v == rota.VerbFail || v == rota.VerbDecline:
		t.done = true
		if v == rota.VerbComplete && ok {
			k.w.audit.told(&t.given.Lease)
		}
	case t.ended:
	case !ok && rota.Kind(o.GetKind()) == rota.KindStale:
		t.ended, t.report, t.done = true, rota.VerbDecline, true
	case ok:
		t.acked = true
		t.deadline = max(t.deadline, rota.Clock(o.GetDeadlineMs()))
		t.renewals = max(t.renewals, o.GetRenewals())
		k.w.audit.believed(k)
	}
	_ = ordinal
}

// Die kills the process; Reborn starts it again under the same id, as a different process.
func (k *worker) Die() {
	k.w.audit.abandoned(k)
	if k.w.Ghosts {
		k.w.haunt(k)
	}
	k.life++
	k.down = true
	if k.conn != nil && k.cutUntil <= k.w.now {
		k.conn.loses(k)
	}
	k.forgetAll()
}

// Reborn starts the worker's process again.
func (k *worker) Reborn() {
	if !k.down {
		return
	}
	k.down, k.session, k.soundSince = false, 0, k.w.now
	k.secret++
	k.connect()
}
