package web

import (
	"context"
	"net/http"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/rest"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
)

// budgetCalls serves the calls of budgets.
type budgetCalls struct{ *Site }

func (s *Site) budgets() {
	c := budgetCalls{s}
	const all, one = "/v1/budgets", "/v1/budgets/{id}"
	add(s, route{method: http.MethodGet, path: all, call: rotav1.Budgets_List_FullMethodName, id: "listBudgets",
		says: "List the budgets by name, with the sums of their accounts"}, c.list)
	add(s, route{method: http.MethodGet, path: one, call: rotav1.Budgets_Get_FullMethodName, id: "getBudget",
		says: "Read a budget"}, c.get)
	add(s, route{method: http.MethodPut, path: one, call: rotav1.Budgets_Set_FullMethodName, id: "setBudget",
		says: "Create a budget, or replace it; the spent amount stays while jobs and unit are the same"},
		c.set)
	add(s, route{method: http.MethodDelete, path: one, call: rotav1.Budgets_Delete_FullMethodName, id: "deleteBudget",
		says: "Delete a budget, and its accounts"}, c.delete)
	add(s, route{method: http.MethodGet, path: one + "/accounts", call: rotav1.Budgets_Accounts_FullMethodName,
		id: "listBudgetAccounts", says: "List the accounts of a budget in the present period"}, c.accounts)
	add(s, route{method: http.MethodPost, path: one + "/grant", call: rotav1.Budgets_Grant_FullMethodName,
		id: "grantBudget", says: "Add to the limit of an account for the present period, once for each id"}, c.grant)
	add(s, route{method: http.MethodPost, path: one + "/reset", call: rotav1.Budgets_Reset_FullMethodName,
		id: "resetBudget", says: "Forget the spent and granted amounts in the present period"}, c.reset)
}

// BudgetList holds the parameters of a list of budgets.
type BudgetList struct {
	List
	Asking bool `query:"asking" doc:"Only budgets with an open question."`
}

func (s budgetCalls) list(ctx context.Context, in *BudgetList) (*Answer[rest.Budgets], error) {
	read, err := in.wire()
	if err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Budgets.List(ctx, &rotav1.ListBudgetsRequest{Read: read, Limit: in.Limit,
		Cursor: in.Cursor, Asking: in.Asking})
	if err != nil {
		return nil, err
	}
	rows, err := listed(got.GetBudgets(), words.BudgetStateFromWire)
	return answer(rest.Budgets{Budgets: rows, NextCursor: got.GetNextCursor()}, got.GetAt()), err
}

func (s budgetCalls) get(ctx context.Context, in *One) (*Versioned[rota.BudgetState], error) {
	read, err := in.wire()
	if err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Budgets.Get(ctx, &rotav1.GetBudgetRequest{Name: in.ID, Read: read})
	if err != nil {
		return nil, err
	}
	b, err := words.BudgetStateFromWire(got.GetBudget())
	return versioned(b, b.ETag, got.GetAt()), err
}

func (s budgetCalls) set(ctx context.Context, in *VersionSetting[rota.Budget]) (*Versioned[rota.BudgetState], error) {
	version, err := in.version()
	if err != nil {
		return nil, err
	}
	b, err := in.Given.read()
	if err != nil {
		return nil, err
	}
	if err := sameID(string(b.Name), in.ID); err != nil {
		return nil, err
	}
	b.Name = rota.BudgetName(in.ID)
	got, err := s.options.Calls.Budgets.Set(ctx, &rotav1.SetBudgetRequest{Budget: words.BudgetToWire(&b),
		IfMatch: version})
	if err != nil {
		return nil, err
	}
	state, err := words.BudgetStateFromWire(got.GetBudget())
	return versioned(state, state.ETag, nil), err
}

func (s budgetCalls) delete(ctx context.Context, in *NamedVersion) (*Answer[rest.Deleted], error) {
	version, err := in.version()
	if err != nil {
		return nil, err
	}
	_, err = s.options.Calls.Budgets.Delete(ctx, &rotav1.DeleteBudgetRequest{Name: in.ID, IfMatch: version})
	return answer(rest.Deleted{}, nil), err
}

// AccountList holds the parameters of a list of accounts.
type AccountList struct {
	Named
	List
	Of     string `query:"of" maxLength:"512" doc:"Only the account of this tenant, key, workflow or job."`
	Held   bool   `query:"held" doc:"Only accounts that hold jobs back."`
	Asking bool   `query:"asking" doc:"Only open questions."`
}

func (s budgetCalls) accounts(ctx context.Context, in *AccountList) (*Answer[rest.BudgetAccounts], error) {
	read, err := in.wire()
	if err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Budgets.Accounts(ctx, &rotav1.ListBudgetAccountsRequest{Read: read, Limit: in.Limit,
		Cursor: in.Cursor, Name: in.ID, Of: in.Of, Held: in.Held, Asking: in.Asking})
	if err != nil {
		return nil, err
	}
	rows, err := listed(got.GetAccounts(), words.BudgetAccountFromWire)
	return answer(rest.BudgetAccounts{Accounts: rows, NextCursor: got.GetNextCursor()}, got.GetAt()), err
}

func (s budgetCalls) grant(ctx context.Context, in *Setting[rest.BudgetGrant]) (*Answer[rota.BudgetAccount], error) {
	body, err := in.Given.read()
	if err != nil {
		return nil, err
	}
	got, err := s.options.Calls.Budgets.Grant(ctx, &rotav1.GrantBudgetRequest{Name: in.ID, Of: body.Of,
		Amount: int64(body.Amount), Reason: body.Reason, Id: body.ID})
	if err != nil {
		return nil, err
	}
	a, err := words.BudgetAccountFromWire(got.GetAccount())
	return answer(a, nil), err
}

func (s budgetCalls) reset(ctx context.Context, in *Setting[rest.BudgetReset]) (*Answer[rest.Done], error) {
	body, err := in.Given.read()
	if err != nil {
		return nil, err
	}
	_, err = s.options.Calls.Budgets.Reset(ctx, &rotav1.ResetBudgetRequest{Name: in.ID, Of: body.Of, All: body.All,
		Reason: body.Reason, Id: body.ID})
	return answer(rest.Done{}, nil), err
}
