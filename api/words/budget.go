package words

import (
	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
)

// BudgetToWire returns a budget as it is sent.
func BudgetToWire(b *rota.Budget) *rotav1.Budget {
	return &rotav1.Budget{Name: string(b.Name), Tenant: string(b.Tenant), Queue: string(b.Queue), Key: b.Key,
		Each: b.Each.String(), Unit: b.Unit, Limit: int64(b.Limit), DefaultCost: int64(b.DefaultCost),
		Every: b.Every.String(), Tz: b.TZ, WarnPermille: b.WarnPermille, Then: b.Then.String(), Stop: b.Stop,
		Etag: b.ETag}
}

// BudgetFromWire is the inverse of BudgetToWire.
func BudgetFromWire(w *rotav1.Budget) (rota.Budget, error) {
	b := rota.Budget{Name: rota.BudgetName(w.GetName()), Tenant: rota.TenantID(w.GetTenant()),
		Queue: rota.QueueName(w.GetQueue()), Key: w.GetKey(), Unit: w.GetUnit(), Limit: rota.Cost(w.GetLimit()),
		DefaultCost: rota.Cost(w.GetDefaultCost()), TZ: w.GetTz(), WarnPermille: w.GetWarnPermille(),
		Stop: w.GetStop(), ETag: w.GetEtag()}
	var err error
	if b.Each, err = rota.ParseBudgetEach(w.GetEach()); err != nil {
		return b, err
	}
	if b.Every, err = rota.ParseBudgetPeriod(w.GetEvery()); err != nil {
		return b, err
	}
	b.Then, err = rota.ParseBudgetThen(w.GetThen())
	return b, err
}

// BudgetStateToWire returns a budget and what it holds as it is sent.
func BudgetStateToWire(b *rota.BudgetState) *rotav1.BudgetState {
	return &rotav1.BudgetState{Budget: BudgetToWire(&b.Budget), SinceMs: int64(b.Since), UntilMs: int64(b.Until),
		Accounts: b.Accounts, Spent: int64(b.Spent), Reserved: int64(b.Reserved), Granted: int64(b.Granted),
		Held: b.Held, Asking: b.Asking}
}

// BudgetStateFromWire is the inverse of BudgetStateToWire.
func BudgetStateFromWire(w *rotav1.BudgetState) (rota.BudgetState, error) {
	b, err := BudgetFromWire(w.GetBudget())
	return rota.BudgetState{Budget: b, Since: rota.Date(w.GetSinceMs()), Until: rota.Date(w.GetUntilMs()),
		Accounts: w.GetAccounts(), Spent: rota.Cost(w.GetSpent()), Reserved: rota.Cost(w.GetReserved()),
		Granted: rota.Cost(w.GetGranted()), Held: w.GetHeld(), Asking: w.GetAsking()}, err
}

// BudgetStatesFromWire converts a list of budgets.
func BudgetStatesFromWire(w []*rotav1.BudgetState) ([]rota.BudgetState, error) {
	return tryEach(w, BudgetStateFromWire)
}

// BudgetAccountToWire returns an account as it is sent.
func BudgetAccountToWire(a *rota.BudgetAccount) *rotav1.BudgetAccount {
	w := &rotav1.BudgetAccount{Budget: string(a.Budget), Of: a.Of, Limit: int64(a.Limit), Spent: int64(a.Spent),
		Reserved: int64(a.Reserved), Left: int64(a.Left), Granted: int64(a.Granted), Waiting: a.Waiting, Held: a.Held,
		Warned: a.Warned, Full: a.Full, Asks: a.Asks, EmptyMs: int64(a.Empty)}
	for _, c := range a.Changes {
		w.Changes = append(w.Changes, &rotav1.BudgetChange{Id: c.ID, Amount: int64(c.Amount), Reason: c.Reason,
			By: string(c.By), AtMs: int64(c.At)})
	}
	return w
}

// BudgetAccountFromWire is the inverse of BudgetAccountToWire.
func BudgetAccountFromWire(w *rotav1.BudgetAccount) (rota.BudgetAccount, error) {
	a := rota.BudgetAccount{Budget: rota.BudgetName(w.GetBudget()), Of: w.GetOf(), Limit: rota.Cost(w.GetLimit()),
		Spent: rota.Cost(w.GetSpent()), Reserved: rota.Cost(w.GetReserved()), Left: rota.Cost(w.GetLeft()),
		Granted: rota.Cost(w.GetGranted()), Waiting: w.GetWaiting(), Held: w.GetHeld(), Warned: w.GetWarned(),
		Full: w.GetFull(), Asks: w.GetAsks(), Empty: rota.Date(w.GetEmptyMs())}
	for _, c := range w.GetChanges() {
		a.Changes = append(a.Changes, rota.BudgetChange{ID: c.GetId(), Amount: rota.Cost(c.GetAmount()),
			Reason: c.GetReason(), By: rota.Principal(c.GetBy()), At: rota.Date(c.GetAtMs())})
	}
	return a, nil
}

// BudgetAccountsFromWire converts a list of accounts.
func BudgetAccountsFromWire(w []*rotav1.BudgetAccount) ([]rota.BudgetAccount, error) {
	return tryEach(w, BudgetAccountFromWire)
}
