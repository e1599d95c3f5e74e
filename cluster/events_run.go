package cluster

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
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

// eventFeed serves the events of the cluster: from this node's own log of them, or from
// another node's.
type eventFeed struct {
	n      *Node
	events *eventLog
}

// wakeFollowers shows followers what was applied. It is a loop of its own: to wake a
// thousand takes longer than to apply an entry.
func (ef *eventFeed) wakeFollowers() {
	for {
		select {
		case <-ef.events.dirty:
		case <-ef.n.stopped:
			return
		}
		ef.events.show()
		pause := time.NewTimer(ef.events.pause())
		select {
		case <-pause.C:
		case <-ef.n.stopped:
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

// run writes events behind, and fetches those that this node lacks: a
// snapshot took the place of their entries, or the disk was too slow.
func (ef *eventFeed) run() {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-ef.events.full:
			ef.flush()
		case <-tick.C:
			ef.flush()
			ef.fillEvents()
		case <-ef.n.stopped:
			return
		}
	}
}

// flush writes what the disk lacks. Where it cannot, the events stay in
// memory while there is room, and at the other nodes.
func (ef *eventFeed) flush() {
	err := ef.claimArchive()
	if err == nil {
		err = ef.events.flush()
	}
	ef.events.mu.Lock()
	ef.events.failing = err
	ef.events.mu.Unlock()
	if err != nil && ef.n.lines.Allow("events/flush") {
		ef.n.log.Error("events are not written to the archive", "err", err)
	}
}

// claimArchive binds the archive's file to this node's cluster before the first
// thing is written to it: that of another must never be taken for this one's.
func (ef *eventFeed) claimArchive() error {
	head := ef.n.replica.head()
	if head.ClusterID == "" || ef.n.history.store == nil {
		return nil // there is nothing to write yet
	}
	return ef.n.history.store.Claim(head.ClusterID, head.Incarnation)
}

// problems lists what is wrong with this node's events.
func (ef *eventFeed) problems() (problems []string) {
	ef.events.mu.Lock()
	defer ef.events.mu.Unlock()
	if ef.events.failing != nil {
		problems = append(problems, "events are not written to the archive: "+ef.events.failing.Error())
	}
	return problems
}

// fillEvents fetches a few of the stretches that this node lacks.
func (ef *eventFeed) fillEvents() {
	if ef.claimArchive() != nil {
		return // the flush has said it
	}
	for range fillMost {
		from, to := ef.events.missing()
		if from == to || ef.n.stopping() {
			return
		}
		entries, err := ef.fetchEvents(ef.n.life, peer.EventRange{From: from})
		if rota.KindOf(err) == rota.KindOutOfRange {
			oldest, sure := ef.oldestKept(from)
			if !sure || oldest == from {
				return
			}
			ef.n.log.Warn("events are on no node any more: they are told from behind them on", "from", from, "to", min(oldest, to))
			ef.events.giveUp(min(oldest, to))
			continue
		}
		if err == nil {
			err = ef.events.store.Put(entries)
		}
		if err != nil {
			if ef.n.lines.Allow("events/fill") {
				ef.n.log.Warn("events that this node lacks could not be fetched", "from", from, "err", err)
			}
			return
		}
	}
}

func (ef *eventFeed) collectors() []prometheus.Collector {
	read := func(f func() float64) func() float64 {
		return func() float64 {
			ef.events.mu.Lock()
			defer ef.events.mu.Unlock()
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
		counter("events_total", "Events of the cluster so far.", func() float64 { return float64(ef.events.total) }),
		gauge("events_lag_entries", "Applied entries whose events are not on disk yet.", func() float64 {
			return float64(ef.events.waiting())
		}),
		gauge("events_followers", "Consumers that follow events on this node.", func() float64 { return float64(ef.events.followers) }),
		counter("events_followers_cut_total", "Consumers cut off as too slow.", func() float64 { return float64(ef.events.cut) }),
		counter("events_dropped_total", "Events that the disk took too long for.", func() float64 { return float64(ef.events.dropped) }),
	}
}
