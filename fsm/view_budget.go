package fsm

import (
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
)

// DueBudget is what a leader needs of a budget with periods.
type DueBudget struct {
	Name    rota.BudgetName
	Version rota.Index
	Times   rota.ScheduleTimes
	// Until is the end of its present period, 0 if none is known.
	Until rota.Date
}

// BudgetsWithPeriods lists the budgets that begin again, by name.
func BudgetsWithPeriods(vw *View) (list []DueBudget) {
	vw.m.budgets.rows.Scan(func(name rota.BudgetName, r *state.BudgetRow) bool {
		if r.Spec.Every != rota.EveryNone {
			list = append(list, DueBudget{name, r.Version, r.Spec.Times(), r.Until})
		}
		return true
	})
	return list
}

// BudgetStates lists the budgets that a caller may see, by name: those with an open question if asking is set.
func BudgetStates(vw *View, asking bool, see func(*rota.Budget) bool) (list []rota.BudgetState) {
	if asking {
		return vw.askingBudgets(see)
	}
	vw.m.budgets.rows.Scan(func(_ rota.BudgetName, r *state.BudgetRow) bool {
		if see(r.Spec) {
			list = append(list, vw.budgetState(r))
		}
		return true
	})
	return list
}

// askingBudgets finds the budgets with an open question, without a look at others.
func (vw *View) askingBudgets(see func(*rota.Budget) bool) (list []rota.BudgetState) {
	bd, from := &vw.m.budgets, ""
	for {
		name, found := "", false
		bd.asks.Ascend(from, func(key string) bool {
			name, _, found = strings.Cut(key, budgetMark)
			return false
		})
		if !found {
			return list
		}
		if r := bd.rows.Get(rota.BudgetName(name)); see(r.Spec) {
			list = append(list, vw.budgetState(r))
		}
		from = name + "\x02" // after its accounts
	}
}

// BudgetOf returns a budget.
func BudgetOf(vw *View, name rota.BudgetName) (b rota.BudgetState, ok bool) {
	r := vw.m.budgets.rows.Get(name)
	if r == nil {
		return b, false
	}
	return vw.budgetState(r), true
}

func (vw *View) budgetState(r *state.BudgetRow) rota.BudgetState {
	b := rota.BudgetState{Budget: *r.Spec, Since: r.Since, Until: r.Until}
	b.ETag = r.ETag()
	var spent, reserved, granted state.Int128
	vw.m.budgets.accounts.Tree.Ascend(state.AccountKey(r.Spec.Name, ""), func(key string, a *state.AccountRow) bool {
		if a.Budget != r.Spec.Name {
			return false
		}
		b.Accounts++
		spent, reserved = spent.Plus(a.Spent), reserved.Plus(a.Reserved)
		granted = granted.Plus(state.Product(a.Granted, 1))
		if vw.m.budgets.held[key] {
			b.Held++
		}
		return true
	})
	vw.m.budgets.questions(r.Spec.Name, "", func(string) bool {
		b.Asking++
		return true
	})
	b.Spent, b.Reserved, b.Granted = shown(spent), shown(reserved), shown(granted)
	return b
}

// queuedUnder returns the number of QUEUED jobs that an account holds, and of all to which it applies.
func (bd *budgets) queuedUnder(key string) (held, all int64) {
	bd.classes.Ascend(&budgetClass{account: key, estimate: -1}, func(c *budgetClass) bool {
		if c.account != key {
			return false
		}
		all += c.jobs
		if c.full {
			held += c.jobs
		}
		return true
	})
	return held, all
}

// BudgetAccounts lists up to a number of accounts of a budget, by owner, from one of them on: those that
// hold jobs back if held is set. The only account of a budget is listed even if it holds nothing.
func BudgetAccounts(vw *View, name rota.BudgetName, from string, most int, held bool) (list []rota.BudgetAccount) {
	bd := &vw.m.budgets
	r := bd.rows.Get(name)
	if r == nil {
		return nil
	}
	bd.accounts.Tree.Ascend(state.AccountKey(name, from), func(key string, a *state.AccountRow) bool {
		if a.Budget != name || len(list) >= most {
			return false
		}
		if !held || bd.held[key] {
			list = append(list, vw.budgetAccount(r, a.Of, a.Account))
		}
		return true
	})
	if r.Spec.Each == rota.EachNone && len(list) == 0 && most > 0 && !held && from == "" {
		list = append(list, vw.budgetAccount(r, "", state.Account{}))
	}
	return list
}

func (vw *View) budgetAccount(r *state.BudgetRow, of string, a state.Account) rota.BudgetAccount {
	key := state.AccountKey(r.Spec.Name, of)
	limit := int64(r.Spec.Limit)
	w := rota.BudgetAccount{Budget: r.Spec.Name, Of: of, Limit: rota.Cost(limit + a.Granted), Spent: shown(a.Spent),
		Reserved: shown(a.Reserved), Left: rota.Cost(max(0, a.Left(limit))), Granted: rota.Cost(a.Granted),
		Warned: a.Warned, Changes: a.Changes}
	w.Held, w.Waiting = vw.m.budgets.queuedUnder(key)
	w.Full = a.Left(limit) <= 0 || w.Held > 0
	w.Asks = vw.m.budgets.asks.Contains(key)
	w.Empty = r.Empty(&a, vw.m.Header.Date())
	return w
}

// BudgetQuestions lists up to a number of the open questions of a budget, by owner, from one of them on: those that hold
// jobs back if held is set.
func BudgetQuestions(vw *View, name rota.BudgetName, from string, most int, held bool) (list []rota.BudgetAccount) {
	bd := &vw.m.budgets
	r := bd.rows.Get(name)
	bd.questions(name, from, func(key string) bool {
		if !held || bd.held[key] {
			of := strings.TrimPrefix(key, state.AccountKey(name, ""))
			list = append(list, vw.budgetAccount(r, of, bd.account(key)))
		}
		return len(list) < most
	})
	return list
}

// HeldAccounts returns the number of accounts that hold jobs back, and of open questions.
func HeldAccounts(vw *View) (held, asking int64) {
	return int64(len(vw.m.budgets.held)), int64(vw.m.budgets.asks.Len())
}
