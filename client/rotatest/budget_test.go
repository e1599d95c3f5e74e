package rotatest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/client/rotatest"
)

// TestAdvance_budget: a job waits for the next period of its budget, which the leader begins by the calendar, once, also
// after a time without calls; and nothing but the periods wakes the cluster.
func TestAdvance_budget(t *testing.T) {
	rotatest.Run(t, func(c *rotatest.Cluster) {
		ctx := c.Context()
		budget := rota.Budget{Name: "hourly", Unit: "usd", Limit: 3 * rota.CostUnit, Every: rota.EveryHour,
			TZ: "Asia/Kolkata"}
		state, err := c.Client().Budgets().Set(ctx, budget)
		if err != nil {
			t.Fatal(err)
		}
		c.Advance(5 * time.Second)
		if state, err = c.Client().Budgets().Get(ctx, "hourly"); err != nil || state.Until == 0 {
			t.Fatalf("%+v, %v", state, err)
		}
		if half := state.Until.Time().UTC().Minute(); half != 30 {
			t.Errorf("the period ends at %s, want half an hour of UTC", state.Until)
		}
		for _, name := range []string{"a", "b"} {
			if _, err := welcome.Submit(ctx, c.Client(), mail{name}, client.ID(rota.JobID(name)),
				client.Cost("usd", 2)); err != nil {
				t.Fatal(err)
			}
			c.Advance(time.Second) // of jobs of one date, either may be first
		}
		send := func(context.Context, *client.Job, mail) (string, error) { return "sent", nil }
		if _, err := rotatest.Work(c, welcome, send); err != nil {
			t.Fatal(err)
		}
		isState(t, c, "a", rota.JobCompleted)
		isState(t, c, "b", rota.JobQueued)
		before := status(t, c).AppliedIndex
		c.Advance(3 * time.Hour)
		if n := status(t, c).AppliedIndex - before; n > maxEntries {
			t.Errorf("three periods took %d entries, want at most %d", n, maxEntries)
		}
		if state, err = c.Client().Budgets().Get(ctx, "hourly"); err != nil || state.Spent != 0 ||
			state.Until.Time().Before(time.Now()) || time.Until(state.Until.Time()) > time.Hour {
			t.Errorf("at %s: %+v, %v", time.Now(), state, err)
		}
		if _, err := rotatest.Work(c, welcome, send); err != nil {
			t.Fatal(err)
		}
		isState(t, c, "b", rota.JobCompleted)
	})
}

// TestBudget_questions lists the open questions of budgets, and one less after a grant.
func TestBudget_questions(t *testing.T) {
	rotatest.Run(t, func(c *rotatest.Cluster) {
		ctx, budgets := c.Context(), c.Client().Budgets()
		for _, b := range []rota.Budget{{Name: "asks", Each: rota.EachTenant, Then: rota.ThenAsk}, {Name: "holds"},
			{Name: "rich", Then: rota.ThenAsk, Tenant: "t9"}} {
			b.Unit, b.Limit = "usd", rota.CostUnit
			if _, err := budgets.Set(ctx, b); err != nil {
				t.Fatal(err)
			}
		}
		for _, tenant := range []rota.TenantID{"t1", "t2", "t3"} {
			if _, err := welcome.Submit(ctx, c.Client(), mail{"a"}, client.ID(rota.JobID(tenant)), client.Tenant(tenant),
				client.Cost("usd", 2)); err != nil {
				t.Fatal(err)
			}
		}
		questions := func(f rota.BudgetAccountFilter) (text string) {
			t.Helper()
			list, err := client.Collect(budgets.Asking(ctx))
			if err != nil {
				t.Fatal(err)
			}
			for i := range list {
				text += fmt.Sprint(list[i].Name, " ", list[i].Asking, ":")
			}
			f.Budget, f.Asking = "asks", true
			accounts, err := client.Collect(budgets.Accounts(ctx, f))
			if err != nil {
				t.Fatal(err)
			}
			for i := range accounts {
				text += " " + accounts[i].Of
			}
			return text
		}
		for _, x := range []struct {
			f    rota.BudgetAccountFilter
			want string
		}{
			{rota.BudgetAccountFilter{}, "asks 3: t1 t2 t3"}, {rota.BudgetAccountFilter{Limit: 2}, "asks 3: t1 t2"},
			{rota.BudgetAccountFilter{Cursor: "t2"}, "asks 3: t2 t3"}, {rota.BudgetAccountFilter{Of: "t3"}, "asks 3: t3"},
			{rota.BudgetAccountFilter{Of: "t"}, "asks 3:"}, {rota.BudgetAccountFilter{Held: true}, "asks 3: t1 t2 t3"},
		} {
			if got := questions(x.f); got != x.want {
				t.Errorf("%+v: %s, want %s", x.f, got, x.want)
			}
		}
		if _, err := budgets.Grant(ctx, "asks", "t2", rota.BudgetChange{Amount: 5 * rota.CostUnit}); err != nil {
			t.Fatal(err)
		}
		if got := questions(rota.BudgetAccountFilter{}); got != "asks 2: t1 t3" {
			t.Error(got)
		}
	})
}
