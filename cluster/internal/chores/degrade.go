package chores

import (
	"fmt"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/internal/meter"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// When a leader degrades the cluster automatically (SPEC §4.7).
const (
	degradeEvery = time.Second
	// recoverAfter is how long a measure must stay below recoverPermille of its threshold: recovery is slower and at a
	// lower value than degrading, so that the mode does not flap.
	recoverAfter    = 30 * time.Second
	recoverPermille = 800
)

// degrader is the leader's chore that proposes DEGRADED when its commits, or the fullest queue, stay over a threshold,
// and NORMAL after recovery. It never changes a mode that an operator set. Slow commits also hold queued jobs, since
// every start costs a commit; a full queue only rejects new ones, since holding would keep it full.
type degrader struct {
	slow, full threshold
	measure    func() measured
	propose    func(to rota.ClusterMode, reason string, holds bool)
}

// measured holds the inputs of a degrader.
type measured struct {
	mode   rota.ModeStatus
	commit time.Duration
	queue  rota.QueueName
	// permille is how full that queue is.
	permille int64
}

// threshold is the threshold of one measure: off if most is 0.
type threshold struct {
	most int64
	// over reports that it counts as exceeded, for the reason why; crossed is since when the measure has indicated the
	// opposite, and crosses that it does.
	over    bool
	why     string
	crossed time.Duration
	crosses bool
}

// look processes a measurement.
func (t *threshold) look(now time.Duration, value int64, why func() string) {
	opposite, after := t.most > 0 && value > t.most, meter.DegradeAfter
	if t.over {
		opposite, after = t.most == 0 || value*1000 < t.most*recoverPermille, recoverAfter
	}
	if !opposite {
		t.crosses = false
		return
	}
	if !t.crosses {
		t.crosses, t.crossed = true, now
	}
	if now-t.crossed >= after {
		t.over, t.crosses = !t.over, false
		t.why = why()
	}
}

// adopt makes a new leader continue from the mode that the previous one set.
func (d *degrader) adopt(mode rota.ModeStatus) {
	if mode.Mode == rota.ModeDegraded && mode.Auto {
		d.slow.over, d.full.over = mode.Holds, !mode.Holds
		d.slow.why, d.full.why = mode.Reason, mode.Reason
	}
}

// once reads the measures and proposes the resulting change.
func (d *degrader) once(now time.Duration) {
	m := d.measure()
	d.slow.look(now, m.commit.Microseconds(), func() string {
		return fmt.Sprintf("commits take %s in the middle, the limit is %s", m.commit.Round(100*time.Microsecond),
			time.Duration(d.slow.most)*time.Microsecond)
	})
	d.full.look(now, m.permille, func() string {
		return fmt.Sprintf("queue %s is %d permille full, the limit is %d", m.queue, m.permille, d.full.most)
	})
	to, reason, holds := rota.ModeNormal, "recovered: commits and queues are below their limits", false
	switch {
	case d.slow.over:
		to, reason, holds = rota.ModeDegraded, d.slow.why, true
	case d.full.over:
		to, reason = rota.ModeDegraded, d.full.why
	}
	degraded := m.mode.Mode == rota.ModeDegraded && m.mode.Auto
	if m.mode.Mode != rota.ModeNormal && !degraded || to == m.mode.Mode && holds == m.mode.Holds {
		return
	}
	d.propose(to, reason, holds)
}

// Degrade runs the chore for as long as a leadership lasts. With both thresholds off it still reverts a mode that a
// previous leader may have set.
func (h *Host) Degrade(l Term, commitMs, usagePermille int64) {
	d := &degrader{measure: func() measured { return h.measureLoad(l) }}
	d.slow.most, d.full.most = commitMs*1000, usagePermille
	d.propose = func(to rota.ClusterMode, reason string, holds bool) {
		outcomes, err := l.Propose(l.Life(), []*fsmpb.Op{{Op: &fsmpb.Op_SetMode{SetMode: &fsmpb.SetMode{
			Mode: uint32(to), Reason: reason, Auto: true, Holds: holds}}}}, true)
		if err == nil && entry.OutcomeError(outcomes[0]) == nil {
			h.Log.Warn("the mode changes by itself", "mode", to, "reason", reason, "holds", holds)
		}
	}
	h.Replica.Look(func(s *fsm.View) { d.adopt(s.Mode()) })
	tick := h.Ticker(degradeEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.Tick():
			d.once(h.SinceBoot())
		case <-l.Life().Done():
			return
		}
	}
}

func (h *Host) measureLoad(l Term) (m measured) {
	m.commit = l.CommitLatency()
	h.Replica.Look(func(s *fsm.View) {
		m.mode = s.Mode()
		m.queue, m.permille = s.FullestQueue()
	})
	return m
}
