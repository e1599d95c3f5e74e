package client

import (
	"cmp"
	"context"
	"iter"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// Budgets sets and reads how much of a cost jobs may spend in a period (SPEC §30.5).
type Budgets struct{ c *Client }

// Budgets returns the calls for budgets.
func (c *Client) Budgets() Budgets { return Budgets{c} }

// Set sets a budget, or replaces the budget of that name. The spent amount stays, unless the new budget limits other
// jobs or another unit; open attempts count at once. A budget with an ETag replaces only that version.
func (b Budgets) Set(ctx context.Context, budget rota.Budget, only ...Condition) (rota.BudgetState, error) {
	var state rota.BudgetState
	err := b.c.call(ctx, "set budget", maxAnswer, func(ctx context.Context, n *node) error {
		answer, err := n.budgets.Set(ctx, &rotav1.SetBudgetRequest{Budget: words.BudgetToWire(&budget),
			IfMatch: etagOf(only)})
		if err == nil {
			state, err = words.BudgetStateFromWire(answer.GetBudget())
		}
		return err
	})
	return state, err
}

// Delete deletes a budget and its accounts; a missing one is not an error.
func (b Budgets) Delete(ctx context.Context, name rota.BudgetName, only ...Condition) error {
	return b.c.call(ctx, "delete budget", maxAnswer, func(ctx context.Context, n *node) error {
		_, err := n.budgets.Delete(ctx, &rotav1.DeleteBudgetRequest{Name: string(name), IfMatch: etagOf(only)})
		return err
	})
}

// List lists the budgets by name, with the sums of their accounts.
func (b Budgets) List(ctx context.Context, opts ...ReadOption) iter.Seq2[rota.BudgetState, error] {
	return b.list(ctx, false, opts)
}

// Asking lists the budgets with open questions, by name; each of their accounts with Asking set is a question.
func (b Budgets) Asking(ctx context.Context, opts ...ReadOption) iter.Seq2[rota.BudgetState, error] {
	return b.list(ctx, true, opts)
}

func (b Budgets) list(ctx context.Context, asking bool, opts []ReadOption) iter.Seq2[rota.BudgetState, error] {
	return list(ctx, b.c, "list budgets", 0, "", opts,
		func(ctx context.Context, n *node, p page) (got pageOf[rota.BudgetState], err error) {
			answer, err := n.budgets.List(ctx, &rotav1.ListBudgetsRequest{Read: words.ReadToWire(p.read),
				Limit: int32(p.limit), Cursor: p.cursor, Asking: asking})
			if err != nil {
				return got, err
			}
			got.items, err = words.BudgetStatesFromWire(answer.GetBudgets())
			got.next, got.at = answer.GetNextCursor(), answer.GetAt()
			return got, err
		})
}

// Get reads a budget.
func (b Budgets) Get(ctx context.Context, name rota.BudgetName, opts ...ReadOption) (rota.BudgetState, error) {
	ask := func(ctx context.Context, n *node, how *rotav1.Read) (*rotav1.GetBudgetResponse, error) {
		return n.budgets.Get(ctx, &rotav1.GetBudgetRequest{Name: string(name), Read: how})
	}
	from := func(w *rotav1.GetBudgetResponse) (rota.BudgetState, error) {
		return words.BudgetStateFromWire(w.GetBudget())
	}
	return read(ctx, b.c, "show budget", opts, from, ask)
}

// Accounts lists the accounts of a budget in the present period, by owner.
func (b Budgets) Accounts(ctx context.Context, f rota.BudgetAccountFilter,
	opts ...ReadOption) iter.Seq2[rota.BudgetAccount, error] {
	return list(ctx, b.c, "list budget accounts", f.Limit, f.Cursor, opts,
		func(ctx context.Context, n *node, p page) (got pageOf[rota.BudgetAccount], err error) {
			answer, err := n.budgets.Accounts(ctx, &rotav1.ListBudgetAccountsRequest{Read: words.ReadToWire(p.read),
				Limit: int32(p.limit), Cursor: p.cursor, Name: string(f.Budget), Of: f.Of, Held: f.Held,
				Asking: f.Asking})
			if err != nil {
				return got, err
			}
			got.items, err = words.BudgetAccountsFromWire(answer.GetAccounts())
			got.next, got.at = answer.GetNextCursor(), answer.GetAt()
			return got, err
		})
}

// Grant adds an amount to the limit of an account for the present period, and returns the account. of is the tenant,
// key, workflow or job of the account, "" if the budget has one. A grant with an ID is made once; without one, the
// client names it, and repeats it safely.
func (b Budgets) Grant(ctx context.Context, name rota.BudgetName, of string, grant rota.BudgetChange) (rota.BudgetAccount,
	error) {
	id := cmp.Or(grant.ID, string(NewJobID()))
	var account rota.BudgetAccount
	err := b.c.call(ctx, "grant budget", maxAnswer, func(ctx context.Context, n *node) error {
		answer, err := n.budgets.Grant(ctx, &rotav1.GrantBudgetRequest{Name: string(name), Of: of,
			Amount: int64(grant.Amount), Reason: grant.Reason, Id: id})
		if err == nil {
			account, err = words.BudgetAccountFromWire(answer.GetAccount())
		}
		return err
	})
	return account, err
}

// Reset forgets the spent and granted amounts in the present period: those of one account, or if all is set, of all
// accounts of the budget. For of and the ID see Grant.
func (b Budgets) Reset(ctx context.Context, name rota.BudgetName, of string, all bool, reset rota.BudgetChange) error {
	id := cmp.Or(reset.ID, string(NewJobID()))
	return b.c.call(ctx, "reset budget", maxAnswer, func(ctx context.Context, n *node) error {
		_, err := n.budgets.Reset(ctx, &rotav1.ResetBudgetRequest{Name: string(name), Of: of, All: all,
			Reason: reset.Reason, Id: id})
		return err
	})
}
