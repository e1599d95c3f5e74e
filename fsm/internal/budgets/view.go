package budgets

import (
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
)

// Due is what a leader needs of a budget with periods.
type Due struct {
	Name    rota.BudgetName
	Version rota.Index
	Times   rota.ScheduleTimes
	// Until is the end of its present period, 0 if none is known.
	Until rota.Date
}

// WithPeriods lists the budgets that begin again, by name.
func (bd *Budgets) WithPeriods() (list []Due) {
	bd.Rows.Scan(func(name rota.BudgetName, r *state.BudgetRow) bool {
		if r.Spec.Every != rota.EveryNone {
			list = append(list, Due{name, r.Version, r.Spec.Times(), r.Until})
		}
		return true
	})
	return list
}

// States lists the budgets that a caller may see, by name: those with an open question if asking is set.
func (bd *Budgets) States(asking bool, see func(*rota.Budget) bool) (list []rota.BudgetState) {
	if asking {
		return bd.asking(see)
	}
	bd.Rows.Scan(func(_ rota.BudgetName, r *state.BudgetRow) bool {
		if see(r.Spec) {
			list = append(list, bd.stateOf(r))
		}
		return true
	})
	return list
}

// asking finds the budgets with an open question, without a look at others.
func (bd *Budgets) asking(see func(*rota.Budget) bool) (list []rota.BudgetState) {
	from := ""
	for {
		name, found := "", false
		bd.asks.Ascend(from, func(key string) bool {
			name, _, found = strings.Cut(key, mark)
			return false
		})
		if !found {
			return list
		}
		if r := bd.Rows.Get(rota.BudgetName(name)); see(r.Spec) {
			list = append(list, bd.stateOf(r))
		}
		from = name + "\x02" // after its accounts
	}
}

// State returns a budget.
func (bd *Budgets) State(name rota.BudgetName) (b rota.BudgetState, ok bool) {
	r := bd.Rows.Get(name)
	if r == nil {
		return b, false
	}
	return bd.stateOf(r), true
}

func (bd *Budgets) stateOf(r *state.BudgetRow) rota.BudgetState {
	b := rota.BudgetState{Budget: *r.Spec, Since: r.Since, Until: r.Until}
	b.ETag = r.ETag()
	var spent, reserved, granted state.Int128
	bd.AccountRows.Tree.Ascend(state.AccountKey(r.Spec.Name, ""), func(key string, a *state.AccountRow) bool {
		if a.Budget != r.Spec.Name {
			return false
		}
		b.Accounts++
		spent, reserved = spent.Plus(a.Spent), reserved.Plus(a.Reserved)
		granted = granted.Plus(state.Product(a.Granted, 1))
		if bd.held[key] {
			b.Held++
		}
		return true
	})
	bd.questions(r.Spec.Name, "", func(string) bool {
		b.Asking++
		return true
	})
	b.Spent, b.Reserved, b.Granted = Shown(spent), Shown(reserved), Shown(granted)
	return b
}

// queuedUnder returns the number of QUEUED jobs that an account holds, and of all to which it applies.
func (bd *Budgets) queuedUnder(key string) (held, all int64) {
	bd.classes.Ascend(&class{account: key, estimate: -1}, func(c *class) bool {
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

// Accounts lists up to a number of accounts of a budget, by owner, from one of them on: those that
// hold jobs back if held is set. The only account of a budget is listed even if it holds nothing.
func (bd *Budgets) Accounts(name rota.BudgetName, from string, most int, held bool) (list []rota.BudgetAccount) {
	r := bd.Rows.Get(name)
	if r == nil {
		return nil
	}
	bd.AccountRows.Tree.Ascend(state.AccountKey(name, from), func(key string, a *state.AccountRow) bool {
		if a.Budget != name || len(list) >= most {
			return false
		}
		if !held || bd.held[key] {
			list = append(list, bd.accountOf(r, a.Of, a.Account))
		}
		return true
	})
	if r.Spec.Each == rota.EachNone && len(list) == 0 && most > 0 && !held && from == "" {
		list = append(list, bd.accountOf(r, "", state.Account{}))
	}
	return list
}

func (bd *Budgets) accountOf(r *state.BudgetRow, of string, a state.Account) rota.BudgetAccount {
	key := state.AccountKey(r.Spec.Name, of)
	limit := int64(r.Spec.Limit)
	w := rota.BudgetAccount{Budget: r.Spec.Name, Of: of, Limit: rota.Cost(limit + a.Granted), Spent: Shown(a.Spent),
		Reserved: Shown(a.Reserved), Left: rota.Cost(max(0, a.Left(limit))), Granted: rota.Cost(a.Granted),
		Warned: a.Warned, Changes: a.Changes}
	w.Held, w.Waiting = bd.queuedUnder(key)
	w.Full = a.Left(limit) <= 0 || w.Held > 0
	w.Asks = bd.asks.Contains(key)
	w.Empty = r.Empty(&a, bd.s.Header.Date())
	return w
}

// Questions lists up to a number of the open questions of a budget, by owner, from one of them on: those that hold
// jobs back if held is set.
func (bd *Budgets) Questions(name rota.BudgetName, from string, most int, held bool) (list []rota.BudgetAccount) {
	r := bd.Rows.Get(name)
	bd.questions(name, from, func(key string) bool {
		if !held || bd.held[key] {
			of := strings.TrimPrefix(key, state.AccountKey(name, ""))
			list = append(list, bd.accountOf(r, of, bd.Account(key)))
		}
		return len(list) < most
	})
	return list
}

// Held returns the number of accounts that hold jobs back, and of open questions.
func (bd *Budgets) Held() (held, asking int64) {
	return int64(len(bd.held)), int64(bd.asks.Len())
}
