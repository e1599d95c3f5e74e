package sim

import "github.com/rotasched/rota"

// beats sends a beat every 2 s while the connection is open; in some worlds fewer while the latest is answered, and
// twice as many with a lease as without.
func (k *worker) beats(n *node, session rota.Session) {
	if k.conn != n || k.session != session {
		return
	}
	if !k.beatHeard || k.local(k.w.now) >= k.beaten+min(k.said, k.beatEvery()) {
		k.beat(n, session)
	}
	k.w.on(&k.actor, beatEvery, func() { k.beats(n, session) })
}

// beatEvery is the current interval of its beats.
func (k *worker) beatEvery() Time {
	if len(k.tasks) == 0 {
		return max(beatEvery, k.w.IdleBeat)
	}
	return k.busyBeat()
}

// busyBeat is the interval of its beats with a lease.
func (k *worker) busyBeat() Time {
	if k.w.Grace {
		return beatEvery
	}
	return max(beatEvery, k.w.IdleBeat/2)
}

// beat sends one beat.
func (k *worker) beat(n *node, session rota.Session) {
	w, sent, connection := k.w, k.local(k.w.now), k.connection
	next := k.beatEvery()
	k.beaten, k.said, k.beatHeard = sent, next, false
	life := k.life
	if k.asked <= k.heard {
		k.asked = sent
	}
	reply := func(clock rota.Clock, live bool) {
		w.send(k.reaches(n), &k.actor, func() {
			if k.life == life {
				k.beatAnswered(n, session, sent, clock, live)
			}
		})
	}
	if w.Grace {
		w.send(k.hears(n), &n.actor, func() {
			if n.stands(k, connection) || w.HearEnded {
				w.send(k.hears(n), &k.actor, func() {
					if k.life == life {
						k.heardBeat(sent, connection)
					}
				})
			}
		})
	}
	w.send(k.reaches(n), &n.actor, func() {
		l := w.knownLeader(n)
		if l == nil {
			return
		}
		w.send(true, &l.node.actor, func() {
			l.beat(k.id, session, next, func(c rota.Clock, live bool) {
				w.send(w.linked(n, l.node), &n.actor, func() { reply(c, live) })
			})
		})
	})
}

func (k *worker) beatAnswered(n *node, session rota.Session, sent Time, clock rota.Clock, live bool) {
	if k.session != session {
		return
	}
	if !live {
		if k.conn == n {
			k.secret++ // another process has the id now, or an operator ended the session
			k.forgetAll()
			k.session = 0 // messages in flight to the old one give it nothing
			k.connect()
		}
		return
	}
	k.endOld() // by the old view: ended tasks stay ended (H23)
	k.beatHeard = k.beatHeard || sent == k.beaten
	if !k.viewed || sent > k.viewSent {
		k.viewed, k.viewSent, k.viewClock = true, sent, clock
		if k.w.ViewFromReceipt {
			k.viewSent = k.local(k.w.now)
		}
	}
	k.w.audit.believed(k)
	// The node sends all open leases of its replica: nothing stays lost.
	for _, a := range n.machine.Assignments(k.id, session) {
		if k.w.IdleBeat > 0 && k.tasks[a.Lease.ID] == nil {
			k.noteRepeated(a.Lease.ID)
		}
		k.w.send(k.reaches(n), &k.actor, func() { k.assigned(a) })
	}
}

// noteRepeated marks a lease whose first message was lost, so that its worker learns of it from the answer to a beat. A
// real stream loses no message while it is open; here, with rare beats, that may take as long as a whole short lease.
func (k *worker) noteRepeated(id rota.LeaseID) {
	if l := k.w.audit.leases[id]; l != nil && k.w.now > l.granted+beatEvery {
		l.repeated = true
	}
}
