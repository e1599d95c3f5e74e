package sim

import (
	"encoding/json"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// keyBudgets apply to jobs with a key w, and, for each tenant, to those with a key c. The last one refuses submissions.
var keyBudgets = []rota.Budget{
	{Name: "bw", Key: "w", Unit: "u", Limit: 40 * rota.CostUnit, DefaultCost: 3 * rota.CostUnit,
		Every: rota.EveryHour, WarnPermille: 500},
	{Name: "bc", Key: "c", Each: rota.EachTenant, Unit: "u", Limit: 25 * rota.CostUnit, Every: rota.EveryHour,
		Then: rota.ThenAsk},
	{Name: "br", Key: "w", Unit: "u", Limit: 30 * rota.CostUnit, DefaultCost: 3 * rota.CostUnit,
		Every: rota.EveryHour, Then: rota.ThenRefuse},
}

// budgetPeriod is the length of a period of this world, in ms.
const budgetPeriod = 7_000

// spending is the naive model of SPEC §30.5: per account the amounts granted and spent since the last period began, and
// a list of all open attempts.
type spending struct {
	budgets map[rota.BudgetName]*rota.Budget
	// until is the end of the period of a budget; the next one must not begin before it.
	until   map[rota.BudgetName]rota.Date
	spent   map[string]int64
	granted map[string]int64
	open    map[rota.LeaseID][]*spender
}

// spender is an open attempt under a budget.
type spender struct {
	budget   rota.BudgetName
	account  string
	estimate int64
	acked    bool
}

func newSpending() spending {
	return spending{budgets: map[rota.BudgetName]*rota.Budget{}, until: map[rota.BudgetName]rota.Date{},
		spent: map[string]int64{}, granted: map[string]int64{}, open: map[rota.LeaseID][]*spender{}}
}

// reserved returns the sum of an account's open attempts.
func (m *spending) reserved(account string) (sum int64) {
	for _, list := range m.open {
		for _, s := range list {
			if s.account == account {
				sum += s.estimate
			}
		}
	}
	return sum
}

// forget begins a period, of one account or of all of a budget.
func (m *spending) forget(budget rota.BudgetName, of string, all bool) {
	for _, sums := range []map[string]int64{m.spent, m.granted} {
		for account := range sums {
			if account == string(budget)+"/"+of || all && strings.HasPrefix(account, string(budget)+"/") {
				delete(sums, account)
			}
		}
	}
}

// judged checks the submissions of an entry against the budgets that refuse. It looks only at entries that change no
// account, so that the model has the accounts of each submission.
func (a *auditor) judged(e *fsmpb.Entry, r *fsm.Applied) {
	for i := range r.Events {
		switch r.Events[i].Kind {
		case rota.EventJobEnqueued, rota.EventJobDelayed, rota.EventBudgetSpent, rota.EventBudgetWarned:
		default:
			return
		}
	}
	m := &a.keyed.spending
	for i, op := range e.GetOps() {
		if op.GetSubmit() == nil {
			continue
		}
		err := entry.OutcomeError(r.Outcomes[i])
		refused := err != nil && err.Kind == rota.KindExhausted && err.Subject == "budget"
		if err != nil && !refused || r.Outcomes[i].GetExisted() {
			continue
		}
		s := entry.SpecWords(op.GetSubmit().GetSpec())
		fits := true
		for _, b := range m.budgets {
			of, applies := b.Account(s.ID, s)
			account := string(b.Name) + "/" + of
			left := int64(b.Limit) + m.granted[account] - m.spent[account] - m.reserved(account)
			fits = fits && !(applies && b.Then == rota.ThenRefuse && left < max(1, b.Estimate(s)))
		}
		if refused == fits {
			a.failf("entry %d: job %s: refused %v by a budget; in the model it fits: %v", r.Index, s.ID, refused, fits)
		}
		if refused {
			a.BudgetsRefused++
		}
	}
}

// budgetEvent follows an event about a budget.
func (a *auditor) budgetEvent(e *rota.Event) {
	m := &a.keyed.spending
	var change struct {
		Budget rota.BudgetName `json:"budget"`
		Of     string          `json:"of"`
		Amount rota.Cost       `json:"amount"`
		Since  rota.Date       `json:"since_ms"`
		Until  rota.Date       `json:"until_ms"`
	}
	if err := json.Unmarshal([]byte(e.Payload), &change); err != nil {
		a.failf("event %s has the payload %s: %v", e.ID, e.Payload, err)
	}
	account := string(change.Budget) + "/" + change.Of
	switch e.Kind {
	case rota.EventBudgetChanged:
		b := &rota.Budget{}
		if err := json.Unmarshal([]byte(e.Payload), b); err != nil {
			a.failf("event %s has the payload %s: %v", e.ID, e.Payload, err)
		}
		m.budgets[b.Name] = b
		for id, l := range a.leases { // open attempts count at once
			if s := a.keyed.specs[l.job]; s != nil {
				m.counts(b, id, s, l.acked)
			}
		}
	case rota.EventBudgetSpent:
		a.BudgetsSpent++
	case rota.EventBudgetGranted:
		m.granted[account] += int64(change.Amount)
	case rota.EventBudgetReset:
		if change.Since == 0 {
			m.forget(change.Budget, change.Of, false)
			return
		}
		if change.Since < m.until[change.Budget] || change.Until <= change.Since {
			a.failf("budget %s begins a period from %s to %s, the last one ended %s", change.Budget, change.Since,
				change.Until, m.until[change.Budget])
		}
		m.until[change.Budget] = change.Until
		m.forget(change.Budget, "", true)
		a.BudgetsTurned++
	}
}

// starts notes an attempt under each budget, and checks that it fitted.
func (m *spending) starts(a *auditor, e *rota.Event, s *rota.JobSpec) {
	for _, b := range m.budgets {
		m.counts(b, e.Lease, s, false)
	}
	for _, x := range m.open[e.Lease] {
		used, limit := m.spent[x.account]+m.reserved(x.account), int64(m.budgets[x.budget].Limit)+m.granted[x.account]
		if used > limit {
			a.failf("job %s started under budget %s with %s of %s", e.Job, x.account, rota.Cost(used), rota.Cost(limit))
		}
	}
}

// counts adds an attempt to the open ones of a budget that applies to it.
func (m *spending) counts(b *rota.Budget, id rota.LeaseID, s *rota.JobSpec, acked bool) {
	for _, key := range s.Keys {
		name, _, _ := strings.Cut(key, ":")
		if name != b.Key {
			continue
		}
		account := string(b.Name) + "/"
		if b.Each == rota.EachTenant {
			account += string(s.Tenant)
		}
		estimate, known := s.Costs[b.Unit]
		if !known {
			estimate = int64(b.DefaultCost)
		}
		m.open[id] = append(m.open[id], &spender{budget: b.Name, account: account, estimate: estimate, acked: acked})
	}
}

// ended books an attempt that has ended.
func (m *spending) ended(e *rota.Event, lease rota.LeaseID) {
	var payload struct {
		Spent *rota.Costs `json:"spent"`
	}
	switch e.Kind {
	case rota.EventJobCompleted, rota.EventLeaseCancelled, rota.EventLeaseExpired, rota.EventLeaseDeclined,
		rota.EventJobDead:
	case rota.EventJobCancelled:
		if e.Reason != rota.ReasonCancelledByHandler {
			return
		}
	default:
		return
	}
	_ = json.Unmarshal([]byte(e.Payload), &payload)
	for _, s := range m.open[lease] {
		switch {
		case payload.Spent != nil:
			m.spent[s.account] += (*payload.Spent)["u"]
		case s.acked || e.Kind == rota.EventJobDead || e.Kind == rota.EventJobCompleted ||
			e.Kind == rota.EventJobCancelled || e.Kind == rota.EventLeaseCancelled &&
			(e.Reason == rota.ReasonProviderFail || e.Reason == rota.ReasonTimedOut || e.Reason == rota.ReasonSnoozed):
			m.spent[s.account] += s.estimate
		}
	}
	delete(m.open, lease)
}

// settled compares each account with the state after an entry.
func (m *spending) settled(a *auditor, n *node, r *fsm.Applied) {
	for name := range m.budgets {
		for _, x := range fsm.BudgetAccounts(&n.machine.View, name, "", 100, false) {
			account := string(name) + "/" + x.Of
			spent, reserved := m.spent[account], m.reserved(account)
			if int64(x.Spent) != spent || int64(x.Reserved) != reserved || int64(x.Granted) != m.granted[account] {
				a.failf("entry %d: account %s has spent %s and reserves %s, granted %s; in the model %s, %s and %s", r.Index,
					account, x.Spent, x.Reserved, x.Granted, rota.Cost(spent), rota.Cost(reserved),
					rota.Cost(m.granted[account]))
			}
		}
	}
}

// turnBudgets begins periods as a leader does, sometimes twice.
func (l *leadership) turnBudgets(m *fsm.Machine) {
	k := l.w.keyer
	if !k.weighs || k.chance.IntN(4) == 0 {
		return
	}
	now := m.Head().Date
	for _, due := range fsm.BudgetsWithPeriods(&m.View) {
		if due.Until > now {
			continue
		}
		since := now / budgetPeriod * budgetPeriod
		for range 1 + k.chance.IntN(3)/2 {
			l.propose(fsm.TurnBudgetOp(&due, max(since, due.Until), since+budgetPeriod, installedZones(m)), nil)
		}
	}
}
