package fsm

import (
	"fmt"
	"math"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/tidwall/btree"
)

// ask is the estimate of a QUEUED job, in millionths, under a count whose rate weighs it.
type ask struct {
	count  string
	amount int64
	job    rota.JobID
}

func (a ask) less(b ask) bool {
	if a.count != b.count {
		return a.count < b.count
	}
	if a.amount != b.amount {
		return a.amount < b.amount
	}
	return a.job < b.job
}

// ask enters or removes a job's estimates.
func (kr *keyring) ask(j *state.JobRow, waits bool) {
	var room [maxKeyHolds]keyHold
	for _, h := range kr.of(&j.Spec.JobSpec, room[:0]) {
		if h.rule.Unit == "" {
			continue
		}
		a := ask{h.count, h.rule.CostOf(&j.Spec.JobSpec), j.Spec.ID}
		if waits {
			kr.asks.Set(a)
		} else {
			kr.asks.Delete(a)
		}
	}
}

// asked is ask for a job that becomes QUEUED, or no longer is; it settles the counts for which that changes anything.
func (kr *keyring) asked(j *state.JobRow, waits bool) {
	if len(j.Spec.Keys) == 0 || len(kr.names) == 0 {
		return
	}
	kr.ask(j, waits)
	var room [maxKeyHolds]keyHold
	for _, h := range kr.of(&j.Spec.JobSpec, room[:0]) {
		if h.rule.Unit == "" {
			continue
		}
		if c := kr.counts.Get(h.count); kr.full(c, h.rule) != c.Full || kr.due(c, h.rule) != c.Due {
			kr.settle(kr.counts.Change(h.count, c), h.rule)
		}
	}
}

// needed returns the amount that must fit below the burst before a job of a count starts: the largest estimate of its
// QUEUED jobs, so that smaller ones do not starve it, or the burst if that is less.
func (kr *keyring) needed(c *state.KeyCountRow, r *state.KeyRuleRow) int64 {
	return neededBy(kr.asks, c, r)
}

func neededBy(asks *btree.BTreeG[ask], c *state.KeyCountRow, r *state.KeyRuleRow) (need int64) {
	asks.Descend(ask{c.Key, math.MaxInt64, ""}, func(a ask) bool {
		if a.count == c.Key {
			need = a.amount
		}
		return false
	})
	return min(need, r.BurstCost())
}

// owed returns the debt of a count now, times the period.
func (kr *keyring) owed(c *state.KeyCountRow, r *state.KeyRuleRow) state.Wide {
	return c.Owed(r, kr.s.Header.Clock)
}

// amountLeft returns how much more the jobs of a count may be charged now until the largest that waits no longer fits;
// 0 or less if it does not fit already, the greatest number if the rate has no unit.
func (kr *keyring) amountLeft(c *state.KeyCountRow, r *state.KeyRuleRow) int64 {
	if r.Unit == "" {
		return math.MaxInt64
	}
	return r.BurstCost() - kr.needed(c, r) + 1 - kr.owed(c, r).Quotient(r.PeriodMs, rota.MaxCost*2)
}

// charge adds the estimate of an attempt that starts to the debt of a count; c is editable.
func (kr *keyring) charge(c *state.KeyCountRow, r *state.KeyRuleRow, number uint64, amount int64) {
	kr.advance(c, r)
	c.Debt.Total = c.Debt.Total.Plus(state.Product(amount, r.PeriodMs))
	c.Debt.Charges++
	row := kr.charges.Fresh()
	row.Key, row.Count, row.Number, row.Amount = state.ChargeKey(c.Key, number), c.Key, number, amount
	kr.charges.Insert(row.Key, row)
}

// advance states the debt of a count as of now; c is editable.
func (kr *keyring) advance(c *state.KeyCountRow, r *state.KeyRuleRow) {
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
		kr.charges.Change(last.Key, last).Then(state.Wide{}.Minus(state.Product(r.RateCost(), int64(now-d.At))),
			state.Wide{})
	}
	d.At = now
}

// lastCharge returns the newest charge of a count with at most a number, nil if there is none.
func (kr *keyring) lastCharge(count string, number uint64) *state.ChargeRow {
	if r, found := kr.charges.Tree.Last(state.ChargeKey(count, number)); found && r.Count == count {
		return r
	}
	return nil
}

// scanCharges calls visit with each open charge of a count, in the order of their starts.
func (kr *keyring) scanCharges(count string, visit func(*state.ChargeRow)) {
	kr.charges.Tree.Ascend(state.ChargeKey(count, 0), func(_ string, r *state.ChargeRow) bool {
		if r.Count != count {
			return false
		}
		visit(r)
		return true
	})
}

// total returns the debt of a count as its base and its charges give it.
func (kr *keyring) total(c *state.KeyCountRow, r *state.KeyRuleRow) state.Wide {
	debt := c.Debt.Base
	kr.scanCharges(c.Key, func(row *state.ChargeRow) {
		debt = row.After(debt.Plus(state.Product(row.Amount, r.PeriodMs)))
	})
	return debt
}

// report replaces the charge of an open attempt with what it has reported, where that is more than its estimate.
func (kr *keyring) report(l *state.LeaseRow, s *rota.JobSpec) {
	var room [maxKeyHolds]keyHold
	for _, h := range kr.of(s, room[:0]) {
		if h.rule.Unit == "" {
			continue
		}
		row := kr.charges.Get(state.ChargeKey(h.count, l.Token.Counter))
		if row == nil || l.Spent[h.rule.Unit] <= row.Amount {
			continue
		}
		kr.charges.Change(row.Key, row).Amount = l.Spent[h.rule.Unit]
		c := kr.counts.Edit(h.count)
		c.Debt.Total = kr.total(c, h.rule)
		kr.settle(c, h.rule)
	}
}

// discharge settles the charge of an attempt that ends: at what it reported; without a report at its estimate, or at 0
// if its handler never began: it was not acknowledged, and did not fail. What happened since the attempt's start is kept with the charge before it. c is
// editable.
func (kr *keyring) discharge(c *state.KeyCountRow, r *state.KeyRuleRow, l *state.LeaseRow) {
	row := kr.charges.Get(state.ChargeKey(c.Key, l.Token.Counter))
	if row == nil {
		return // it started before the rule had this unit
	}
	final, reported := l.Spent[r.Unit]
	switch {
	case !reported && l.Acked.IsZero() && !l.Implied:
		final = 0
	case !reported:
		final = row.Amount
	}
	if planted.refundsTwice() {
		final = max(0, 2*final-row.Amount)
	}
	amount := state.Product(final, r.PeriodMs)
	if before := kr.lastCharge(c.Key, l.Token.Counter-1); before != nil {
		before = kr.charges.Change(before.Key, before)
		before.Then(amount, state.Wide{})
		before.Then(row.Add, row.Least)
	} else {
		c.Debt.Base = row.After(c.Debt.Base.Plus(amount))
	}
	changed := final != row.Amount
	kr.charges.Drop(row.Key)
	if c.Debt.Charges--; changed {
		c.Debt.Total = kr.total(c, r)
	}
}

// forgive forgets the debt of a count; c is editable.
func (kr *keyring) forgive(c *state.KeyCountRow) {
	if c.Debt.Charges > 0 {
		var keys []string
		kr.scanCharges(c.Key, func(r *state.ChargeRow) { keys = append(keys, r.Key) })
		for _, key := range keys {
			kr.charges.Drop(key)
		}
	}
	c.Debt = state.Debt{}
}

// weighedCount is a count with a debt, and its rule.
type weighedCount struct {
	key  string
	rule rota.KeyRule
}

// weighed states the debts of the counts that a rule covers as of now, before the rule changes. Until then they may
// have another rule: that of their name, or of their value.
func (kr *keyring) weighed(id keyRuleID) (list []weighedCount) {
	kr.counts.Scan(func(key string, c *state.KeyCountRow) bool {
		if r := kr.ruleOf(c); r != nil && id.covers(c.Queue, c.Text) && !c.Debt.IsZero() {
			list = append(list, weighedCount{key, r.KeyRule})
		}
		return true
	})
	for _, w := range list {
		c := kr.counts.Edit(w.key)
		kr.advance(c, kr.ruleOf(c))
	}
	return list
}

// reweigh applies the rules that are in force now to debts: one in another unit is forgotten, and one of another period
// is stated in that.
func (kr *keyring) reweigh(list []weighedCount) {
	for _, w := range list {
		c := kr.counts.Edit(w.key)
		r := kr.ruleOf(c)
		if r == nil || r.Unit != w.rule.Unit {
			kr.forgive(c)
			continue
		}
		if r.PeriodMs == w.rule.PeriodMs {
			continue
		}
		c.Debt.Base = c.Debt.Base.Scaled(r.PeriodMs, w.rule.PeriodMs)
		var rows []*state.ChargeRow
		kr.scanCharges(w.key, func(r *state.ChargeRow) { rows = append(rows, r) })
		for _, row := range rows {
			row = kr.charges.Change(row.Key, row)
			row.Add = row.Add.Scaled(r.PeriodMs, w.rule.PeriodMs)
			row.Least = row.Least.Scaled(r.PeriodMs, w.rule.PeriodMs)
		}
		c.Debt.Total = kr.total(c, r)
	}
}

// repaidAt returns when a count with a weighted rate must be reviewed: when the largest job that waits fits, or when
// nothing is owed.
func (kr *keyring) repaidAt(c *state.KeyCountRow, r *state.KeyRuleRow) rota.Clock {
	return c.RepaidAt(r, kr.needed(c, r))
}

// overText describes why a weighted rate lets no job of a count start.
func (kr *keyring) overText(c *state.KeyCountRow, r *state.KeyRuleRow) string {
	need, owed := kr.needed(c, r), kr.owed(c, r).Quotient(r.PeriodMs, math.MaxInt64/4)
	return fmt.Sprintf("key %s has used %s of its burst of %s %s; %s fit at %s", c.Text, rota.Cost(owed),
		rota.Cost(r.BurstCost()), r.Unit, rota.Cost(need), kr.s.Header.Now().At(kr.repaidAt(c, r)).Date)
}

// charges checks the debts and the asks against the rows. Invariant I11.
func (c *checker) charges() {
	kr := &c.m.keyring
	open := int64(0)
	kr.counts.Scan(func(key string, r *state.KeyCountRow) bool {
		rule := kr.ruleOf(r)
		if rule == nil {
			return true // noted elsewhere
		}
		n := int64(0)
		kr.scanCharges(key, func(*state.ChargeRow) { n++ })
		open += n
		if n != r.Debt.Charges || rule.Unit == "" && !r.Debt.IsZero() || n > r.Open {
			c.fault("I11: key %s has %d charges of %d leases, %d are counted", key, n, r.Open, r.Debt.Charges)
		} else if rule.Unit != "" && kr.total(r, rule) != r.Debt.Total {
			c.fault("I11: key %s owes %v, its charges give %v", key, r.Debt.Total, kr.total(r, rule))
		}
		return true
	})
	if open != int64(kr.charges.Len()) {
		c.fault("I11: %d charges are open, %d belong to keys", kr.charges.Len(), open)
	}
	asks := 0
	c.m.JobTable.Scan(func(id rota.JobID, j *state.JobRow) bool {
		if j.State != rota.JobQueued {
			return true
		}
		for _, h := range kr.of(&j.Spec.JobSpec, nil) {
			if h.rule.Unit == "" {
				continue
			}
			asks++
			if _, ok := kr.asks.Get(ask{h.count, h.rule.CostOf(&j.Spec.JobSpec), id}); !ok {
				c.fault("I11: job %s does not ask key %s", id, h.count)
			}
		}
		return true
	})
	if asks != kr.asks.Len() {
		c.fault("I11: %d estimates are filed, jobs have %d", kr.asks.Len(), asks)
	}
}
