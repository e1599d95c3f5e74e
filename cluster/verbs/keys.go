package verbs

import (
	"context"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/replica"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/peer"
)

// SetKeyRule sets the limits for the jobs of a key.
func (pv *PolicyVerbs) SetKeyRule(ctx context.Context, r rota.KeyRule) (rota.KeyRule, error) {
	if err := r.Check(); err != nil {
		return r, err
	}
	_, index, err := pv.n.ProposeOne(ctx, fsm.SetKeyRuleOp(&r))
	if err != nil {
		return r, err
	}
	r.ETag = "" // the rule may have changed since
	_, _, err = replica.Read(access.Itself(ctx), pv.n.Replica, peer.ReadOptions{MinIndex: index},
		func(s *fsm.View) (struct{}, error) {
			for _, now := range fsm.KeyRules(s) {
				if now.Queue == r.Queue && now.Name == r.Name && now.Value == r.Value {
					r = now
				}
			}
			return struct{}{}, nil
		})
	return r, err
}

// DeleteKeyRule deletes a rule; deleting a missing one is not an error.
func (pv *PolicyVerbs) DeleteKeyRule(ctx context.Context, queue rota.QueueName, name, value string) error {
	return pv.delete(ctx, fsm.DeleteKeyRuleOp(queue, name, value))
}

// SkipKey lets a sequence continue after the job that blocks it.
func (pv *PolicyVerbs) SkipKey(ctx context.Context, queue rota.QueueName, tenant rota.TenantID, key string,
	job rota.JobID) error {
	return pv.delete(ctx, fsm.SkipKeyOp(queue, tenant, key, job))
}

// PauseKey holds the jobs of a key until a date, or until it is resumed if that is 0.
func (pv *PolicyVerbs) PauseKey(ctx context.Context, queue rota.QueueName, tenant rota.TenantID, key string,
	until rota.Date, reason string) error {
	return pv.delete(ctx, fsm.PauseKeyOp(queue, tenant, key, until, reason))
}

// ResumeKey ends the pause of a key, and closes its breaker.
func (pv *PolicyVerbs) ResumeKey(ctx context.Context, queue rota.QueueName, tenant rota.TenantID, key string) error {
	return pv.delete(ctx, fsm.ResumeKeyOp(queue, tenant, key))
}

// KeyRules lists the rules of keys.
func (pv *PolicyVerbs) KeyRules(ctx context.Context, opt peer.ReadOptions) ([]rota.KeyRule, rota.ReadAt, error) {
	return replica.ReadAs(ctx, pv.n.Replica, opt, func(s *fsm.View, rd *access.Reader) ([]rota.KeyRule, error) {
		return slices.DeleteFunc(fsm.KeyRules(s), func(r rota.KeyRule) bool {
			return !rd.Reads(access.Everything, orAll(r.Queue))
		}), nil
	})
}

// Key reads the counts of a tenant's key, under each rule that applies to it.
func (pv *PolicyVerbs) Key(ctx context.Context, tenant rota.TenantID, key string,
	opt peer.ReadOptions) ([]rota.KeyState, rota.ReadAt, error) {
	return replica.ReadAs(ctx, pv.n.Replica, opt, func(s *fsm.View, rd *access.Reader) ([]rota.KeyState, error) {
		return fsm.KeyStates(s, tenant, key, func(k *rota.KeyState) bool {
			return rd.Reads(orAll(k.Tenant), orAll(k.Queue))
		}), nil
	})
}

// KeyStates reads a page of the keys counted by rules, the most used first.
func (pv *PolicyVerbs) KeyStates(ctx context.Context, f rota.KeyFilter,
	opt peer.ReadOptions) (page []rota.KeyState, next string, at rota.ReadAt, err error) {
	if at, err = pv.n.Replica.Fresh(ctx, opt); err != nil {
		return nil, "", at, err
	}
	var list *fsm.KeyList
	if err := pv.n.Replica.Freezing(func(m *fsm.Machine) { list = fsm.Keys(m) }); err != nil {
		return nil, "", at, err
	}
	rd, err := pv.n.Replica.Reader(ctx)
	if err != nil {
		return nil, "", at, err
	}
	page, next, err = list.Page(f, rd)
	return page, next, at, err
}

// orAll returns id, or access.Everything if it is empty.
func orAll[S ~string](id S) S {
	if id == "" {
		return access.Everything
	}
	return id
}

// SetBudget sets a budget, or replaces it. The time zone is checked here, since the state machine has none.
func (sv *ScheduleVerbs) SetBudget(ctx context.Context, b rota.Budget) (rota.BudgetState, error) {
	if err := b.Check(); err != nil {
		return rota.BudgetState{}, err
	}
	if times := b.Times(); times.Cron != "" {
		zones, err := sv.zones.Now()
		if err != nil {
			return rota.BudgetState{}, err
		}
		if err := zones.Check(&times, rota.DateOf(sv.n.Wall())); err != nil {
			return rota.BudgetState{}, err
		}
	}
	_, index, err := sv.n.ProposeOne(ctx, fsm.SetBudgetOp(&b))
	if err != nil {
		return rota.BudgetState{}, err
	}
	s, _, err := sv.Budget(access.Itself(ctx), b.Name, peer.ReadOptions{MinIndex: index})
	return s, err
}

// DeleteBudget deletes a budget; deleting a missing one is not an error.
func (sv *ScheduleVerbs) DeleteBudget(ctx context.Context, name rota.BudgetName) error {
	_, _, err := sv.n.ProposeOne(ctx, fsm.DeleteBudgetOp(name))
	return err
}

// GrantBudget adds to the limit of an account, and returns the account.
func (sv *ScheduleVerbs) GrantBudget(ctx context.Context, name rota.BudgetName, of string,
	c rota.BudgetChange) (rota.BudgetAccount, error) {
	_, index, err := sv.n.ProposeOne(ctx, fsm.GrantBudgetOp(name, of, c))
	if err != nil {
		return rota.BudgetAccount{}, err
	}
	list, _, _, err := sv.BudgetAccounts(access.Itself(ctx), rota.BudgetAccountFilter{Budget: name, Of: of, Limit: 1},
		peer.ReadOptions{MinIndex: index})
	if err != nil || len(list) == 0 {
		return rota.BudgetAccount{Budget: name, Of: of}, err // it has ended since
	}
	return list[0], nil
}

// ResetBudget forgets the spent amount of an account, or of all of a budget.
func (sv *ScheduleVerbs) ResetBudget(ctx context.Context, name rota.BudgetName, of string, all bool,
	c rota.BudgetChange) error {
	_, _, err := sv.n.ProposeOne(ctx, fsm.ResetBudgetOp(name, of, all, c))
	return err
}

func readsBudget(rd *access.Reader, b *rota.Budget) bool {
	return rd.Reads(orAll(b.Tenant), orAll(b.Queue))
}

// Budgets lists the budgets that the caller may read: those with an open question if asking is set.
func (sv *ScheduleVerbs) Budgets(ctx context.Context, asking bool,
	opt peer.ReadOptions) ([]rota.BudgetState, rota.ReadAt, error) {
	return replica.ReadAs(ctx, sv.n.Replica, opt, func(s *fsm.View, rd *access.Reader) ([]rota.BudgetState, error) {
		return fsm.BudgetStates(s, asking, func(b *rota.Budget) bool { return readsBudget(rd, b) }), nil
	})
}

// Budget reads one budget.
func (sv *ScheduleVerbs) Budget(ctx context.Context, name rota.BudgetName,
	opt peer.ReadOptions) (rota.BudgetState, rota.ReadAt, error) {
	return replica.ReadAs(ctx, sv.n.Replica, opt, func(s *fsm.View, rd *access.Reader) (rota.BudgetState, error) {
		b, ok := fsm.BudgetOf(s, name)
		if !ok || !readsBudget(rd, &b.Budget) {
			return b, unknownBudget(name)
		}
		return b, nil
	})
}

func unknownBudget(name rota.BudgetName) error {
	return rota.Refusef(rota.KindNotFound, "budget", "budget %q is not known", name)
}

// BudgetAccounts reads a page of the accounts of a budget, and returns where the next one begins.
func (sv *ScheduleVerbs) BudgetAccounts(ctx context.Context, f rota.BudgetAccountFilter,
	opt peer.ReadOptions) (page []rota.BudgetAccount, next string, at rota.ReadAt, err error) {
	page, at, err = replica.ReadAs(ctx, sv.n.Replica, opt, func(s *fsm.View, rd *access.Reader) ([]rota.BudgetAccount,
		error) {
		b, ok := fsm.BudgetOf(s, f.Budget)
		if !ok || !readsBudget(rd, &b.Budget) {
			return nil, unknownBudget(f.Budget)
		}
		from, most := f.Cursor, f.Limit+1
		if f.Of != "" {
			from, most = f.Of, 1
		}
		read := fsm.BudgetAccounts
		if f.Asking {
			read = fsm.BudgetQuestions
		}
		return slices.DeleteFunc(read(s, f.Budget, from, most, f.Held), func(a rota.BudgetAccount) bool {
			return f.Of != "" && a.Of != f.Of
		}), nil
	})
	if len(page) > f.Limit {
		next, page = page[f.Limit].Of, page[:f.Limit]
	}
	return page, next, at, err
}
