package foresight

import (
	"fmt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/cron"
)

// oldestDate is the first moment of a load that counts as a date, in ms: the year 2000.
const oldestDate = 946_684_800_000

// epoch returns where the clock starts. Budgets have calendar periods, so loads with dates keep them.
func (l *Life) epoch() int64 {
	if l.Limits != nil && l.Jobs[0].Submit >= oldestDate {
		return l.Jobs[0].Submit
	}
	return epoch
}

// limit sets the rules of keys and the budgets.
func (d *driver) limit() error {
	if d.Limits == nil {
		return nil
	}
	for i := range d.Limits.Keys {
		r := &d.Limits.Keys[i]
		if err := d.apply(d.epoch, []*fsmpb.Op{fsm.SetKeyRuleOp(r)}); err != nil {
			return fmt.Errorf("keys[%d] (%s): %w", i, r.Name, err)
		}
	}
	for i := range d.Limits.Budgets {
		b := &d.Limits.Budgets[i]
		if err := d.apply(d.epoch, []*fsmpb.Op{fsm.SetBudgetOp(b)}); err != nil {
			return fmt.Errorf("budgets[%d] (%s): %w", i, b.Name, err)
		}
	}
	return d.turnBudgets(d.epoch)
}

// turnDue returns when the next period of a budget begins, never if there is none.
func (d *driver) turnDue() int64 {
	due := int64(never)
	if d.Limits == nil {
		return due
	}
	for _, b := range fsm.BudgetsWithPeriods(&d.m.View) {
		due = min(due, int64(b.Until))
	}
	return due
}

// turnBudgets begins the periods that are due, as the leader does.
func (d *driver) turnBudgets(at int64) error {
	if d.Limits == nil {
		return nil
	}
	for _, b := range fsm.BudgetsWithPeriods(&d.m.View) {
		if int64(b.Until) > at {
			continue
		}
		table, err := cron.Embedded().Of(&b.Times, 0)
		if err != nil {
			return err
		}
		since, until, ok := cron.Period(table, at)
		if !ok {
			return fmt.Errorf("budget %s: it has no period at %s", b.Name, rota.Date(at))
		}
		op := fsm.TurnBudgetOp(&b, max(rota.Date(since), b.Until), rota.Date(until), cron.Embedded().Name())
		if err := d.apply(at, []*fsmpb.Op{op}); err != nil {
			return err
		}
	}
	return nil
}

// maxIdle returns the number of ticks after which jobs that wait are given up. Each tick at which a key or a budget has
// room again may be the one for a job; when all have come again and again, none is.
func (d *driver) maxIdle() int {
	if d.Limits == nil {
		return maxIdle
	}
	return 100 * (1 + len(d.Limits.Keys) + len(d.Limits.Budgets))
}

// refused takes note of a job whose submission was refused by a limit. It returns any other error.
func (d *driver) refused(i int, err error) error {
	if d.Limits == nil || rota.KindOf(err) != rota.KindExhausted {
		return err
	}
	d.fates[i].Refused = true
	d.end(i, d.now)
	return nil
}
