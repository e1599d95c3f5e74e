package cluster

import (
	"fmt"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// manyJobs submits jobs, a thousand per call.
func manyJobs(t *testing.T, n *Node, count int) {
	t.Helper()
	for at := 0; at < count; at += 1_000 {
		jobs := make([]rota.JobSpec, min(1_000, count-at))
		for i := range jobs {
			jobs[i] = rota.NewJobSpec("t", nil)
			jobs[i].ID, jobs[i].Queue, jobs[i].Tenant = rota.JobID(fmt.Sprintf("bulk%06d",
				at+i)), rota.DefaultQueue, rota.DefaultTenant
		}
		done, err := n.Submit(within(t, ample), jobs)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range done {
			if s.Err != nil {
				t.Fatal(s.Err)
			}
		}
	}
}

// planThrough starts a plan, and stops each leader that ran a step of it until it has ended.
func planThrough(t *testing.T, b *bench, spec rota.PlanSpec, kills int) rota.Plan {
	t.Helper()
	if _, err := b.leader().StartPlan(within(t, ample), spec); err != nil {
		t.Fatal(err)
	}
	var p rota.Plan
	seen := func() bool {
		var err error
		if p, _, err = b.leader().Plan(within(t, ample), spec.ID, peer.ReadOptions{}); err != nil {
			t.Log(err) // between two leaders
		}
		return err == nil
	}
	for range kills {
		before := p.Done
		b.eventually("the plan continues", func() bool {
			return seen() && (p.Done > before || p.State != rota.PlanRunning)
		})
		if p.State != rota.PlanRunning {
			t.Logf("%s was complete before its leader could be stopped", spec.ID)
			break
		}
		leader := b.leader().cfg.Node
		b.stop(leader)
		b.start(leader)
	}
	b.eventually("the plan is through", func() bool { return seen() && p.State != rota.PlanRunning })
	return p
}

// TestPlans_leadersChange: leaders are stopped during a plan; each job is processed once, and the log proves it.
func TestPlans_leadersChange(t *testing.T) {
	t.Parallel()
	b := startBench(t, 3)
	const jobs = 6_000
	manyJobs(t, b.leader(), jobs)
	p := planThrough(t, b, rota.PlanSpec{ID: "end", Verb: rota.PlanCancel, Filter: "id=bulk*"}, 3)
	if p.State != rota.PlanDone || p.Done != jobs || p.Refused+p.Passed != 0 {
		t.Errorf("%+v", p)
	}
	p = planThrough(t, b, rota.PlanSpec{ID: "again", Verb: rota.PlanRetry, Filter: "id=bulk*", Max: 2_500}, 1)
	if p.Done != 2_500 || p.Refused+p.Passed != 0 {
		t.Errorf("%+v", p)
	}
	p = planThrough(t, b, rota.PlanSpec{ID: "forget", Verb: rota.PlanDelete, Filter: "id=bulk*"}, 1)
	if p.Done != jobs-2_500 || p.Refused+p.Passed != 0 {
		t.Errorf("%+v", p)
	}
	page, _, err := b.leader().Jobs(within(t, ample), rota.JobFilter{Where: "id=bulk*", Count: true},
		peer.ReadOptions{})
	if err != nil || page.Counted.Count != 2_500 || !page.Counted.Complete {
		t.Errorf("%+v, %v", page.Counted, err)
	}
	auditedBackup(t, b.leader(), 0)
}

// TestPlans_preview: a preview counts the same jobs as the plan then changes, and changes nothing.
func TestPlans_preview(t *testing.T) {
	t.Parallel()
	b := startBench(t, 1)
	n, ctx := b.leader(), within(t, ample)
	manyJobs(t, n, 1_500)
	spec := rota.PlanSpec{ID: "p", Verb: rota.PlanCancel, Filter: "id=bulk0014*"}
	got, err := n.PreviewPlan(ctx, spec)
	if err != nil || got.Count != 100 || len(got.Jobs) != 20 || got.Jobs[0] != "bulk001400" || !got.Complete {
		t.Fatalf("%+v, %v", got, err)
	}
	if plans, _, err := n.Plans(ctx, peer.ReadOptions{}); err != nil || len(plans) != 0 {
		t.Error(plans, err)
	}
	spec.Max = 30
	if got, err := n.PreviewPlan(ctx, spec); err != nil || got.Count != 30 || !got.Complete {
		t.Errorf("%+v, %v", got, err)
	}
	for _, c := range []struct {
		field string
		bad   rota.PlanSpec
	}{
		{"filter", rota.PlanSpec{ID: "p", Verb: rota.PlanCancel}},
		{"filter", rota.PlanSpec{ID: "p", Verb: rota.PlanCancel, Filter: `id="cut`}},
		{"verb", rota.PlanSpec{ID: "p", Filter: "id=*"}},
	} {
		for _, err := range []error{errOf(n.PreviewPlan(ctx, c.bad)), errOf(n.StartPlan(ctx, c.bad))} {
			if rota.KindOf(err) != rota.KindInvalid || rota.ErrorOf(err).Subject != c.field {
				t.Errorf("%s: %v", c.field, err)
			}
		}
	}
	if p, err := n.StartPlan(ctx, spec); err != nil || p.ID != "p" {
		t.Fatal(p, err)
	}
	b.eventually("the plan is through", func() bool {
		p, _, err := n.Plan(ctx, "p", peer.ReadOptions{})
		return err == nil && p.State == rota.PlanDone && p.Done == 30
	})
	if _, err := n.CancelPlan(ctx, "nobody", ""); rota.KindOf(err) != rota.KindNotFound {
		t.Error(err)
	}
	if p, err := n.CancelPlan(ctx, "p", "late"); err != nil || p.State != rota.PlanDone {
		t.Error(p, err)
	}
}

func errOf[T any](_ T, err error) error { return err }
