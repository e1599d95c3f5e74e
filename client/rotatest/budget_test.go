package rotatest_test

import (
	"context"
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
