package state

import (
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
)

// BudgetRow is a budget and its present period (SPEC §30.5).
type BudgetRow struct {
	RowMeta
	// Spec never changes, and has no ETag.
	Spec *rota.Budget
	// Version is the entry that set its periods. Since is when the period began, Until when it ends; 0 if no end is known.
	Version      rota.Index
	Since, Until rota.Date
	// Resets are the ids of the newest resets, oldest first; a stored list never changes.
	Resets []string
}

// TreeKey returns the row's key in its table.
func (r *BudgetRow) TreeKey() rota.BudgetName { return r.Spec.Name }

func encodeBudget(e *Encoder, b *rota.Budget) {
	e.Str(string(b.Tenant))
	e.Str(string(b.Queue))
	e.Str(b.Key)
	e.Uint(uint64(b.Each))
	e.Str(b.Unit)
	e.Int(int64(b.Limit))
	e.Int(int64(b.DefaultCost))
	e.Uint(uint64(b.Every))
	e.Str(b.TZ)
	e.Int(b.WarnPermille)
	e.Uint(uint64(b.Then))
	e.Bool(b.Stop)
}

// ETag returns the version of the budget's settings.
func (r *BudgetRow) ETag() string { return EtagOf(func(e *Encoder) { encodeBudget(e, r.Spec) }) }

// Canonical appends the canonical form for digests and snapshots.
func (r *BudgetRow) Canonical(e *Encoder) {
	e.Str(string(r.Spec.Name))
	encodeBudget(e, r.Spec)
	e.Uint(uint64(r.Version))
	e.Int(int64(r.Since))
	e.Int(int64(r.Until))
	e.strs(r.Resets)
}

// DecodeBudget reads what Canonical wrote.
func DecodeBudget(d *Decoder) *BudgetRow {
	r := &BudgetRow{Spec: &rota.Budget{Name: rota.BudgetName(d.Str()), Tenant: rota.TenantID(d.Str()),
		Queue: rota.QueueName(d.Str()), Key: d.Str(), Each: rota.BudgetEach(d.Enum(uint64(rota.EachJob))),
		Unit: d.Str(), Limit: rota.Cost(d.Int()), DefaultCost: rota.Cost(d.Int()),
		Every: rota.BudgetPeriod(d.Enum(uint64(rota.EveryMonth))), TZ: d.Str(), WarnPermille: d.Int(),
		Then: rota.BudgetThen(d.Enum(uint64(rota.ThenWarn))), Stop: d.Bool()}}
	r.Version, r.Since, r.Until = rota.Index(d.Uint()), rota.Date(d.Int()), rota.Date(d.Int())
	r.Resets = d.strs()
	if d.Err == nil && (r.Spec.Check() != nil || len(r.Resets) > limits.MaxBudgetChanges) {
		d.Fail()
	}
	return r
}

// owner returns no owner: a budget belongs to no tenant's bytes.
func (r *BudgetRow) owner() (rota.QueueName, rota.TenantID) { return "", "" }

// Besides returns the size of the data that the row stores as a hash.
func (r *BudgetRow) Besides() int64 { return 0 }

// Account holds the sums of an account. The zero value is an account from which nothing was spent.
type Account struct {
	// Spent is the use of ended attempts in this period, Reserved the charges of the open ones: the greater of
	// estimate and report. Their sums may exceed 64 bits.
	Spent, Reserved Int128
	// Granted was added to the limit in this period.
	Granted int64
	// Warned, Full and Short report that the events of the period were emitted: that the amount of the warning is used,
	// that nothing is left, that a job does not fit.
	Warned, Full, Short bool
	// Changes are the newest grants, oldest first; a stored list never changes.
	Changes []rota.BudgetChange
}

// Idle reports whether nothing distinguishes the account from a new one.
func (a *Account) Idle() bool {
	return a.Spent.IsZero() && a.Reserved.IsZero() && a.Granted == 0 && !a.Warned && !a.Full && !a.Short && len(a.Changes) == 0
}

// Left returns the amount left of a limit, in millionths; negative if more was spent.
func (a *Account) Left(limit int64) int64 {
	left := Product(limit, 1).Plus(Product(a.Granted, 1)).Minus(a.Spent).Minus(a.Reserved)
	if left.Hi < 0 {
		return -Int128{}.Minus(left).Quotient(1, 2*rota.MaxCost)
	}
	return left.Quotient(1, 2*rota.MaxCost)
}

// Grant returns the grant of an id, nil if it is not known.
func (a *Account) Grant(id string) *rota.BudgetChange {
	for i := range a.Changes {
		if a.Changes[i].ID == id {
			return &a.Changes[i]
		}
	}
	return nil
}

// Begin begins a period: reservations stay, and the grants that a client may still repeat are known.
func (a *Account) Begin(now rota.Date) {
	recent := slices.IndexFunc(a.Changes, func(c rota.BudgetChange) bool { return c.At > now-limits.GrantMemory })
	if recent < 0 {
		recent = len(a.Changes)
	}
	*a = Account{Reserved: a.Reserved, Changes: slices.Clip(a.Changes[recent:])}
	if len(a.Changes) == 0 {
		a.Changes = nil
	}
}

// withLast returns a list of at most MaxBudgetChanges with another element at its end.
func withLast[T any](list []T, last T) []T {
	return append(slices.Clip(list[max(0, len(list)-limits.MaxBudgetChanges+1):]), last)
}

// Note adds a grant.
func (a *Account) Note(c rota.BudgetChange) { a.Changes = withLast(a.Changes, c) }

// NoteReset adds the id of a reset; r is editable.
func (r *BudgetRow) NoteReset(id string) { r.Resets = withLast(r.Resets, id) }

// AccountRow is an account that is not idle.
type AccountRow struct {
	RowMeta
	// Key is the AccountKey, the key of the row.
	Key    string
	Budget rota.BudgetName
	// Of is the tenant, key, workflow or job that it belongs to, "" if the budget has one account.
	Of string
	Account
}

// AccountKey returns the key of an account: no name of a budget contains that byte.
func AccountKey(budget rota.BudgetName, of string) string { return string(budget) + "\x01" + of }

// TreeKey returns the row's key in its table.
func (r *AccountRow) TreeKey() string { return r.Key }

// Canonical appends the canonical form for digests and snapshots.
func (r *AccountRow) Canonical(e *Encoder) {
	e.Str(string(r.Budget))
	e.Str(r.Of)
	e.Int128(r.Spent)
	e.Int128(r.Reserved)
	e.Int(r.Granted)
	e.Bool(r.Warned)
	e.Bool(r.Full)
	e.Bool(r.Short)
	e.Uint(uint64(len(r.Changes)))
	for _, c := range r.Changes {
		e.Str(c.ID)
		e.Int(int64(c.Amount))
		e.Str(c.Reason)
		e.Str(string(c.By))
		e.Int(int64(c.At))
	}
}

// DecodeAccount reads what Canonical wrote.
func DecodeAccount(d *Decoder) *AccountRow {
	r := &AccountRow{Budget: rota.BudgetName(d.Str()), Of: d.Str(), Account: Account{Spent: d.Int128(),
		Reserved: d.Int128(), Granted: d.Int(), Warned: d.Bool(), Full: d.Bool(), Short: d.Bool()}}
	for range d.Count(limits.MaxBudgetChanges) {
		r.Changes = append(r.Changes, rota.BudgetChange{ID: d.Str(), Amount: rota.Cost(d.Int()), Reason: d.Str(),
			By: rota.Principal(d.Str()), At: rota.Date(d.Int())})
	}
	if r.Idle() || r.Spent.Hi < 0 || r.Reserved.Hi < 0 || r.Granted < 0 || r.Granted > rota.MaxCost {
		d.Fail()
	}
	r.Key = AccountKey(r.Budget, r.Of)
	return r
}

// owner returns no owner, as for counts of keys.
func (r *AccountRow) owner() (rota.QueueName, rota.TenantID) { return "", "" }

// Besides returns the size of the data that the row stores as a hash.
func (r *AccountRow) Besides() int64 { return 0 }

// Empty returns when nothing is left of an account if it is spent as fast as since the period began, 0 if that is not
// before the period's end.
func (r *BudgetRow) Empty(a *Account, now rota.Date) rota.Date {
	used := a.Spent.Plus(a.Reserved).Quotient(1, 2*rota.MaxCost)
	left, passed := a.Left(int64(r.Spec.Limit)), int64(now-r.Since)
	if left <= 0 || used == 0 || passed <= 0 {
		return 0
	}
	at := now + rota.Date(Product(left, passed).Quotient(used, maxDrain))
	if at >= now+maxDrain || r.Until != 0 && at >= r.Until {
		return 0
	}
	return at
}
