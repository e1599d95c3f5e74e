package fsm

import (
	"fmt"
	"math"
	"strings"

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
	from := &bd.pivot
	from.account, from.estimate = key, left
	if b.Then == rota.ThenWarn {
		from.estimate = math.MaxInt64
	} else if left <= 0 {
		from.estimate = -1
	}
	if _, was := bd.held[key]; was {
		bd.classes.Descend(from, func(c *budgetClass) bool { return flip(c, false) })
	}
	if b.Then != rota.ThenWarn {
		from.estimate++
		bd.classes.Ascend(from, func(c *budgetClass) bool {
			held = held || c.account == key
			return flip(c, true)
		})
	}
	bd.hold(key, held)
	bd.question(b, key, left, held)
	return held
}

// hold lists an account among those with a full class, or no longer.
func (bd *budgets) hold(key string, held bool) {
	if held {
		bd.held[key] = true
		return
	}
	delete(bd.held, key)
}

// question lists an account among the open questions, or no longer: one that asks and has a full class, or a row and
// nothing left.
func (bd *budgets) question(b *rota.Budget, key string, left int64, held bool) {
	switch {
	case b.Then != rota.ThenAsk:
	case held || left <= 0 && bd.accounts.Get(key) != nil:
		bd.asks.Insert(key)
	default:
		bd.asks.Delete(key)
	}
}

// questions calls note with the AccountKeys of the open questions of a budget, from one of its accounts on, until note
// returns false.
func (bd *budgets) questions(b rota.BudgetName, from string, note func(key string) bool) {
	bd.asks.Ascend(state.AccountKey(b, from), func(key string) bool {
		return strings.HasPrefix(key, state.AccountKey(b, "")) && note(key)
	})
}

// setQueued adds a job to its classes, or removes it. It settles the accounts that this concerns if settles is set.
func (bd *budgets) setQueued(j *state.JobRow, queued, settles bool) {
	var room [fewBudgets]budgetHold
	for _, h := range bd.of(j.Spec.ID, &j.Spec.JobSpec, room[:0]) {
		c := bd.classOf(&h)
		if c == nil {
			c = &budgetClass{budget: h.budget, account: h.key, name: string(h.appendClass(nil)), estimate: h.estimate}
			c.full = c.fills(bd.left(h.budget, h.key))
			bd.byName[c.name] = c
			bd.classes.Set(c)
		}
		if queued {
			c.jobs++
		} else if c.jobs--; c.jobs == 0 {
			delete(bd.byName, c.name)
			bd.classes.Delete(c)
		}
		switch {
		case !c.full:
		case settles:
			bd.settle(&h)
		case !queued:
			bd.hold(h.key, false) // until it is refreshed
		}
	}
}

// counts appends the counts of a QUEUED job's lane.
func (bd *budgets) counts(id rota.JobID, s *rota.JobSpec, to []string) []string {
	var room [fewBudgets]budgetHold
	for _, h := range bd.of(id, s, room[:0]) {
		to = append(to, bd.classOf(&h).name)
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
		if c := bd.classOf(&h); c != nil && c.full {
			return true
		}
	}
	return false
}

// obstacles calls note with each budget that holds a QUEUED job, until note returns false.
func (bd *budgets) obstacles(j *state.JobRow, note func(reason, detail string) bool) {
	var room [fewBudgets]budgetHold
	for _, h := range bd.of(j.Spec.ID, &j.Spec.JobSpec, room[:0]) {
		if c := bd.classOf(&h); c != nil && c.full && !note("BUDGET_SPENT", bd.text(&h)) {
			return
		}
	}
}

// text describes why a budget holds a job. It has the figures of an account only if that is the tenant's own.
func (bd *budgets) text(h *budgetHold) string {
	b, a := h.budget, bd.account(h.key)
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
