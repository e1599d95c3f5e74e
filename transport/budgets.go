package transport

import (
	"cmp"
	"context"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/peer"
)

// budgetsService serves Budgets.
type budgetsService struct {
	rotav1.UnimplementedBudgetsServer
	core BudgetCore
}

// Set sets a budget, or replaces one.
func (s *budgetsService) Set(ctx context.Context, req *rotav1.SetBudgetRequest) (*rotav1.SetBudgetResponse, error) {
	b, err := words.BudgetFromWire(req.GetBudget())
	if err == nil {
		err = b.Check()
	}
	if err != nil {
		return nil, err
	}
	version, err := oneVersion(req.GetIfMatch(), b.ETag)
	if err != nil {
		return nil, err
	}
	if ctx, err = ifMatch(ctx, version); err != nil {
		return nil, err
	}
	b.ETag = ""
	set, err := s.core.SetBudget(ctx, b)
	return &rotav1.SetBudgetResponse{Budget: words.BudgetStateToWire(&set)}, err
}

// Delete deletes a budget.
func (s *budgetsService) Delete(ctx context.Context,
	req *rotav1.DeleteBudgetRequest) (*rotav1.DeleteBudgetResponse, error) {
	ctx, err := ifMatch(ctx, req.GetIfMatch())
	if err != nil {
		return nil, err
	}
	if err := rota.CheckID("name", req.GetName()); err != nil {
		return nil, err
	}
	return &rotav1.DeleteBudgetResponse{}, s.core.DeleteBudget(ctx, rota.BudgetName(req.GetName()))
}

// List reads the budgets by name.
func (s *budgetsService) List(ctx context.Context, req *rotav1.ListBudgetsRequest) (*rotav1.ListBudgetsResponse, error) {
	read := func(ctx context.Context, opt peer.ReadOptions) ([]rota.BudgetState, rota.ReadAt, error) {
		return s.core.Budgets(ctx, req.GetAsking(), opt)
	}
	rows, at, next, err := wholeList(ctx, req, read,
		func(b *rota.BudgetState) string { return string(b.Name) }, words.BudgetStateToWire)
	if err != nil {
		return nil, err
	}
	return &rotav1.ListBudgetsResponse{Budgets: rows, At: at, NextCursor: next}, nil
}

// Get reads one budget.
func (s *budgetsService) Get(ctx context.Context, req *rotav1.GetBudgetRequest) (*rotav1.GetBudgetResponse, error) {
	if err := rota.CheckID("name", req.GetName()); err != nil {
		return nil, err
	}
	b, at, err := s.core.Budget(ctx, rota.BudgetName(req.GetName()), words.ReadFromWire(req.GetRead()))
	if err != nil {
		return nil, err
	}
	return &rotav1.GetBudgetResponse{Budget: words.BudgetStateToWire(&b), At: words.ReadAtToWire(at)}, nil
}

// Accounts reads a page of a budget's accounts.
func (s *budgetsService) Accounts(ctx context.Context,
	req *rotav1.ListBudgetAccountsRequest) (*rotav1.ListBudgetAccountsResponse, error) {
	if err := rota.CheckID("name", req.GetName()); err != nil {
		return nil, err
	}
	if err := checkLimit(req.GetLimit(), req.GetCursor()); err != nil {
		return nil, err
	}
	f := rota.BudgetAccountFilter{Budget: rota.BudgetName(req.GetName()), Of: req.GetOf(), Held: req.GetHeld(),
		Asking: req.GetAsking(), Limit: cmp.Or(int(req.GetLimit()), 100), Cursor: req.GetCursor()}
	opt := words.ReadFromWire(req.GetRead())
	return onePage(&f.Limit, (*rotav1.ListBudgetAccountsResponse).GetAccounts,
		func() (*rotav1.ListBudgetAccountsResponse, error) {
			list, next, at, err := s.core.BudgetAccounts(ctx, f, opt)
			if err != nil {
				return nil, err
			}
			answer := &rotav1.ListBudgetAccountsResponse{At: words.ReadAtToWire(at), NextCursor: next}
			for i := range list {
				answer.Accounts = append(answer.Accounts, words.BudgetAccountToWire(&list[i]))
			}
			return answer, nil
		})
}

// checkChange refuses a change of an account that names no budget, or itself.
func checkChange(req interface {
	GetName() string
	GetOf() string
	GetReason() string
	GetId() string
}) error {
	if err := rota.CheckID("name", req.GetName()); err != nil {
		return err
	}
	if n := len(req.GetReason()); n > limits.MaxReasonBytes {
		return rota.TooLong("reason", n, limits.MaxReasonBytes)
	}
	if n := len(req.GetOf()); n > maxCursorBytes {
		return rota.TooLong("of", n, maxCursorBytes)
	}
	return rota.CheckID("id", req.GetId())
}

// Grant adds to the limit of an account.
func (s *budgetsService) Grant(ctx context.Context, req *rotav1.GrantBudgetRequest) (*rotav1.GrantBudgetResponse, error) {
	if err := checkChange(req); err != nil {
		return nil, err
	}
	a, err := s.core.GrantBudget(ctx, rota.BudgetName(req.GetName()), req.GetOf(),
		rota.BudgetChange{ID: req.GetId(), Amount: rota.Cost(req.GetAmount()), Reason: req.GetReason()})
	return &rotav1.GrantBudgetResponse{Account: words.BudgetAccountToWire(&a)}, err
}

// Reset clears the amounts spent.
func (s *budgetsService) Reset(ctx context.Context, req *rotav1.ResetBudgetRequest) (*rotav1.ResetBudgetResponse, error) {
	if err := checkChange(req); err != nil {
		return nil, err
	}
	return &rotav1.ResetBudgetResponse{}, s.core.ResetBudget(ctx, rota.BudgetName(req.GetName()), req.GetOf(),
		req.GetAll(), rota.BudgetChange{ID: req.GetId(), Reason: req.GetReason()})
}
