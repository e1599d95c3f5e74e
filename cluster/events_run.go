package cluster

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotasched/rota"
)

const (
	// flushEvery is how often events are written behind (SPEC §10.5).
	flushEvery = 2 * time.Second
	// wakeLeast and wakeMost bound the pause between two wakings of followers:
	// what is applied meanwhile is one batch for all of them. wakeEach is added
	// for each follower, so that a thousand of them leave the node its time.
	wakeLeast = 2 * time.Millisecond
	wakeMost  = 50 * time.Millisecond
	wakeEach  = 50 * time.Microsecond
	// fillMost bounds the stretches fetched from other nodes at a time.
	fillMost = 16
)

// wakeEvents shows followers what was applied. It is a loop of its own: to wake a
// thousand takes longer than to apply an entry.
func (n *Node) wakeEvents() {
	for {
		select {
		case <-n.events.dirty:
		case <-n.stopped:
			return
		}
		n.events.show()
		pause := time.NewTimer(n.events.pause())
		select {
		case <-pause.C:
		case <-n.stopped:
			pause.Stop()
			return
		}
	}
}

func (l *eventLog) pause() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return min(wakeLeast+time.Duration(l.followers)*wakeEach, wakeMost)
}

// flushEvents writes events behind, and fetches those that this node lacks: a
// snapshot took the place of their entries, or the disk was too slow.
func (n *Node) flushEvents() {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-n.events.full:
			n.flushEventsOnce()
		case <-tick.C:
			n.flushEventsOnce()
			n.fillEvents()
		case <-n.stopped:
			return
		}
	}
}

// flushEventsOnce writes what the disk lacks. Where it cannot, the events stay in
// memory while there is room, and at the other nodes.
func (n *Node) flushEventsOnce() {
	err := n.claimArchive()
	if err == nil {
		err = n.events.flush()
	}
	n.events.mu.Lock()
	n.events.failing = err
	n.events.mu.Unlock()
	if err != nil && n.lines.Allow("events/flush") {
		n.log.Error("events are not written to the archive", "err", err)
	}
}

// claimArchive binds the archive's file to this node's cluster before the first
// thing is written to it: that of another must never be taken for this one's.
func (n *Node) claimArchive() error {
	n.mu.RLock()
	head := n.machine.Head()
	n.mu.RUnlock()
	if head.ClusterID == "" || n.history == nil {
		return nil // there is nothing to write yet
	}
	return n.history.store.Claim(head.ClusterID, head.Incarnation)
}

// eventProblems lists what is wrong with this node's events.
func (n *Node) eventProblems() (problems []string) {
	n.events.mu.Lock()
	defer n.events.mu.Unlock()
	if n.events.failing != nil {
		problems = append(problems, "events are not written to the archive: "+n.events.failing.Error())
	}
	return problems
}

// fillEvents fetches a few of the stretches that this node lacks.
func (n *Node) fillEvents() {
	if n.claimArchive() != nil {
		return // the flush has said it
	}
	for range fillMost {
		from, to := n.events.missing()
		if from == to || n.stopping() {
			return
		}
		entries, err := n.fetchEvents(n.life, rota.EventRange{From: from})
		if rota.KindOf(err) == rota.OutOfRange {
			oldest, sure := n.oldestKept(from)
			if !sure || oldest == from {
				return
			}
			n.log.Warn("events are on no node any more: they are told from behind them on", "from", from, "to", min(oldest, to))
			n.events.giveUp(min(oldest, to))
			continue
		}
		if err == nil {
			err = n.events.store.Put(entries)
		}
		if err != nil {
			if n.lines.Allow("events/fill") {
				n.log.Warn("events that this node lacks could not be fetched", "from", from, "err", err)
			}
			return
		}
	}
}

func (n *Node) eventCollectors() []prometheus.Collector {
	l := n.events
	read := func(f func() float64) func() float64 {
		return func() float64 {
			l.mu.Lock()
			defer l.mu.Unlock()
			return f()
		}
	}
	gauge := func(name, help string, f func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rota_" + name, Help: help}, read(f))
	}
	counter := func(name, help string, f func() float64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "rota_" + name, Help: help}, read(f))
	}
	return []prometheus.Collector{
		counter("events_total", "Events of the cluster so far.", func() float64 { return float64(l.total) }),
		gauge("events_lag_entries", "Applied entries whose events are not on disk yet.", func() float64 {
			return float64(l.waiting())
		}),
		gauge("events_followers", "Consumers that follow events on this node.", func() float64 { return float64(l.followers) }),
		counter("events_followers_cut_total", "Consumers cut off as too slow.", func() float64 { return float64(l.cut) }),
		counter("events_dropped_total", "Events that the disk took too long for.", func() float64 { return float64(l.dropped) }),
	}
}
