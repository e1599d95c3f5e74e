package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/test/jepsen-lite/check"
	"github.com/rotasched/rota/test/jepsen-lite/fault"
)

// chaosBudget limits what the jobs of each key "few" spend: a handful of them, then they wait for a grant.
var chaosBudget = rota.Budget{Name: "chaos", Key: "few", Each: rota.EachKey, Unit: "u", Limit: 25 * rota.CostUnit,
	Then: rota.ThenAsk}

// makeBudget sets the budget, which needs the newest rules.
func (w *trial) makeBudget(ctx context.Context, c *client.Client) error {
	for {
		_, err := c.Budgets().Set(ctx, chaosBudget)
		if err == nil {
			break
		}
		if !fault.Rest(ctx, 200*time.Millisecond) {
			return fmt.Errorf("set budget: %w", err)
		}
	}
	w.Rec.With(func(h *check.History) {
		h.Budgets = []check.BudgetFacts{{Name: string(chaosBudget.Name), Unit: chaosBudget.Unit,
			Limit: int64(chaosBudget.Limit), Accounts: map[string]string{}, Estimates: map[string]int64{}}}
	})
	return nil
}

// noteCost records that a job is submitted under the budget.
func (w *trial) noteCost(spec *rota.JobSpec, account string) {
	w.Rec.With(func(h *check.History) {
		h.Budgets[0].Accounts[string(spec.ID)], h.Budgets[0].Estimates[string(spec.ID)] = account,
			spec.Costs[chaosBudget.Unit]
	})
}

// pay answers the questions of the budget with grants, and at the end lets it only warn, so that nothing is left
// waiting.
func pay(ctx, drain context.Context, w *trial, r *rand.Rand) {
	c, err := w.Cluster.ClientOf(w.badge)
	if err != nil {
		w.Rec.Note("payer: %v", err)
		return
	}
	defer c.Close()
	for fault.Rest(ctx, time.Duration(300+r.IntN(900))*time.Millisecond) {
		try, cancel := context.WithTimeout(ctx, operatorPatience)
		held, _ := client.Collect(c.Budgets().Accounts(try, rota.BudgetAccountFilter{Budget: chaosBudget.Name, Held: true,
			Limit: 20}))
		for i := range held {
			_, _ = c.Budgets().Grant(try, chaosBudget.Name, held[i].Of, rota.BudgetChange{Reason: "chaos",
				Amount: rota.Cost(5+r.IntN(30)) * rota.CostUnit})
		}
		cancel()
	}
	warns := chaosBudget
	warns.Then = rota.ThenWarn
	for {
		try, cancel := context.WithTimeout(drain, operatorPatience)
		_, err := c.Budgets().Set(try, warns)
		cancel()
		if err == nil || !fault.Rest(drain, 200*time.Millisecond) {
			return
		}
	}
}
