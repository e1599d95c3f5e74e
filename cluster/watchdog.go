package cluster

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotasched/rota"
)

const (
	// watchdogEvery is how often is looked, and stallMost how many looks in a row may
	// find the same thing under way. Looks are counted, not seconds: a process that
	// was paused did not stall.
	watchdogEvery = time.Second
	stallMost     = 10
	// dumpMost bounds the stacks that are logged.
	dumpMost = 256 << 10
)

// watchdog finds what does not come back: the applying of an entry, or the lock that
// it needs. Writes of the log have a watch of their own (package raftstore), which ends the
// process; a stall here is told, and leadership given away, as its cause is in this
// process and may pass.
type watchdog struct {
	// begun and ended count the entries that applying began and ended with.
	begun, ended atomic.Uint64
	// probed and passed count the tries to take the apply lock.
	probed, passed atomic.Uint64
	// stalled is for how many looks, 0 while all is well; stalls counts stalls.
	stalled, stalls atomic.Uint64
	// yielding is set while leadership is given away; mute stops this node's heartbeats
	// where nobody took it, so that another one is elected.
	yielding, mute atomic.Bool
}

// watchdogLoop looks.
func (n *Node) watchdogLoop() {
	tick := time.NewTicker(n.cfg.watchdogEvery)
	defer tick.Stop()
	var look stallLook
	for {
		select {
		case <-tick.C:
			n.watchdogOnce(&look)
		case <-n.stopped:
			return
		}
	}
}

// stallLook is what the loop remembers from look to look.
type stallLook struct {
	entry, probe    uint64
	entries, probes uint64
}

func (n *Node) watchdogOnce(s *stallLook) {
	w := &n.dog
	if begun := w.begun.Load(); begun != w.ended.Load() && begun == s.entry {
		s.entries++
	} else {
		s.entry, s.entries = begun, 0
	}
	if probed := w.probed.Load(); probed != w.passed.Load() && probed == s.probe {
		s.probes++
	} else {
		s.probes, s.probe = 0, w.probed.Add(1)
		go func() { // ends with the stall
			n.mu.RLock()
			n.mu.RUnlock() //nolint:staticcheck // whether it can be taken is all that is asked
			w.passed.Add(1)
		}()
	}
	stalled := max(s.entries, s.probes)
	if stalled < stallMost {
		if w.stalled.Swap(0) > 0 {
			n.log.Warn("the stall is over", "index", n.applied.Load())
		}
		return
	}
	first := w.stalled.Swap(stalled) == 0
	if n.raft.State() == raft.Leader && w.yielding.CompareAndSwap(false, true) {
		go func() {
			defer w.yielding.Store(false)
			n.yieldStalled()
		}()
	}
	if !first {
		return
	}
	w.stalls.Add(1)
	what := "applying an entry"
	if s.entries < stallMost {
		what = "the apply lock"
	}
	n.log.Error("this node stalls", "what", what, "since", time.Duration(stalled)*n.cfg.watchdogEvery, "index", n.applied.Load(),
		"goroutines", goroutines())
}

// yieldStalled gives leadership away for as long as this node stalls and raft leads,
// be it that BeginTerm never applied. raft's own loop may hang on the applying as well,
// while its heartbeats go on: then they cease, and another node is elected.
func (n *Node) yieldStalled() {
	w := &n.dog
	ctx, cancel := context.WithTimeout(n.life, n.cfg.Timing.Election+2*time.Second)
	n.handOver(ctx)
	cancel()
	w.mute.Store(true)
	defer w.mute.Store(false)
	for w.stalled.Load() > 0 && n.raft.State() == raft.Leader && n.pause(n.life, 10*time.Millisecond) == nil {
	}
}

// peek takes the apply lock for a read that must be answered while applying stalls as
// well, such as a node's health; false says that it stalls.
func (n *Node) peek() bool {
	for !n.mu.TryRLock() {
		if n.dog.stalled.Load() > 0 {
			return false
		}
		time.Sleep(time.Millisecond)
	}
	return true
}

// stateStalled is what a node calls itself meanwhile.
const stateStalled = "STALLED"

func errStalled() error {
	return &rota.Error{Kind: rota.Unavailable, Subject: "node", RetryAfter: time.Second,
		Text: "applying has stalled on this node: use another node"}
}

// goroutines gives what every goroutine is at, as far as dumpMost goes.
func goroutines() string {
	var b bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&b, 1)
	return string(b.Bytes()[:min(b.Len(), dumpMost)])
}

func (n *Node) stallProblems() []string {
	stalled := n.dog.stalled.Load()
	if stalled == 0 {
		return nil
	}
	return []string{fmt.Sprintf("applying has stalled for %s: the node's log has its goroutines; start it again if it does not pass",
		time.Duration(stalled)*n.cfg.watchdogEvery)}
}

func (n *Node) stallCollectors() []prometheus.Collector {
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rota_apply_stall_seconds",
			Help: "For how long applying has not come back; 0 while it does."}, func() float64 {
			return (time.Duration(n.dog.stalled.Load()) * n.cfg.watchdogEvery).Seconds()
		}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "rota_apply_stalls_total",
			Help: "How often applying did not come back in time."}, func() float64 { return float64(n.dog.stalls.Load()) }),
	}
}
