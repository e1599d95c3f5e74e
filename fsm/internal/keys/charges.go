package keys

import (
	"fmt"
	"maps"
	"math"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/tidwall/btree"
)

// queuedCost counts the QUEUED jobs of a count whose rate weighs them, by their estimate in millionths.
type queuedCost struct {
	count  string
	amount int64
	jobs   int
}

func (q queuedCost) less(o queuedCost) bool {
	if q.count != o.count { // mostly the same text in memory, so this is fast
		return q.count < o.count
	}
	return q.amount < o.amount
}

// queuedSum are the QUEUED jobs of a count, and the sum of their estimates.
type queuedSum struct {
	jobs   int64
	amount state.Int128
}

// with returns the sum with one job more, or one less.
func (q queuedSum) with(amount int64, more bool) queuedSum {
	if more {
		return queuedSum{q.jobs + 1, q.amount.Plus(state.Product(amount, 1))}
	}
	return queuedSum{q.jobs - 1, q.amount.Minus(state.Product(amount, 1))}
}

// SetQueued adds or removes a job's estimates. With settles it settles the counts for which that changes anything.
func (kr *Keyring) SetQueued(j *state.JobRow, queued, settles bool) {
	if kr.units == 0 {
		return
	}
	by := 1
	if !queued {
		by = -1
	}
	var room [maxKeyHolds]keyHold
	for _, h := range kr.of(&j.Spec.JobSpec, room[:0]) {
		amount := h.rule.CostOf(&j.Spec.JobSpec)
		if h.rule.RefuseFull {
			kr.queued[h.count] = kr.queued[h.count].with(amount, queued)
			if kr.queued[h.count].jobs == 0 {
				delete(kr.queued, h.count)
			}
		}
		if h.rule.Unit == "" {
			continue
		}
		q, _ := kr.queuedCosts.Get(queuedCost{count: h.count, amount: amount})
		if q = (queuedCost{h.count, amount, q.jobs + by}); q.jobs == 0 {
			kr.queuedCosts.Delete(q)
		} else {
			kr.queuedCosts.Set(q)
		}
		if !settles {
			continue
		}
		c := kr.CountRows.Get(h.count)
		if !c.Full && (!queued || c.Fits(h.rule, amount, kr.s.Header.Clock)) {
			continue // as before
		}
		if kr.full(c, h.rule) != c.Full || kr.Due(c, h.rule) != c.Due {
			kr.settle(kr.CountRows.Change(h.count, c), h.rule)
		}
	}
}

// Needed returns the amount that must fit below the burst before a job of a count starts: the largest estimate of its
// QUEUED jobs, so that smaller ones do not starve it, or the burst if that is less.
func (kr *Keyring) Needed(c *state.KeyCountRow, r *state.KeyRuleRow) int64 {
	return neededBy(kr.queuedCosts, c, r)
}

func neededBy(queued *btree.BTreeG[queuedCost], c *state.KeyCountRow, r *state.KeyRuleRow) (need int64) {
	queued.Descend(queuedCost{count: c.Key, amount: math.MaxInt64}, func(q queuedCost) bool {
		if q.count == c.Key {
			need = q.amount
		}
		return false
	})
	return min(need, r.BurstCost())
}

// Owed returns the debt of a count now, times the period.
func (kr *Keyring) Owed(c *state.KeyCountRow, r *state.KeyRuleRow) state.Int128 {
	return c.Owed(r, kr.s.Header.Clock)
}

// AmountLeft returns how much more the jobs of a count may be charged now until the largest that waits no longer fits;
// 0 or less if it does not fit already, the greatest number if the rate has no unit.
func (kr *Keyring) AmountLeft(c *state.KeyCountRow, r *state.KeyRuleRow) int64 {
	if r.Unit == "" {
		return math.MaxInt64
	}
	return r.BurstCost() - kr.Needed(c, r) + 1 - kr.Owed(c, r).Quotient(r.PeriodMs, rota.MaxCost*2)
}

// Charge adds the estimate of an attempt that starts to the debt of a count; c is editable.
func (kr *Keyring) Charge(c *state.KeyCountRow, r *state.KeyRuleRow, number uint64, amount int64) {
	kr.advance(c, r)
	c.Debt.Total = c.Debt.Total.Plus(state.Product(amount, r.PeriodMs))
	c.Debt.Charges++
	row := kr.Charges.Fresh()
	row.Key, row.Count, row.Number, row.Amount = state.ChargeKey(c.Key, number), c.Key, number, amount
	kr.Charges.Insert(row.Key, row)
	kr.spans.Changed(row)
}

// advance states the debt of a count as of now; c is editable.
func (kr *Keyring) advance(c *state.KeyCountRow, r *state.KeyRuleRow) {
	d, now := &c.Debt, kr.s.Header.Clock
	if d.IsZero() {
		*d = state.Debt{At: now}
		return
	}
	if now == d.At {
		return
	}
	d.Total = state.Repaid(d.Total, r.RateCost(), now-d.At)
	if last := kr.lastCharge(c.Key, math.MaxUint64); last == nil {
		d.Base = d.Total
	} else {
		last = kr.Charges.Change(last.Key, last)
		last.Then(state.Int128{}.Minus(state.Product(r.RateCost(), int64(now-d.At))), state.Int128{})
		kr.spans.Changed(last)
	}
	d.At = now
}

// lastCharge returns the newest charge of a count with at most a number, nil if there is none.
func (kr *Keyring) lastCharge(count string, number uint64) *state.ChargeRow {
	if r, found := kr.Charges.Tree.Last(state.ChargeKey(count, number)); found && r.Count == count {
		return r
	}
	return nil
}

// scanCharges calls visit with each open charge of a count, in the order of their starts.
func (kr *Keyring) scanCharges(count string, visit func(*state.ChargeRow)) {
	kr.Charges.Tree.Ascend(state.ChargeKey(count, 0), func(_ string, r *state.ChargeRow) bool {
		if r.Count != count {
			return false
		}
		visit(r)
		return true
	})
}

// total returns the debt of a count as its base and its charges give it.
func (kr *Keyring) total(c *state.KeyCountRow, r *state.KeyRuleRow) state.Int128 {
	if c.Debt.Charges == 0 {
		return c.Debt.Base
	}
	t := kr.spans[c.Key]
	if t == nil {
		t = state.NewSpans(int(c.Debt.Charges), r.PeriodMs)
		kr.scanCharges(c.Key, func(row *state.ChargeRow) { t.Set(row) })
		kr.spans[c.Key] = t
	}
	return t.After(c.Debt.Base)
}

// Report replaces the charge of an open attempt with what it has reported, where that is more than its estimate.
func (kr *Keyring) Report(l *state.LeaseRow, s *rota.JobSpec) {
	var room [maxKeyHolds]keyHold
	for _, h := range kr.of(s, room[:0]) {
		if h.rule.Unit == "" {
			continue
		}
		row := kr.Charges.Get(state.ChargeKey(h.count, l.Token.Counter))
		if row == nil || l.Spent[h.rule.Unit] <= row.Amount {
			continue
		}
		row = kr.Charges.Change(row.Key, row)
		row.Amount = l.Spent[h.rule.Unit]
		kr.spans.Changed(row)
		c := kr.CountRows.Edit(h.count)
		c.Debt.Total = kr.total(c, h.rule)
		kr.settle(c, h.rule)
	}
}

// SettleCharge replaces the charge of an attempt that ends by what the attempt reported. Without a report it stays the
// estimate, or becomes 0 if its handler never began: it was not acknowledged, and did not fail. The charge before it
// continues to its end. c is editable.
func (kr *Keyring) SettleCharge(c *state.KeyCountRow, r *state.KeyRuleRow, l *state.LeaseRow) {
	row := kr.Charges.Get(state.ChargeKey(c.Key, l.Token.Counter))
	if row == nil {
		return // it started before the rule had this unit
	}
	final := l.Used(r.Unit, row.Amount)
	if planted.refundsTwice() {
		final = max(0, 2*final-row.Amount)
	}
	amount := state.Product(final, r.PeriodMs)
	if before := kr.lastCharge(c.Key, l.Token.Counter-1); before != nil {
		before = kr.Charges.Change(before.Key, before)
		before.Then(amount, state.Int128{})
		before.Then(row.Add, row.Least)
		kr.spans.Changed(before)
	} else {
		c.Debt.Base = row.After(c.Debt.Base.Plus(amount))
	}
	changed := final != row.Amount
	kr.Charges.Drop(row.Key)
	if c.Debt.Charges--; c.Debt.Charges == 0 {
		delete(kr.spans, c.Key)
	} else {
		kr.spans.Ended(row)
	}
	if changed {
		c.Debt.Total = kr.total(c, r)
	}
}

// dropDebt removes the debt of a count and its charges; c is editable.
func (kr *Keyring) dropDebt(c *state.KeyCountRow) {
	if c.Debt.Charges > 0 {
		var keys []string
		kr.scanCharges(c.Key, func(r *state.ChargeRow) { keys = append(keys, r.Key) })
		for _, key := range keys {
			kr.Charges.Drop(key)
		}
	}
	delete(kr.spans, c.Key)
	c.Debt = state.Debt{}
}

// ruledDebt is a count that owes something, and the rule that counts it.
type ruledDebt struct {
	key  string
	rule rota.KeyRule
}

// debtsOf returns the debts of the counts that a rule covers, stated as of now. It is called before the rule changes:
// until then another rule may apply to a count, that of its name or of its value.
func (kr *Keyring) debtsOf(id keyRuleID) (list []ruledDebt) {
	kr.CountRows.Scan(func(key string, c *state.KeyCountRow) bool {
		if r := kr.RuleOf(c); r != nil && id.covers(c.Queue, c.Text) && !c.Debt.IsZero() {
			list = append(list, ruledDebt{key, r.KeyRule})
		}
		return true
	})
	for _, w := range list {
		c := kr.CountRows.Edit(w.key)
		kr.advance(c, kr.RuleOf(c))
	}
	return list
}

// convertDebts converts debts to the rules that apply now: to their periods, and to 0 where the unit is another one.
func (kr *Keyring) convertDebts(list []ruledDebt) {
	for _, w := range list {
		c := kr.CountRows.Edit(w.key)
		r := kr.RuleOf(c)
		if r == nil || r.Unit != w.rule.Unit {
			kr.dropDebt(c)
			continue
		}
		if r.PeriodMs == w.rule.PeriodMs {
			continue
		}
		delete(kr.spans, w.key)
		c.Debt.Base = c.Debt.Base.Scaled(r.PeriodMs, w.rule.PeriodMs)
		var rows []*state.ChargeRow
		kr.scanCharges(w.key, func(r *state.ChargeRow) { rows = append(rows, r) })
		for _, row := range rows {
			row = kr.Charges.Change(row.Key, row)
			row.Add = row.Add.Scaled(r.PeriodMs, w.rule.PeriodMs)
			row.Least = row.Least.Scaled(r.PeriodMs, w.rule.PeriodMs)
		}
		c.Debt.Total = kr.total(c, r)
	}
}

// repaidAt returns when a count with a weighted rate must be reviewed: when the largest job that waits fits, or when
// nothing is owed.
func (kr *Keyring) repaidAt(c *state.KeyCountRow, r *state.KeyRuleRow) rota.Clock {
	return c.RepaidAt(r, kr.Needed(c, r))
}

// rateText describes why a weighted rate lets no job of a count start.
func (kr *Keyring) rateText(c *state.KeyCountRow, r *state.KeyRuleRow) string {
	need, owed := kr.Needed(c, r), kr.Owed(c, r).Quotient(r.PeriodMs, math.MaxInt64/4)
	return fmt.Sprintf("key %s has used %s of its burst of %s %s; %s fit at %s", c.Text, rota.Cost(owed),
		rota.Cost(r.BurstCost()), r.Unit, rota.Cost(need), kr.s.Header.Now().At(kr.repaidAt(c, r)).Date)
}

// checkCharges checks debts and estimates against the rows. Invariant I11.
func checkCharges(kr *Keyring, fault func(format string, args ...any)) {
	open := int64(0)
	kr.CountRows.Scan(func(key string, r *state.KeyCountRow) bool {
		rule := kr.RuleOf(r)
		if rule == nil {
			return true // noted elsewhere
		}
		if listed := kr.stopped.Contains(key); listed != (r.Pause.On || r.Breaker.State != rota.BreakerClosed) {
			fault("I11: key %s is listed as stopped: %v", key, listed)
		}
		n, debt := int64(0), r.Debt.Base
		kr.scanCharges(key, func(row *state.ChargeRow) {
			n++
			debt = row.After(debt.Plus(state.Product(row.Amount, rule.PeriodMs)))
		})
		open += n
		if n != r.Debt.Charges || rule.Unit == "" && !r.Debt.IsZero() || n > r.Open {
			fault("I11: key %s has %d charges of %d leases, %d are counted", key, n, r.Open, r.Debt.Charges)
		} else if rule.Unit != "" && (debt != r.Debt.Total || debt != kr.total(r, rule)) {
			fault("I11: key %s owes %v, its charges give %v, their spans %v", key, r.Debt.Total, debt,
				kr.total(r, rule))
		}
		return true
	})
	if open != int64(kr.Charges.Len()) {
		fault("I11: %d charges are open, %d belong to keys", kr.Charges.Len(), open)
	}
	type queuedAt struct {
		count  string
		amount int64
	}
	queued, sums := map[queuedAt]int{}, map[string]queuedSum{}
	kr.s.JobTable.Scan(func(_ rota.JobID, j *state.JobRow) bool {
		if j.State != rota.JobQueued {
			return true
		}
		for _, h := range kr.of(&j.Spec.JobSpec, nil) {
			amount := h.rule.CostOf(&j.Spec.JobSpec)
			if h.rule.RefuseFull {
				sums[h.count] = sums[h.count].with(amount, true)
			}
			if h.rule.Unit != "" {
				queued[queuedAt{h.count, amount}]++
			}
		}
		return true
	})
	if !maps.Equal(sums, kr.queued) {
		fault("I11: %d keys count QUEUED jobs as %v, the rows say %v", len(sums), kr.queued, sums)
	}
	kr.queuedCosts.Scan(func(q queuedCost) bool {
		if queued[queuedAt{q.count, q.amount}] != q.jobs {
			fault("I11: %d QUEUED jobs of key %s with an estimate of %d are filed, there are %d", q.jobs, q.count,
				q.amount, queued[queuedAt{q.count, q.amount}])
		}
		return true
	})
	if len(queued) != kr.queuedCosts.Len() {
		fault("I11: %d estimates are filed, jobs have %d", kr.queuedCosts.Len(), len(queued))
	}
}
