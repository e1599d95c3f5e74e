package fsm

import (
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/sched"
)

// shortenRules are the first rules under which a change that shortens an interval counts for jobs that wait
// already (SPEC §16.10).
const shortenRules = 2

// shorten applies a change of a queue's intervals to the bars and periods of its workers and to its jobs in backoff
// (SPEC §16.10). It walks all workers, or all delayed jobs, only when an operator changes such an interval.
func (pl *placement) shorten(q *queueRow, old *rota.QueuePolicy) {
	if pl.s.head.rules < shortenRules {
		return
	}
	p := &q.policy
	if coolFor(p) < coolFor(old) || p.DenyMs < old.DenyMs || p.UnitsPeriodMs < old.UnitsPeriodMs {
		pl.fleet.shorten(q)
	}
	if p.BackoffBaseMs != old.BackoffBaseMs || p.BackoffFactorPermille != old.BackoffFactorPermille ||
		p.BackoffCapMs != old.BackoffCapMs ||
		p.BackoffJitterPermille != old.BackoffJitterPermille || p.BackoffUnitMs != old.BackoffUnitMs {
		pl.leasing.recalculateBackoff(q, old)
	}
}

// coolFor returns for how many ms a queue bars a type, 0 where it bars none.
func coolFor(p *rota.QueuePolicy) int64 {
	if p.CoolAfter == 0 {
		return 0
	}
	return p.CoolMs
}

// shorten ends the bars of a queue's workers no later than a bar that began now would end. A bar does not name the
// queue that set it, so the longest bar of all queues that the worker serves is the bound.
func (fl *fleet) shorten(q *queueRow) {
	var barred []rota.WorkerID
	fl.workers.scan(func(id rota.WorkerID, w *workerRow) bool {
		if len(w.cooling)+len(w.denied)+len(w.units) > 0 && slices.Contains(w.spec.Queues, q.name) {
			barred = append(barred, id)
		}
		return true
	})
	now := fl.s.head.clock
	for _, id := range barred {
		w := fl.workers.edit(id)
		w.settleHealth(now)
		var cool, deny int64
		for _, name := range w.spec.Queues {
			if of := fl.s.queues.get(name); of != nil {
				cool, deny = max(cool, coolFor(&of.policy)), max(deny, of.policy.DenyMs)
			}
		}
		w.cooling = lasting(noLater(w.cooling, now+rota.Clock(cool)), now)
		w.denied = lasting(noLater(w.denied, now+rota.Clock(deny)), now)
		w.units = inPeriod(w.units, q, fl.s.head.now())
		fl.reviewWorker(w)
	}
}

// noLater returns a copy of the bars in which each ends at end or earlier. Frozen copies of the row share the old list.
func noLater(list []rota.TypeUntil, end rota.Clock) []rota.TypeUntil {
	list = slices.Clone(list)
	for i := range list {
		list[i].Until.Clock = min(list[i].Until.Clock, end)
	}
	return list
}

// inPeriod returns a copy of a worker's used units in which the queue's period has its present length, if it then ends
// sooner.
func inPeriod(list []rota.UnitsUsed, q *queueRow, now rota.Moment) []rota.UnitsUsed {
	if q.policy.UnitsPerPeriod == 0 {
		return list
	}
	period := rota.Clock(q.policy.UnitsPeriodMs)
	since := now.At(now.Clock - now.Clock%period)
	list = slices.Clone(list)
	for i := range list {
		if u := &list[i]; u.Queue == q.name && u.Until.Clock > since.Clock+period {
			u.Since, u.Until.Clock = since, since.Clock+period
		}
	}
	return list
}

// recalculateBackoff moves the dates of a queue's jobs in backoff to where its present policy puts them, counted from
// the end of their attempt. A delay that a handler asked for stays.
func (lg *leasing) recalculateBackoff(q *queueRow, old *rota.QueuePolicy) {
	var moved []timer // with the new date
	// ends are those that the waiting job had before, of the kind that its last one was of.
	ends := func(j *jobRow) int {
		if j.attempts[len(j.attempts)-1].End == rota.ReasonWorkerLost {
			return len(j.history().losses)
		}
		return int(j.attempt)
	}
	lg.s.timers.wake.Scan(func(t timer) bool {
		j := lg.s.jobs.get(rota.JobID(t.id))
		if j.spec.Queue != q.name || j.state != rota.JobDelayed || j.declines+j.snoozes > 0 || len(j.attempts) == 0 ||
			ends(j) == 0 {
			return true
		}
		ended := j.attempts[len(j.attempts)-1].Ended.Clock
		until := func(p *rota.QueuePolicy) rota.Clock {
			return ended + rota.Clock(sched.BackoffMs(j.spec.ID, int32(ends(j)-1), j.spec.Retry.Over(p)))
		}
		if at := until(&q.policy); until(old) == j.due && at != j.due {
			moved = append(moved, timer{int64(at), t.id})
		}
		return true
	})
	for _, t := range moved {
		j := lg.s.jobs.edit(rota.JobID(t.id))
		lg.life.own(j)
		lg.s.timers.wake.set(t.id, int64(j.due), t.due)
		j.due = rota.Clock(t.due)
	}
}
