package cluster

import (
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
)

// sweepLoop proposes a sweep every 250 ms while any deadline may expire (SPEC §3.6). The sweep is queued behind every
// earlier ack, renewal and completion; one is in flight, and a full one is followed by another immediately. An idle
// cluster writes nothing.
func (ch *leaderChores) sweepLoop(l *leadership) {
	tick := ch.n.ticker(limits.SweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.Tick():
		case <-l.ctx.Done():
			return
		}
		for ch.sweepOnce(l) {
			if l.ctx.Err() != nil {
				return
			}
		}
	}
}

func (ch *leaderChores) sweepOnce(l *leadership) (more bool) {
	if !ch.sweepNeeded(l) {
		return false
	}
	r := l.propose(l.ctx, []*fsmpb.Op{{Op: &fsmpb.Op_Sweep{Sweep: &fsmpb.Sweep{}}}}, true)
	if r.err != nil {
		return false
	}
	return r.sweep.More
}

// sweepNeeded reports whether any deadline may expire: open leases, QUEUED jobs, jobs in backoff, workers not known to
// be gone, or a date that is due by the wall clocks. A worker that is only silent needs the clock to advance until it
// is UNREACHABLE, whichever leader it became silent under.
func (ch *leaderChores) sweepNeeded(l *leadership) bool {
	var rest, dated bool
	var date rota.Date
	ch.n.replica.Look(func(s *fsm.View) {
		rest = s.AtRest()
		date, dated = s.NextDate()
	})
	return !rest || dated && l.WallNow() >= int64(date) || l.workersPresent()
}

// retentionEvery is how often retention checks the archive.
const retentionEvery = time.Hour

// retentionLoop removes old ended jobs from the archive; it runs on every node, leader or not.
func (ch *leaderChores) retentionLoop() {
	tick := ch.n.ticker(retentionEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.Tick():
			ch.n.archive.Prune()
			if l := ch.terms.leading(); l != nil {
				ch.dropDeleted(l)
			}
		case <-ch.n.stopped:
			return
		}
	}
}

// dropDeleted removes from the state the deleted numbers that retention has removed from every member's archive.
func (ch *leaderChores) dropDeleted(l *leadership) {
	var first uint64
	ch.n.replica.Look(func(s *fsm.View) { first = s.FirstDeleted() })
	if first == 0 {
		return
	}
	through, err := ch.n.archive.Unretained(l.ctx, first)
	if err != nil || through < first {
		return
	}
	op := &fsmpb.Op{Op: &fsmpb.Op_DropDeleted{DropDeleted: &fsmpb.DropDeleted{Through: through}}}
	if r := l.propose(l.ctx, []*fsmpb.Op{op}, true); r.err != nil && ch.n.lines.Allow("archive/deleted") {
		ch.n.log.Warn("deleted jobs that retention has taken could not be forgotten", "err", r.err)
	}
}
