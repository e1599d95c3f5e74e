package state

import (
	"encoding/binary"

	"github.com/rotasched/rota"
)

// Debt is the state of a weighted rate: what the starts of a key have used of its unit, and time has not yet repaid
// (SPEC §30.2). Amounts are products of millionths and the period in ms, so that a ms repays exactly the rate.
type Debt struct {
	// At is the time as of which the debt is stated.
	At rota.Clock
	// Total is the whole debt, Base the rest of it when the oldest open charge began, or all of it without one.
	Total, Base Int128
	// Charges counts the open charges.
	Charges int64
}

// IsZero reports whether nothing is owed and no charge is open.
func (d Debt) IsZero() bool { return d.Charges == 0 && d.Total.IsZero() }

func (d *Debt) canonical(e *Encoder) {
	e.Int(int64(d.At))
	e.Int128(d.Total)
	e.Int128(d.Base)
	e.Int(d.Charges)
}

func decodeDebt(d *Decoder) (debt Debt) {
	if len(d.B) == 0 {
		return debt
	}
	debt = Debt{At: rota.Clock(d.Int()), Total: d.Int128(), Base: d.Int128(), Charges: d.Int()}
	if debt.IsZero() && len(d.B) == 0 || debt.Charges < 0 || debt.Total.Hi < 0 || debt.Base.Hi < 0 {
		d.Fail()
	}
	return debt
}

// Repaid returns the rest of a debt after a number of ms at a rate in millionths per period.
func Repaid(debt Int128, rate int64, ms rota.Clock) Int128 {
	return debt.Minus(Product(rate, int64(ms))).Max(Int128{})
}

// ChargeRow is what the start of an attempt added to the debt of a key, while the attempt is open. What happened
// between its start and the next open charge's is a function of the debt just after its start: max(debt + Add, Least).
// So a report that replaces the amount changes the debt as if it had been known from the start.
type ChargeRow struct {
	RowMeta
	// Key is the ChargeKey, the key of the row.
	Key string
	// Count is the KeyCountKey of the key, Number the counter of the attempt's fencing token, which orders starts.
	Count  string
	Number uint64
	// Amount is the present charge in millionths.
	Amount int64
	Add    Int128
	Least  Int128
}

// ChargeKey returns the key of a charge: the count's, a zero byte, and the number. No key contains a zero byte.
func ChargeKey(count string, number uint64) string {
	b := make([]byte, 0, len(count)+9)
	b = append(append(b, count...), 0)
	return string(binary.BigEndian.AppendUint64(b, number))
}

// TreeKey returns the row's key in its table.
func (r *ChargeRow) TreeKey() string { return r.Key }

// After returns the debt at the end of the charge's span, given the debt just after its start.
func (r *ChargeRow) After(debt Int128) Int128 { return debt.Plus(r.Add).Max(r.Least) }

// Then appends max(debt + add, least) to the span.
func (r *ChargeRow) Then(add, least Int128) {
	r.Add, r.Least = r.Add.Plus(add), r.Least.Plus(add).Max(least)
}

// Canonical appends the canonical form for digests and snapshots.
func (r *ChargeRow) Canonical(e *Encoder) {
	e.Str(r.Count)
	e.Uint(r.Number)
	e.Int(r.Amount)
	e.Int128(r.Add)
	e.Int128(r.Least)
}

// DecodeCharge reads what Canonical wrote.
func DecodeCharge(d *Decoder) *ChargeRow {
	r := &ChargeRow{Count: d.Str(), Number: d.Uint(), Amount: d.Int(), Add: d.Int128(), Least: d.Int128()}
	if r.Amount < 0 || r.Least.Hi < 0 {
		d.Fail()
	}
	r.Key = ChargeKey(r.Count, r.Number)
	return r
}

// owner returns no owner, as for counts of keys.
func (r *ChargeRow) owner() (rota.QueueName, rota.TenantID) { return "", "" }

// Besides returns the size of the data that the row stores as a hash.
func (r *ChargeRow) Besides() int64 { return 0 }

// Owed returns the debt of a count under its rule, times the period.
func (r *KeyCountRow) Owed(rule *KeyRuleRow, now rota.Clock) Int128 {
	return Repaid(r.Debt.Total, rule.RateCost(), now-r.Debt.At)
}

// Fits reports whether an amount fits below the burst of a weighted rate.
func (r *KeyCountRow) Fits(rule *KeyRuleRow, amount int64, now rota.Clock) bool {
	burst := rule.BurstCost()
	return burst-min(amount, burst) >= r.Owed(rule, now).Quotient(rule.PeriodMs, rota.MaxCost*2)
}

// RepaidAt returns when a count with a weighted rate must be reviewed: when the amount that its jobs wait for fits below
// the burst, or when nothing is owed; 0 for never.
func (r *KeyCountRow) RepaidAt(rule *KeyRuleRow, need int64) rota.Clock {
	var target Int128
	stopped, _ := r.Stopped(rule)
	switch {
	case r.Debt.Total.IsZero():
		return 0
	case r.Full && !stopped && !rule.Taken(r):
		target = Product(rule.BurstCost()-need, rule.PeriodMs)
	case r.Debt.Charges > 0:
		return 0 // it is settled when one of them ends
	}
	over := r.Debt.Total.Minus(target).Max(Int128{})
	return r.Debt.At + rota.Clock(over.Quotient(rule.RateCost(), maxDrain))
}

// maxDrain bounds the dates of reviews: a hundred years, which no cluster reaches.
const maxDrain = 100 * 365 * 24 * 3600 * 1000
