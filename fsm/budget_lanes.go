package fsm

import (
	"fmt"
	"math"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/sched"
)

// refresh decides which classes of an account are full, and reports whether any is. Classes are full from the largest
// down, so it visits those that change, and one more.
func (bd *budgets) refresh(b *rota.Budget, key string, left int64) (held bool) {
	flip := func(c *budgetClass, full bool) bool {
		if c.account != key || c.full == full {
			return false
		}
		c.full = full
		bd.keyring.lanes.SetFull(c.name, full)
		return true
	}
	from := budgetClass{account: key, estimate: left}
	if b.Then == rota.ThenWarn {
		from.estimate = math.MaxInt64
	} else if left <= 0 {
		from.estimate = -1
	}
	bd.classes.Descend(&from, func(c *budgetClass) bool { return flip(c, false) })
	if b.Then != rota.ThenWarn {
		from.estimate++
		bd.classes.Ascend(&from, func(c *budgetClass) bool {
			held = held || c.account == key
			return flip(c, true)
		})
	}
	if held {
		bd.held.Set(key, b)
	} else {
		bd.held.Delete(key)
	}
	return held
}

// setQueued adds a job to its classes, or removes it.
func (bd *budgets) setQueued(j *state.JobRow, queued bool) {
	var room [fewBudgets]budgetHold
	for _, h := range bd.of(j.Spec.ID, &j.Spec.JobSpec, room[:0]) {
		name := h.class()
		c := bd.byName[name]
		if !queued {
			if c.jobs--; c.jobs == 0 {
				delete(bd.byName, name)
				bd.classes.Delete(c)
				bd.held.Delete(c.account) // until it is refreshed
			}
			continue
		}
		if c == nil {
			key := h.account()
			c = &budgetClass{budget: h.budget, account: key, name: name, estimate: h.estimate}
			c.full = c.fills(bd.left(h.budget, key))
			bd.byName[name] = c
			bd.classes.Set(c)
		}
		c.jobs++
	}
}

// queuedChanged is setQueued for a job that becomes QUEUED, or no longer is.
func (bd *budgets) queuedChanged(j *state.JobRow, queued bool) {
	if len(bd.at) == 0 {
		return
	}
	bd.setQueued(j, queued)
	var room [fewBudgets]budgetHold
	for _, h := range bd.of(j.Spec.ID, &j.Spec.JobSpec, room[:0]) {
		bd.settle(h.budget, h.of)
	}
}

// counts appends the counts of a QUEUED job's lane.
func (bd *budgets) counts(id rota.JobID, s *rota.JobSpec, to []string) []string {
	var room [fewBudgets]budgetHold
	for _, h := range bd.of(id, s, room[:0]) {
		to = append(to, bd.byName[h.class()].name)
	}
	return to
}

// amount returns the amount left for the jobs of a class, and the least for one to start.
func (bd *budgets) amount(c *budgetClass) sched.Amount {
	if c.budget.Then == rota.ThenWarn {
		return sched.Amount{Left: math.MaxInt64}
	}
	return sched.Amount{Pool: c.account, Left: bd.left(c.budget, c.account), Least: needs(c.estimate)}
}

// holds reports whether a QUEUED job waits for a budget.
func (bd *budgets) holds(j *state.JobRow) bool {
	var room [fewBudgets]budgetHold
	for _, h := range bd.of(j.Spec.ID, &j.Spec.JobSpec, room[:0]) {
		if c := bd.byName[h.class()]; c != nil && c.full {
			return true
		}
	}
	return false
}

// obstacles calls note with each budget that holds a QUEUED job, until note returns false.
func (bd *budgets) obstacles(j *state.JobRow, note func(reason, detail string) bool) {
	var room [fewBudgets]budgetHold
	for _, h := range bd.of(j.Spec.ID, &j.Spec.JobSpec, room[:0]) {
		if c := bd.byName[h.class()]; c != nil && c.full && !note("BUDGET_SPENT", bd.text(&h)) {
			return
		}
	}
}

// text describes why a budget holds a job. It has the figures of an account only if that is the tenant's own.
func (bd *budgets) text(h *budgetHold) string {
	b, a := h.budget, bd.account(h.account())
	text := fmt.Sprintf("budget %s has too little left", budgetText(b, h.of))
	if own := b.Tenant != "" || b.Each == rota.EachTenant || b.Each.Ends(); own {
		text = fmt.Sprintf("budget %s has %s of %s %s left", budgetText(b, h.of),
			rota.Cost(max(0, a.Left(int64(b.Limit)))), rota.Cost(int64(b.Limit)+a.Granted), b.Unit)
		if reserved := shown(a.Reserved); reserved > 0 {
			text += fmt.Sprintf(", and open attempts reserve %s", reserved)
		}
	}
	text += fmt.Sprintf("; the job may use %s", rota.Cost(h.estimate))
	if r := bd.rows.Get(b.Name); r.Until != 0 {
		text += "; its next period begins at " + r.Until.String()
	}
	return text
}

func budgetText(b *rota.Budget, of string) string {
	if of == "" {
		return string(b.Name)
	}
	return string(b.Name) + " of " + b.Each.String() + " " + of
}
