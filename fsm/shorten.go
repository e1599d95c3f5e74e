package fsm

import (
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/sched"
)

// shorten applies a change of a queue's intervals to the bars and periods of its workers and to its jobs in backoff
// (SPEC §16.10). It walks all workers, or all delayed jobs, only when an operator changes such an interval.
func (pl *placement) shorten(q *state.QueueRow, old *rota.QueuePolicy) {
	if pl.s.Header.Rules < state.ShortenRules {
		return
	}
	p := &q.Policy
	if coolFor(p) < coolFor(old) || p.DenyMs < old.DenyMs || p.UnitsPeriodMs < old.UnitsPeriodMs {
		pl.fleet.shorten(q)
	}
	if p.BackoffBaseMs != old.BackoffBaseMs || p.BackoffFactorPermille != old.BackoffFactorPermille ||
		p.BackoffCapMs != old.BackoffCapMs ||
		p.BackoffJitterPermille != old.BackoffJitterPermille || p.BackoffUnitMs != old.BackoffUnitMs {
		pl.leasing.recalculateBackoff(q, old)
	}
}

// coolFor returns for how many ms a queue bars a type, 0 if it bars none.
func coolFor(p *rota.QueuePolicy) int64 {
	if p.CoolAfter == 0 {
		return 0
	}
	return p.CoolMs
}

// shorten ends the bars of a queue's workers no later than a bar that began now would end. A bar does not name the
// queue that set it, so the longest bar of all queues that the worker serves is the bound.
func (fl *fleet) shorten(q *state.QueueRow) {
	var barred []rota.WorkerID
	fl.workers.Scan(func(id rota.WorkerID, w *state.WorkerRow) bool {
		if len(w.Cooling)+len(w.Denied)+len(w.Units) > 0 && slices.Contains(w.Spec.Queues, q.Name) {
			barred = append(barred, id)
		}
		return true
	})
	now := fl.s.Header.Clock
	for _, id := range barred {
		w := fl.workers.Edit(id)
		w.SettleHealth(now)
		var cool, deny int64
		for _, name := range w.Spec.Queues {
			if of := fl.s.QueueTable.Get(name); of != nil {
				cool, deny = max(cool, coolFor(&of.Policy)), max(deny, of.Policy.DenyMs)
			}
		}
		w.Cooling = lasting(noLater(w.Cooling, now+rota.Clock(cool)), now)
		w.Denied = lasting(noLater(w.Denied, now+rota.Clock(deny)), now)
		w.Units = inPeriod(w.Units, q, fl.s.Header.Now())
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
func inPeriod(list []rota.UnitsUsed, q *state.QueueRow, now rota.Moment) []rota.UnitsUsed {
	if q.Policy.UnitsPerPeriod == 0 {
		return list
	}
	period := rota.Clock(q.Policy.UnitsPeriodMs)
	since := now.At(now.Clock - now.Clock%period)
	list = slices.Clone(list)
	for i := range list {
		if u := &list[i]; u.Queue == q.Name && u.Until.Clock > since.Clock+period {
			u.Since, u.Until.Clock = since, since.Clock+period
		}
	}
	return list
}

// recalculateBackoff moves the dates of a queue's jobs in backoff to those of its present policy, counted from the end
// of their attempt. A delay that a handler asked for stays.
func (lg *leasing) recalculateBackoff(q *state.QueueRow, old *rota.QueuePolicy) {
	var moved []state.Timer // with the new date
	// ends counts the attempts of the waiting job that ended in the way its last one did.
	ends := func(j *state.JobRow) int {
		if j.Attempts[len(j.Attempts)-1].End == rota.ReasonWorkerLost {
			return len(j.History().Losses)
		}
		return int(j.Attempt)
	}
	lg.s.Timers.Wake.Scan(func(t state.Timer) bool {
		j := lg.s.JobTable.Get(rota.JobID(t.ID))
		if j.Spec.Queue != q.Name || j.State != rota.JobDelayed || j.Declines+j.Snoozes > 0 || len(j.Attempts) == 0 ||
			ends(j) == 0 {
			return true
		}
		ended := j.Attempts[len(j.Attempts)-1].Ended.Clock
		until := func(p *rota.QueuePolicy) rota.Clock {
			return ended + rota.Clock(sched.BackoffMs(j.Spec.ID, int32(ends(j)-1), j.Spec.Retry.Over(p)))
		}
		if at := until(&q.Policy); until(old) == j.Due && at != j.Due {
			moved = append(moved, state.Timer{Due: int64(at), ID: t.ID})
		}
		return true
	})
	for _, t := range moved {
		j := lg.s.JobTable.Edit(rota.JobID(t.ID))
		lg.life.own(j)
		lg.s.Timers.Wake.Refile(t.ID, int64(j.Due), t.Due)
		j.Due = rota.Clock(t.Due)
	}
}
