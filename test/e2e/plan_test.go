package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rotasched/rota"
)

// TestPlans: the leader is killed while a plan cancels many jobs: each is cancelled once. An invalid plan is refused by
// its field and starts nothing.
func TestPlans(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	for _, bad := range [][]string{
		{"cancel", "--filter", `label.x="cut`}, {"cancel", "--filter", ""}, {"cancel", "--filter", "state=DEAD"},
		{"drop", "--filter", "id=*"},
		{"move", "--filter", "id=*"}, {"reprioritise", "--filter", "id=*"},
		{"cancel", "--filter", "id=*", "--priority", "1"},
	} {
		c.rota(t, append([]string{"plan", "start"}, bad...)...).want(t, 2)
	}
	if list := c.rota(t, "plan", "list", "-o", "name").want(t, 0).stdout; list != "" {
		t.Errorf("plans were started: %s", list)
	}
	const jobs = 20_000
	cl := c.dial(t)
	for at := 0; at < jobs; at += 1_000 {
		specs := make([]rota.JobSpec, 1_000)
		for i := range specs {
			specs[i] = rota.NewJobSpec("t", nil)
			specs[i].ID = rota.JobID(fmt.Sprintf("bulk%06d", at+i))
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		done, err := cl.Submit(ctx, specs...)
		cancel()
		check(t, err)
		for _, s := range done {
			check(t, s.Err)
		}
	}
	would := decode[rota.PlanPreview](t, c.rota(t, "plan", "start", "cancel", "--filter", "id=bulk*", "--dry-run", "-o",
		"json").want(t, 0))
	if would.Count != jobs || len(would.Jobs) != 20 || !would.Complete {
		t.Errorf("%+v", would)
	}
	seen := func() rota.Plan {
		return decode[rota.Plan](t, c.rota(t, "plan", "show", "end", "-o", "json").want(t, 0))
	}
	c.rota(t, "plan", "start", "cancel", "--filter", "id=bulk*", "--id", "end").want(t, 0)
	leader := c.leader(t)
	leader.Kill()
	killed := seen()
	leader.start(t)
	c.awaitReady()
	if killed.State != rota.PlanRunning {
		t.Logf("the plan was complete before its leader was killed")
	}
	c.rota(t, "plan", "start", "cancel", "--filter", "id=bulk*", "--id", "end").want(t, 0) // the same one
	c.rota(t, "plan", "wait", "end", "--timeout", "2m").want(t, 0)
	if p := seen(); p.State != rota.PlanDone || p.Done != jobs || p.Refused+p.Passed != 0 {
		t.Errorf("%+v", p)
	}
	count := decode[rota.JobCount](t, c.rota(t, "job", "list", "--filter", "id=bulk* state=CANCELLED", "--count", "-o",
		"json").want(t, 0))
	if count.Count != jobs {
		t.Errorf("%d jobs are cancelled of %d", count.Count, jobs)
	}
	p := decode[rota.Plan](t, c.rota(t, "plan", "start", "retry", "--filter", "id=bulk00000*", "--wait", "-o",
		"json").want(t, 0))
	if p.State != rota.PlanDone || p.Done != 10 {
		t.Errorf("%+v", p)
	}
	if p := decode[rota.Plan](t, c.rota(t, "plan", "start", "delete", "--filter", "id=nobody", "--wait", "-o",
		"json").want(t, 0)); p.Done != 0 {
		t.Errorf("%+v", p)
	}
	c.rota(t, "operator", "verify").want(t, 0)
}
