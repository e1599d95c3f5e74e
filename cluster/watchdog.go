package cluster

import (
	"bytes"
	"fmt"
	"runtime/pprof"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	// maxStall is the maximum number of consecutive checks that may find the same operation in progress. It counts
	// checks, not seconds: a process that was paused did not stall.
	maxStall = 10
	// maxDump bounds the stacks that are logged, in bytes.
	maxDump = 256 << 10
)

// watchdog detects operations that do not return: applying an entry, or taking the lock that this needs. Writes of the
// log have their own watch (package raftstore), which ends the process. A stall here is reported and leadership given
// up, since its cause is in this process and may pass.
type watchdog struct {
	n     *base
	terms *terms
	// begun and ended count the entries that applying began and finished.
	begun, ended atomic.Uint64
	// probed and passed count the attempts to take the apply lock.
	probed, passed atomic.Uint64
	// stalled is the number of checks since the stall began, 0 without one; stalls counts stalls.
	stalled, stalls atomic.Uint64
	// yielding is set while leadership is being given up.
	yielding atomic.Bool
}

// run checks periodically.
func (wd *watchdog) run() {
	tick := wd.n.ticker(wd.n.cfg.watchdogEvery)
	defer tick.Stop()
	var look stallLook
	for {
		select {
		case <-tick.Tick():
			wd.look(&look)
		case <-wd.n.stopped:
			return
		}
	}
}

// stallLook is what the loop remembers between checks.
type stallLook struct {
	entry, probe    uint64
	entries, probes uint64
}

func (wd *watchdog) look(s *stallLook) {
	if begun := wd.begun.Load(); begun != wd.ended.Load() && begun == s.entry {
		s.entries++
	} else {
		s.entry, s.entries = begun, 0
	}
	if probed := wd.probed.Load(); probed != wd.passed.Load() && probed == s.probe {
		s.probes++
	} else {
		s.probes, s.probe = 0, wd.probed.Add(1)
		go func() { // ends with the stall
			wd.n.replica.Mu.RLock()
			wd.n.replica.Mu.RUnlock() //nolint:staticcheck,gocritic // whether it can be taken is all that is asked
			wd.passed.Add(1)
		}()
	}
	stalled := max(s.entries, s.probes)
	if stalled < maxStall {
		if wd.stalled.Swap(0) > 0 {
			wd.n.log.Warn("the stall is over", "index", wd.n.replica.Applied.Load())
		}
		return
	}
	first := wd.stalled.Swap(stalled) == 0
	if wd.n.raft.State() == raft.Leader && wd.yielding.CompareAndSwap(false, true) {
		go func() {
			defer wd.yielding.Store(false)
			// Do this even if BeginTerm was never applied. raft's own loop may also block on applying while its
			// heartbeats continue: then they are suppressed.
			wd.terms.standDown(func() bool { return wd.stalled.Load() > 0 })
		}()
	}
	if !first {
		return
	}
	wd.stalls.Add(1)
	what := "applying an entry"
	if s.entries < maxStall {
		what = "the apply lock"
	}
	wd.n.log.Error("this node stalls", "what", what, "since", time.Duration(stalled)*wd.n.cfg.watchdogEvery, "index",
		wd.n.replica.Applied.Load(), "goroutines", goroutines())
}

// stateStalled is the state that a node reports meanwhile.
const stateStalled = "STALLED"

// goroutines returns the stacks of all goroutines, up to maxDump.
func goroutines() string {
	var b bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&b, 1)
	return string(b.Bytes()[:min(b.Len(), maxDump)])
}

func (wd *watchdog) Problems() []string {
	stalled := wd.stalled.Load()
	if stalled == 0 {
		return nil
	}
	return []string{fmt.Sprintf(
		"applying has stalled for %s: the node's log has its goroutines; start it again if it does not pass",
		time.Duration(stalled)*wd.n.cfg.watchdogEvery)}
}

func (wd *watchdog) Collectors() []prometheus.Collector {
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rota_apply_stall_seconds",
			Help: "How long the present apply call has not returned; 0 if it did."}, func() float64 {
			return (time.Duration(wd.stalled.Load()) * wd.n.cfg.watchdogEvery).Seconds()
		}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "rota_apply_stalls_total",
			Help: "Apply calls that did not return in time."},
			func() float64 { return float64(wd.stalls.Load()) }),
	}
}
