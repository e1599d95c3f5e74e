package sim

import (
	"container/heap"
	"fmt"
)

// Supervise keeps a leader in place as an election would: it elects one if there is none, or if the current one has
// been unreachable for a while.
func (w *World) Supervise() {
	var god actor
	silent := Time(0)
	var once func()
	once = func() {
		if l := w.leader; l == nil || l.node.pausedUntil > w.now || l.node.isolatedUntil > w.now {
			if silent += 200; silent > 1_000+Time(w.chance.IntN(1_500)) {
				if n := w.healthy(); n != nil {
					w.Elect(n)
					silent = 0
				}
			}
		} else {
			silent = 0
		}
		w.on(&god, 200, once)
	}
	w.on(&god, 0, once)
}

// healthy returns a node that could win an election.
func (w *World) healthy() *node {
	var able []*node
	for _, n := range w.nodes {
		if !n.down && n.pausedUntil <= w.now && n.isolatedUntil <= w.now {
			able = append(able, n)
		}
	}
	if len(able) <= len(w.nodes)/2 {
		return nil
	}
	return able[w.chance.IntN(len(able))]
}

// Pause stops an actor for a while, as SIGSTOP does; its clock continues.
func (w *World) Pause(a *actor, length Time) { a.pausedUntil = max(a.pausedUntil, w.now+length) }

// disturb records that a node's workers may have been unreachable until then.
func (w *World) disturb(n *node, until Time) {
	for _, k := range n.conns {
		k.soundSince = max(k.soundSince, until)
	}
}

// PauseNode stops a node.
func (w *World) PauseNode(n *node, length Time) {
	w.Pause(&n.actor, length)
	w.disturb(n, n.pausedUntil)
}

// Isolate cuts a node off from the others for a while; its workers still reach it.
func (w *World) Isolate(n *node, length Time) {
	n.isolatedUntil = w.now + length
	w.disturb(n, n.isolatedUntil)
}

// Lag makes a node apply slowly for a while.
func (w *World) Lag(n *node, each, length Time) {
	var god actor
	n.lag = each
	w.disturb(n, w.now+length+30_000)
	w.on(&god, length, func() { n.lag = 1 })
}

// Cut cuts a worker off from every node for a while.
func (w *World) Cut(k *worker, length Time) {
	k.cutUntil = w.now + length
	k.soundSince = max(k.soundSince, k.cutUntil)
}

// Break causes faults of every kind, one after another, until the world is healed.
func (w *World) Break() {
	var god actor
	var once func()
	once = func() {
		if w.now >= w.Heal {
			w.healAll()
			return
		}
		w.one(&god)
		w.on(&god, Time(w.chance.IntN(4_000)), once)
	}
	w.on(&god, 2_000, once)
}

// fault names one fault, and reports whether it must happen.
func (w *World) fault(name string) bool {
	w.faults = append(w.faults, fmt.Sprintf("%d ms: %s", w.now, name))
	return !w.Skip[len(w.faults)-1]
}

var faultNames = []string{"elect", "elect", "crash", "pause node", "pause node for long", "isolate", "lag", "snapshot",
	"pause worker", "kill worker", "cut worker", "stop all", "flap"}

func (w *World) one(god *actor) {
	n := w.nodes[w.chance.IntN(len(w.nodes))]
	if w.leader != nil && w.chance.IntN(2) == 0 {
		n = w.leader.node
	}
	k := w.workers[w.chance.IntN(len(w.workers))]
	long := func(most int) Time { return Time(50 + w.chance.IntN(most)) }
	kind := w.chance.IntN(13)
	if !w.fault(faultNames[kind]) {
		return
	}
	switch kind {
	case 0, 1:
		if h := w.healthy(); h != nil {
			w.Elect(h)
		}
	case 2:
		w.disturb(n, w.now+10_000)
		w.Crash(n)
		w.on(god, long(8_000), func() { w.Restart(n) })
	case 3:
		w.PauseNode(n, long(3_000))
	case 4:
		w.PauseNode(n, long(25_000))
	case 5:
		w.Isolate(n, long(15_000))
	case 6:
		w.Lag(n, 1+Time(w.chance.IntN(400)), long(8_000))
	case 7:
		if !n.down {
			w.Snapshot(n)
		}
	case 8:
		w.Pause(&k.actor, long(45_000))
		k.soundSince = max(k.soundSince, k.pausedUntil)
	case 9:
		if !k.down {
			k.Die()
			if w.Guards {
				w.Mourn(k, long(2_000))
			}
			w.on(god, long(60_000), k.Reborn)
		}
	case 10:
		if w.Grace && len(w.faults)%2 == 0 {
			w.Sever(k)
			return
		}
		w.Cut(k, long(60_000))
	case 11:
		if w.chance.IntN(4) == 0 { // the whole cluster stops
			length := long(50_000)
			for _, n := range w.nodes {
				w.Pause(&n.actor, length)
			}
		}
	case 12:
		for i := range 5 { // leaders flap
			w.on(god, Time(i)*Time(500+w.chance.IntN(5_000)), func() {
				if h := w.healthy(); h != nil && w.now < w.Heal {
					w.Elect(h)
				}
			})
		}
	}
}

func (w *World) healAll() {
	for _, n := range w.nodes {
		n.pausedUntil, n.isolatedUntil, n.lag = min(n.pausedUntil, w.now), 0, 1
		w.Restart(n)
	}
	for _, k := range w.workers {
		k.cutUntil, k.pausedUntil = 0, min(k.pausedUntil, w.now)
		k.Reborn()
	}
	for _, e := range w.agenda { // else their pending actions would keep sleeping
		if e.slept {
			e.at = w.now
		}
	}
	heap.Init(&w.agenda)
}

// Drain lets the healed world finish, and returns an error unless every guarantee was kept.
func (w *World) Drain() error {
	for w.now < w.End || w.busy() && w.now < 4*w.End {
		if err := w.Run(w.now + 2_000); err != nil {
			return err
		}
		if w.now > w.Heal+20_000 && w.atRest() {
			break
		}
	}
	if w.busy() {
		w.audit.failf("jobs are at work still: %+v", w.nodes[0].machine.Counts())
	}
	if w.audit.fault != nil {
		return w.audit.fault
	}
	// The queue is empty; let every node apply the rest.
	for range 50 {
		done := true
		for _, n := range w.nodes {
			done = done && n.applied == len(w.log)
		}
		if done {
			break
		}
		if err := w.Run(w.now + 7); err != nil {
			return err
		}
	}
	return w.audit.final()
}

// busy reports whether a job is leased or will be retried: the backoffs of an unlucky one double, and a batch's
// callback may be as unlucky after it. Jobs that no worker serves stay pending forever.
func (w *World) busy() bool {
	for _, n := range w.nodes {
		if c := n.machine.Counts(); c.Delayed+c.Assigned+c.Running > 0 {
			return true
		}
	}
	return false
}

func (w *World) atRest() bool {
	if len(w.audit.accepted) < w.Jobs || !w.flows.quiet() || !w.scheduler.quiet() || !w.hooker.quiet() ||
		w.deleter.open > 0 {
		return false
	}
	for _, n := range w.nodes {
		c := n.machine.Counts()
		if c.Blocked+c.Delayed+c.Queued+c.Assigned+c.Running > 0 {
			return false
		}
	}
	return true
}
