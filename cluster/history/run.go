package history

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

const (
	// flushEvery is how often events are written to disk (SPEC §10.5).
	flushEvery = 2 * time.Second
	// minWake and maxWake bound the pause between two wake-ups of followers: entries applied meanwhile form one
	// batch for all of them. wakeEach is added for each follower, so that a thousand of them leave the node time for
	// other work.
	minWake  = 2 * time.Millisecond
	maxWake  = 50 * time.Millisecond
	wakeEach = 50 * time.Microsecond
	// maxFill bounds the ranges fetched from other nodes at a time.
	maxFill = 16
)

// Events serves the events of the cluster from this node's own log of them, or from another node's.
type Events struct {
	*eventLog
	host Host
	file *File
	// doubted is not 0 once another node's snapshot has replaced the log: events before that place may belong to a
	// different past.
	doubted atomic.Uint64
}

// NewEvents returns the events in a file, of which it retains the newest retained ones.
func NewEvents(host Host, file *File, retained uint64) *Events {
	return &Events{eventLog: newEventLog(file.Events, retained, host.Log), host: host, file: file}
}

// WakeFollowers makes applied events visible to followers, until the node stops. It is a separate loop because waking a
// thousand followers takes longer than applying an entry.
func (ev *Events) WakeFollowers() {
	for {
		select {
		case <-ev.dirty:
		case <-ev.host.Life.Done():
			return
		}
		ev.show()
		if !ev.host.pause(ev.rest()) {
			return
		}
	}
}

// rest returns the pause between two wake-ups.
func (l *eventLog) rest() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return min(minWake+time.Duration(l.followers)*wakeEach, maxWake)
}

// Run writes events to disk, and fetches those that this node lacks because a snapshot replaced their entries or the
// disk was too slow, until the node stops.
func (ev *Events) Run() {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-ev.full:
			ev.Flush()
		case <-tick.C:
			ev.Flush()
			ev.fillEvents()
		case <-ev.host.Life.Done():
			return
		}
	}
}

// Flush writes events that are not on disk: after they are applied, and before a snapshot is persisted, since the log
// may then be cut. If it fails, the events remain in memory while there is room, and at the other nodes.
func (ev *Events) Flush() {
	known, err := ev.file.claim(ev.host.State.head())
	switch {
	case !known || err != nil:
	case ev.host.Room() == 0:
		err = errNoRoom
	default:
		err = ev.flush()
	}
	ev.mu.Lock()
	ev.failing = err
	ev.mu.Unlock()
	if err != nil && ev.host.Lines.Allow("events/flush") {
		ev.host.Log.Error("events are not written to the archive", "err", err)
	}
}

// Problems lists the faults of this node's events.
func (ev *Events) Problems() (problems []string) {
	ev.mu.Lock()
	defer ev.mu.Unlock()
	if ev.failing != nil {
		problems = append(problems, "events are not written to the archive: "+ev.failing.Error())
	}
	return problems
}

// fillEvents fetches a few of the ranges that this node lacks.
func (ev *Events) fillEvents() {
	if known, err := ev.file.claim(ev.host.State.head()); !known || err != nil {
		return // the flush has logged it
	}
	if ev.doubted.Load() != 0 && !ev.settle() {
		return
	}
	for range maxFill {
		from, to := ev.missing()
		if from == to || ev.host.Life.Err() != nil {
			return
		}
		entries, err := ev.fetchEvents(ev.host.Life, peer.EventRange{From: from})
		if rota.KindOf(err) == rota.KindOutOfRange {
			oldest, sure := ev.oldestKept(from)
			if !sure || oldest == from {
				return
			}
			ev.host.Log.Warn("no node still has these events: reads continue after them", "from", from, "to",
				min(oldest, to))
			ev.giveUp(min(oldest, to))
			continue
		}
		if err == nil {
			err = ev.store.Put(entries)
		}
		if err != nil {
			if ev.host.Lines.Allow("events/fill") {
				ev.host.Log.Warn("events that this node lacks could not be fetched", "from", from, "err", err)
			}
			return
		}
	}
}

// Collectors returns the metrics of this node's events.
func (ev *Events) Collectors() []prometheus.Collector {
	read := func(f func() float64) func() float64 {
		return func() float64 {
			ev.mu.Lock()
			defer ev.mu.Unlock()
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
		counter("events_total", "Events of the cluster so far.", func() float64 { return float64(ev.total) }),
		gauge("events_lag_entries", "Applied entries whose events are not on disk yet.", func() float64 {
			return float64(ev.waiting())
		}),
		gauge("events_followers", "Consumers that follow events on this node.",
			func() float64 { return float64(ev.followers) }),
		counter("events_followers_cut_total", "Consumers cut off as too slow.",
			func() float64 { return float64(ev.cut) }),
		counter("events_dropped_total", "Events that the disk took too long for.",
			func() float64 { return float64(ev.dropped) }),
	}
}
