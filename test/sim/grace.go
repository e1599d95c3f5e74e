package sim

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
)

const (
	graceMargin = 3_000 // a context ends this long before its grace
	graceDying  = 2_000 // its processes take this long to die
	hearSilence = 2_500
	brokenFor   = 2_000
	brokenEvery = 500
)

// link is a node's end of a worker's connection (SPEC §16.7).
type link struct {
	session    rota.Session
	connection uint64
	// ended is when the node saw it end, 0 while it is open.
	ended Time
	// told means that the state shows this end, or another connection.
	told bool
}

// stands reports whether a node has the connection and has not seen it end.
func (n *node) stands(k *worker, connection uint64) bool {
	l := n.links[k.id]
	return l != nil && l.connection == connection && l.ended == 0
}

// hears is reaches for a beat that the node confirms immediately.
func (k *worker) hears(n *node) bool {
	return k.reaches(n) || k.w.HearEnded && k.cutUntil <= k.w.now && !n.down && k.conn == n
}

// sees records a worker's connection at a node; loses records its end.
func (n *node) sees(k *worker) {
	n.links[k.id] = &link{session: k.session, connection: k.connection}
}

func (n *node) loses(k *worker) {
	if l := n.links[k.id]; l != nil && l.ended == 0 {
		l.ended = max(k.w.now, 1)
	}
}

// Sever cuts a worker's connection on the node's side only, as a middlebox does: the node sees it end, and the worker
// learns it from unconfirmed beats.
func (w *World) Sever(k *worker) {
	if k.conn == nil {
		return
	}
	k.soundSince = max(k.soundSince, w.now)
	k.conn.loses(k)
}

// heardBeat handles a node's immediate confirmation of a beat: it counts from the beat's sending, on the newest
// connection.
func (k *worker) heardBeat(sent Time, connection uint64) {
	if k.connection != connection || k.down {
		return
	}
	k.endOld()
	k.heard = max(k.heard, sent)
	k.w.audit.believed(k)
}

// unheard reports whether a worker that holds leases with a grace must try another node.
func (k *worker) unheard() bool {
	return k.w.Grace && k.asked > k.heard && k.local(k.w.now)-k.asked >= hearSilence
}

// unheardEnd returns the local moment at which a lease with a grace is lost if no other beat is confirmed.
func (k *worker) unheardEnd(t *task) Time {
	if t.given.Grace == 0 || k.w.NoGrace {
		return 1 << 60
	}
	return k.heard + Time(t.given.Grace.Milliseconds()) - graceMargin
}

// endsUnheard reports whether that moment comes before everything else that ends the lease.
func (k *worker) endsUnheard(t *task) bool { return k.end(t) == k.unheardEnd(t) }

// dying reports whether processes of a task may still run after its context ended. It counts them only if the grace
// ended it: a lease that ended by its deadline waits for none (SPEC §3.9, §16.7).
func (k *worker) dying(t *task) bool {
	if t.ended {
		return k.local(k.w.now) < t.deadBy
	}
	return k.endsUnheard(t) && k.local(k.w.now) < k.end(t)+graceDying
}

// tellBroken makes each node report the connections that ended there to the leader.
func (w *World) tellBroken(god *actor) {
	for _, n := range w.nodes {
		if n.down || n.pausedUntil > w.now {
			continue
		}
		for _, k := range w.workers {
			if l := n.links[k.id]; l != nil && l.ended != 0 && !l.told && w.now-l.ended >= brokenFor {
				w.tellEnd(n, k, l)
			}
		}
	}
	w.on(god, brokenEvery, func() { w.tellBroken(god) })
}

func (w *World) tellEnd(n *node, k *worker, l *link) {
	session, connection, broken := n.machine.Connection(k.id)
	if session != l.session || connection != l.connection || broken {
		l.told = true
		return
	}
	lead := w.knownLeader(n)
	if lead == nil {
		return
	}
	w.send(true, &lead.node.actor, func() {
		lead.propose(&fsmpb.Op{Op: &fsmpb.Op_Disconnect{Disconnect: &fsmpb.Disconnect{Worker: string(k.id),
			Session: uint64(session), Connection: connection}}}, func(o *fsmpb.Outcome) {
			if OutcomeOK(o) {
				w.audit.Disconnected++
			}
		})
	})
}
