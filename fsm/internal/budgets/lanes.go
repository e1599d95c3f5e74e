package budgets

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
func (bd *Budgets) refresh(b *rota.Budget, key string, left int64) (held bool) {
	flip := func(c *class, full bool) bool {
		if c.account != key || c.full == full {
			return false
		}
		c.full = full
		bd.ports.Lanes.SetFull(c.name, full)
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
		bd.classes.Descend(from, func(c *class) bool { return flip(c, false) })
	}
	if b.Then != rota.ThenWarn {
		from.estimate++
		bd.classes.Ascend(from, func(c *class) bool {
			held = held || c.account == key
			return flip(c, true)
		})
	}
	bd.hold(key, held)
	bd.question(b, key, left, held)
	return held
}

// hold lists an account among those with a full class, or no longer.
func (bd *Budgets) hold(key string, held bool) {
	if held {
		bd.held[key] = true
		return
	}
	delete(bd.held, key)
}

// question lists an account among the open questions, or no longer: one that asks and has a full class, or a row and
// nothing left.
func (bd *Budgets) question(b *rota.Budget, key string, left int64, held bool) {
	switch {
	case b.Then != rota.ThenAsk:
	case held || left <= 0 && bd.AccountRows.Get(key) != nil:
		bd.asks.Insert(key)
	default:
		bd.asks.Delete(key)
	}
}

// questions calls note with the AccountKeys of the open questions of a budget, from one of its accounts on, until note
// returns false.
func (bd *Budgets) questions(b rota.BudgetName, from string, note func(key string) bool) {
	bd.asks.Ascend(state.AccountKey(b, from), func(key string) bool {
		return strings.HasPrefix(key, state.AccountKey(b, "")) && note(key)
	})
}

// SetQueued adds a job to its classes, or removes it. It settles the accounts that this concerns if settles is set.
func (bd *Budgets) SetQueued(j *state.JobRow, queued, settles bool) {
	var room [fewHolds]Hold
	for _, h := range bd.Of(j.Spec.ID, &j.Spec.JobSpec, room[:0]) {
		c := bd.classOf(&h)
		if c == nil {
			c = &class{Budget: h.budget, account: h.key, name: string(h.appendClass(nil)), estimate: h.estimate}
			c.full = c.fills(bd.left(h.budget, h.key))
			bd.ByName[c.name] = c
			bd.classes.Set(c)
		}
		if queued {
			c.jobs++
		} else if c.jobs--; c.jobs == 0 {
			delete(bd.ByName, c.name)
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

// Counts appends the counts of a QUEUED job's lane.
func (bd *Budgets) Counts(id rota.JobID, s *rota.JobSpec, to []string) []string {
	var room [fewHolds]Hold
	for _, h := range bd.Of(id, s, room[:0]) {
		to = append(to, bd.classOf(&h).name)
	}
	return to
}

// Amount returns the amount left for the jobs of a class, and the least for one to start.
func (bd *Budgets) Amount(c *class) sched.Amount {
	if c.Budget.Then == rota.ThenWarn {
		return sched.Amount{Left: math.MaxInt64}
	}
	return sched.Amount{Pool: c.account, Left: bd.left(c.Budget, c.account), Least: needs(c.estimate)}
}

// Holds reports whether a QUEUED job waits for a budget.
func (bd *Budgets) Holds(j *state.JobRow) bool {
	var room [fewHolds]Hold
	for _, h := range bd.Of(j.Spec.ID, &j.Spec.JobSpec, room[:0]) {
		if c := bd.classOf(&h); c != nil && c.full {
			return true
		}
	}
	return false
}

// Obstacles calls note with each budget that holds a QUEUED job, until note returns false.
func (bd *Budgets) Obstacles(j *state.JobRow, note func(reason, detail string) bool) {
	var room [fewHolds]Hold
	for _, h := range bd.Of(j.Spec.ID, &j.Spec.JobSpec, room[:0]) {
		if c := bd.classOf(&h); c != nil && c.full && !note("BUDGET_SPENT", bd.text(&h)) {
			return
		}
	}
}

// text describes why a budget holds a job. It has the figures of an account only if that is the tenant's own.
func (bd *Budgets) text(h *Hold) string {
	b, a := h.budget, bd.Account(h.key)
	text := fmt.Sprintf("budget %s has too little left", textOf(b, h.of))
	if own := b.Tenant != "" || b.Each == rota.EachTenant || b.Each.Ends(); own {
		text = fmt.Sprintf("budget %s has %s of %s %s left", textOf(b, h.of),
			rota.Cost(max(0, a.Left(int64(b.Limit)))), rota.Cost(int64(b.Limit)+a.Granted), b.Unit)
		if reserved := Shown(a.Reserved); reserved > 0 {
			text += fmt.Sprintf(", and open attempts reserve %s", reserved)
		}
	}
	text += fmt.Sprintf("; the job may use %s", rota.Cost(h.estimate))
	if r := bd.Rows.Get(b.Name); r.Until != 0 {
		text += "; its next period begins at " + r.Until.String()
	}
	return text
}

func textOf(b *rota.Budget, of string) string {
	if of == "" {
		return string(b.Name)
	}
	return string(b.Name) + " of " + b.Each.String() + " " + of
}

// ClassFull reports whether a class is full; known is false if no class has the name.
func (bd *Budgets) ClassFull(name string) (full, known bool) {
	c := bd.ByName[name]
	return c != nil && c.full, c != nil
}
