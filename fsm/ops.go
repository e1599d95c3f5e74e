package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/budgets"
)

// SetKeyRuleOp returns the persisted form of a rule.
func SetKeyRuleOp(r *rota.KeyRule) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_SetKeyRule{SetKeyRule: &fsmpb.SetKeyRule{Queue: string(r.Queue), Name: r.Name,
		Value:   r.Value,
		Cluster: r.Scope == rota.KeyOfCluster, Concurrency: r.Concurrency, Rate: r.Rate, PeriodMs: r.PeriodMs,
		Burst: r.Burst, Sequence: uint32(r.Sequence), Group: r.Group, Unit: r.Unit,
		DefaultCost: int64(r.DefaultCost), Breaker: breakerOp(r.Breaker), RefuseFull: r.RefuseFull}}}
}

func breakerOp(b rota.KeyBreaker) *fsmpb.KeyBreaker {
	if b == (rota.KeyBreaker{}) {
		return nil
	}
	return &fsmpb.KeyBreaker{Trip: b.Trip, Of: b.Of, OpenMs: b.OpenMs, Probes: b.Probes, Reasons: uint64(b.Reasons)}
}

// DeleteKeyRuleOp returns the operation that deletes a rule.
func DeleteKeyRuleOp(queue rota.QueueName, name, value string) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_DeleteKeyRule{DeleteKeyRule: &fsmpb.DeleteKeyRule{Queue: string(queue), Name: name,
		Value: value}}}
}

// SkipKeyOp returns the operation that lets a sequence continue after a job.
func SkipKeyOp(queue rota.QueueName, tenant rota.TenantID, key string, job rota.JobID) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_SkipKey{SkipKey: &fsmpb.SkipKey{Queue: string(queue), Tenant: string(tenant),
		Key: key, Job: string(job)}}}
}

// PauseKeyOp returns the operation that pauses a key until a date, or until it is resumed if that is 0.
func PauseKeyOp(queue rota.QueueName, tenant rota.TenantID, key string, until rota.Date, reason string) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_PauseKey{PauseKey: &fsmpb.PauseKey{Queue: string(queue), Tenant: string(tenant),
		Key: key, Paused: true, UntilMs: int64(until), Reason: reason}}}
}

// ResumeKeyOp returns the operation that ends the pause of a key and closes its breaker.
func ResumeKeyOp(queue rota.QueueName, tenant rota.TenantID, key string) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_PauseKey{PauseKey: &fsmpb.PauseKey{Queue: string(queue), Tenant: string(tenant),
		Key: key}}}
}

// SetBudgetOp returns the persisted form of a budget.
func SetBudgetOp(b *rota.Budget) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_SetBudget{SetBudget: &fsmpb.SetBudget{Name: string(b.Name),
		Tenant: string(b.Tenant), Queue: string(b.Queue), Key: b.Key, Each: uint32(b.Each), Unit: b.Unit,
		Limit: int64(b.Limit), DefaultCost: int64(b.DefaultCost), Every: uint32(b.Every), Tz: b.TZ,
		WarnPermille: b.WarnPermille, Then: uint32(b.Then), Stop: b.Stop}}}
}

// DeleteBudgetOp returns the operation that deletes a budget.
func DeleteBudgetOp(name rota.BudgetName) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_DeleteBudget{DeleteBudget: &fsmpb.DeleteBudget{Name: string(name)}}}
}

// GrantBudgetOp returns the operation that adds to the limit of an account.
func GrantBudgetOp(name rota.BudgetName, of string, c rota.BudgetChange) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_GrantBudget{GrantBudget: &fsmpb.GrantBudget{Name: string(name), Of: of,
		Amount: int64(c.Amount), Reason: c.Reason, Id: c.ID}}}
}

// ResetBudgetOp returns the operation that forgets the spent amount of an account, or of all of a budget.
func ResetBudgetOp(name rota.BudgetName, of string, all bool, c rota.BudgetChange) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_ResetBudget{ResetBudget: &fsmpb.ResetBudget{Name: string(name), Of: of, All: all,
		Reason: c.Reason, Id: c.ID}}}
}

// DueBudget is what a leader needs of a budget with periods.
type DueBudget = budgets.Due

// TurnBudgetOp returns the leader's operation that records which period of a budget has begun, with the named time
// zones.
func TurnBudgetOp(d *DueBudget, since, until rota.Date, zones string) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_TurnBudget{TurnBudget: &fsmpb.TurnBudget{Name: string(d.Name),
		Version: uint64(d.Version), FromMs: int64(d.Until), SinceMs: int64(since), UntilMs: int64(until),
		Tzdata: zones}}}
}

// StartPlanOp returns the operation that starts a plan.
func StartPlanOp(p *rota.PlanSpec) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_StartPlan{StartPlan: &fsmpb.StartPlan{Id: string(p.ID), Verb: uint32(p.Verb),
		Filter: p.Filter, To: string(p.To), Priority: p.Priority, Max: p.Max}}}
}
