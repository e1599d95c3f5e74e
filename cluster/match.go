package cluster

import (
	"errors"
	"time"

	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/limits"
)

// matchLoop decides rounds on demand, when supply or demand changes, and at least every dispatch_interval while jobs
// wait (SPEC §7.2). One entry of rounds is in flight: the next is decided on a state that includes it.
func (ch *leaderChores) matchLoop(l *leadership) {
	tick := ch.n.ticker(limits.SweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ch.n.replica.Hub.Matchable:
		case <-tick.Tick():
		case <-l.ctx.Done():
			return
		}
		tick.Reset(ch.dispatchEvery())
		var last []*fsmpb.Round
		for more := true; more && l.ctx.Err() == nil; {
			l.turn.begin()
			ch.n.replica.Hub.Due.Store(false)
			last, more = ch.matchOnce(l, last)
		}
		l.turn.rest()
	}
}

// dispatchEvery returns the shortest dispatch_interval of the queues with waiting jobs.
func (ch *leaderChores) dispatchEvery() time.Duration {
	var ms int64
	ch.n.replica.Look(func(s *fsm.View) { ms = s.DispatchMs() })
	if ms > 0 {
		return time.Duration(ms) * time.Millisecond
	}
	return limits.SweepEvery
}

// matchOnce decides and proposes one entry of rounds; more reports that another may place something. Pairs that were
// dropped on applying are not proposed again immediately, so that the log does not fill with them.
func (ch *leaderChores) matchOnce(l *leadership, last []*fsmpb.Round) (rounds []*fsmpb.Round, more bool) {
	if level, _ := ch.disk.inForce(); level == diskCritical {
		return nil, false
	}
	start := time.Now()
	ch.n.replica.Look(func(s *fsm.View) { rounds = s.Decide(limits.MaxDecide) })
	took := time.Since(start)
	l.turn.took.Store(int64(took))
	ch.n.measures.Decide.Observe(took.Seconds())
	if len(rounds) == 0 {
		return nil, false
	}
	if samePairs(last, rounds) {
		if ch.n.lines.Allow("dropped") {
			ch.n.log.Info("the state drops the pairs that were decided on it: they are tried again later",
				"queue", rounds[0].GetQueue())
		}
		return nil, false
	}
	ch.n.measures.Rounds.Inc()
	r := l.propose(l.ctx, roundOps(rounds), true)
	if r.err != nil && !errors.Is(r.err, errNotLeader) {
		ch.n.log.Debug("round not applied", "err", r.err)
	}
	return rounds, r.err == nil
}

// samePairs reports whether two entries of rounds begin with the same pair, or with none and the same preemption: a
// pair that was placed, or a job that was preempted, is not decided again.
func samePairs(a, b []*fsmpb.Round) bool {
	first := func(rounds []*fsmpb.Round) (job, worker string) {
		for _, r := range rounds {
			if len(r.GetPairs()) > 0 {
				return r.GetPairs()[0].GetJob(), r.GetPairs()[0].GetWorker()
			}
		}
		for _, r := range rounds {
			if len(r.GetPreempts()) > 0 {
				return r.GetPreempts()[0].GetJob(), r.GetPreempts()[0].GetWorker()
			}
		}
		return "", ""
	}
	x, at := first(a)
	y, there := first(b)
	return x != "" && x == y && at == there
}
