package fsm

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/plans"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
)

// planOp starts a plan.
func planOp(id string, verb rota.PlanVerb, line string, change ...func(*rota.PlanSpec)) *fsmpb.Op {
	p := rota.PlanSpec{ID: rota.PlanID(id), Verb: verb, Filter: line}
	for _, f := range change {
		f(&p)
	}
	return StartPlanOp(&p)
}

func endPlanOp(id string) *fsmpb.Op {
	return &fsmpb.Op{Op: &fsmpb.Op_CancelPlan{CancelPlan: &fsmpb.CancelPlan{Id: id, Reason: "enough"}}}
}

func toQueue(q rota.QueueName) func(*rota.PlanSpec) { return func(p *rota.PlanSpec) { p.To = q } }
func most(n int64) func(*rota.PlanSpec)             { return func(p *rota.PlanSpec) { p.Max = n } }
func urgency(n int32) func(*rota.PlanSpec)          { return func(p *rota.PlanSpec) { p.Priority = &n } }

// plan returns a plan in its present state.
func (b *bench) plan(id string) rota.Plan {
	b.t.Helper()
	p, ok := PlanOf(&b.View, rota.PlanID(id))
	if !ok {
		b.t.Fatalf("plan %s is not known", id)
	}
	return p
}

// stepOf returns a leader's next step of a plan, with at most this many jobs.
func (b *bench) stepOf(id string, jobs int) *fsmpb.Op {
	b.t.Helper()
	for _, w := range RunningPlans(&b.View) {
		if w.Spec.ID != rota.PlanID(id) {
			continue
		}
		if w.Spec.Max > 0 {
			jobs = int(min(int64(jobs), w.Spec.Max-w.Done))
		}
		rights, err := b.access.RightsOf(w.Caller.Actor)
		if w.Caller.Actor == "" {
			rights, err = nil, nil
		}
		var rd *access.Reader
		if err == nil && rights != nil {
			rd = access.NewReader(rights)
		}
		members, bad := b.View.Jobs().For(rd).Members(&w, jobs, nil)
		if bad != nil {
			b.t.Fatal(bad)
		}
		return &fsmpb.Op{Op: &fsmpb.Op_PlanStep{PlanStep: StepOf(&w, &members)}}
	}
	b.t.Fatalf("plan %s does not run", id)
	return nil
}

// runPlan runs a plan to its end in steps of at most this many jobs.
func (b *bench) runPlan(id string, jobs int) rota.Plan {
	b.t.Helper()
	for b.plan(id).State == rota.PlanRunning {
		b.ok(b.stepOf(id, jobs))
	}
	return b.plan(id)
}

func counts(p rota.Plan) string { return fmt.Sprint(p.State, p.Done, p.Refused, p.Passed) }

// TestPlan_eachJobOnce checks that each job that the filter selects is processed once, whichever node leads, and that
// later submissions are not.
func TestPlan_eachJobOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.every = 1 << 20
	for i := range 70 {
		b.submit(fmt.Sprintf("j%02d", i), func(s *rota.JobSpec) { s.Type = []rota.JobType{"a", "b"}[i%2] })
	}
	a := b.entry(planOp("p", rota.PlanCancel, "type=a"))
	if len(a.Events) != 1 || a.Events[0].Kind != rota.EventPlanStarted ||
		!strings.Contains(a.Events[0].Payload, `"filter":"type=a"`) {
		t.Fatalf("%+v", a.Events)
	}
	if o := b.ok(planOp("p", rota.PlanCancel, "type=a")); !o.GetExisted() {
		t.Error("a repetition is another plan")
	}
	b.refuses(rota.KindConflict, "id", planOp("p", rota.PlanCancel, "type=b"))
	b.submit("j00a", func(s *rota.JobSpec) { s.Type = "a" })
	cancelled := make(map[rota.JobID]int)
	var last rota.EventKind
	for b.plan("p").State == rota.PlanRunning {
		step := b.stepOf("p", 4)
		for _, e := range b.entry(step).Events {
			if last = e.Kind; e.Kind == rota.EventJobCancelled {
				cancelled[e.Job]++
			}
		}
		if b.plan("p").State == rota.PlanRunning {
			b.refuses(rota.KindStale, "from", step)
			b.lead()
			b.refuses(rota.KindStale, "from", step) // another leader's
		} else {
			b.refuses(rota.KindStale, "plan", step)
		}
	}
	if got := counts(b.plan("p")); got != "DONE 35 0 0" || len(cancelled) != 35 || last != rota.EventPlanFinished {
		t.Fatal(got, len(cancelled), last)
	}
	for id, n := range cancelled {
		if n != 1 {
			t.Errorf("%s was cancelled %d times", id, n)
		}
	}
	b.state("j01", rota.JobQueued)
	b.state("j00a", rota.JobQueued)
	b.restored()
}

func TestPlan_verbs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(queueOp("other"))
	b.ok(queueOp("default", "attempt_max", "1"))
	for i := range 6 {
		b.submit(fmt.Sprint("j", i))
	}
	b.worker("w", 1)
	var leased rota.JobID
	for leased = range b.match() {
	}
	b.ok(planOp("up", rota.PlanReprioritise, "id=j*", urgency(1)))
	if got := counts(b.runPlan("up", 2)); got != "DONE 5 0 0" {
		t.Error(got)
	}
	before := b.JobTable.Get("j5").Enqueued
	b.ok(planOp("move", rota.PlanMove, "id=j*", toQueue("other")))
	if got := counts(b.runPlan("move", 500)); got != "DONE 5 0 0" {
		t.Error(got)
	}
	if j := b.state("j5", rota.JobQueued); j.Queue != "other" || j.Priority != 1 ||
		b.JobTable.Get("j5").Enqueued != before || j.Changes != 2 {
		t.Errorf("%+v", j)
	}
	b.ok(planOp("back", rota.PlanMove, "queue=other", toQueue("default"), most(1)))
	if got := counts(b.runPlan("back", 500)); got != "DONE 1 0 0" {
		t.Error(got)
	}
	b.ok(planOp("end", rota.PlanCancel, "id=*"))
	if got := counts(b.runPlan("end", 4)); got != "DONE 6 0 0" {
		t.Error(got)
	}
	b.ok(planOp("again", rota.PlanRetry, "state=CANCELLED -id="+string(leased)))
	if got := counts(b.runPlan("again", 3)); got != "DONE 5 0 0" {
		t.Error(got)
	}
	b.ok(planOp("end2", rota.PlanCancel, "id=*"))
	b.runPlan("end2", 500)
	b.ok(planOp("gone", rota.PlanDelete, "id=j*"))
	p := b.runPlan("gone", 500) // the leased job's worker may not know of its end
	if got := counts(p); got != "DONE 5 1 0" || len(p.Refusals) != 1 || p.Refusals[0].Job != leased ||
		!strings.Contains(p.Refusals[0].Text, "worker") {
		t.Error(got, p.Refusals)
	}
	if got := b.ended.tombs.Len(); got != 1 {
		t.Error(got)
	}
	b.ok(planOp("nothing", rota.PlanDelete, "id=nobody"))
	if got := counts(b.runPlan("nothing", 500)); got != "DONE 0 0 0" {
		t.Error(got)
	}
	b.restored()
}

// TestPlan_ofWorker checks that a plan covers the jobs that a worker has, or had, from rules version 2 on.
func TestPlan_ofWorker(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(queueOp("default", "attempt_max", "1"))
	for i := range 3 {
		b.submit(fmt.Sprint("j", i))
	}
	b.refuses(rota.KindConflict, "rules_version", planOp("early", rota.PlanCancel, "worker=w"))
	b.ok(switchOp(2))
	b.worker("w", 2)
	leases := b.match()
	if len(leases) != 2 {
		t.Fatal(leases)
	}
	failed := inOrder(leases)[0]
	b.ok(verb(rota.VerbAck, failed))
	b.ok(verb(rota.VerbFail, failed))
	b.ok(planOp("again", rota.PlanRetry, "worker=w state=DEAD"))
	if got := counts(b.runPlan("again", 500)); got != "DONE 1 0 0" {
		t.Error(got)
	}
	b.ok(planOp("end", rota.PlanCancel, "worker=w state=ASSIGNED,RUNNING"))
	if got := counts(b.runPlan("end", 500)); got != "DONE 1 0 0" {
		t.Error(got)
	}
	for i := range 3 {
		id, want := rota.JobID(fmt.Sprint("j", i)), rota.JobQueued
		if _, ran := leases[id]; ran && id != failed.Job {
			want = rota.JobCancelled
		}
		b.state(string(id), want)
	}
	b.restored()
}

// TestPlan_blocked cancels only the successors of unique keys: they are BLOCKED. No other verb applies to that state.
func TestPlan_blocked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.submit("k")
	b.refuses(rota.KindConflict, "rules_version", planOp("early", rota.PlanCancel, "state=BLOCKED"))
	b.ok(switchOp(2))
	after := rota.Unique{OnConflict: rota.UniqueAfter}
	b.ok(onlyOne("holder", after))
	b.worker("w", 2)
	b.match()
	b.ok(onlyOne("next", after, paying("2")))
	b.state("next", rota.JobBlocked)
	b.refuses(rota.KindInvalid, "filter", planOp("move", rota.PlanDelete, "state=BLOCKED"))
	b.ok(planOp("end", rota.PlanCancel, "state=BLOCKED"))
	if got := counts(b.runPlan("end", 500)); got != "DONE 1 0 0" {
		t.Error(got)
	}
	b.state("holder", rota.JobAssigned)
	b.state("next", rota.JobCancelled)
	b.sound()
}

// TestPlan_whatChanged checks that a job that changed before its turn is skipped, as far as rows show it.
func TestPlan_whatChanged(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(queueOp("other"))
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		b.submit(id, func(s *rota.JobSpec) { s.Labels = map[string]string{"of": "x"} })
	}
	b.ok(planOp("p", rota.PlanCancel, "queue=default label.of=x"))
	step := b.stepOf("p", 500)
	b.ok(cancelOp("a")) // over
	b.ok(cancelOp("b"))
	b.ok(retryOp("b")) // in another life
	b.ok(drainless(b, "c"))
	b.ok(b.changeOf(rota.JobChange{ID: "d", Labels: map[string]string{"of": ""}}))
	b.ok(step)
	if got := counts(b.plan("p")); got != "DONE 1 0 4" {
		t.Error(got)
	}
	for _, id := range []string{"b", "c", "d"} {
		b.state(id, rota.JobQueued)
	}
	b.ok(planOp("q", rota.PlanRetry, "id=a,e"))
	step = b.stepOf("q", 500)
	b.ok(b.deleteOf("a"))
	b.ok(retryOp("e"))
	b.ok(step)
	if got := counts(b.plan("q")); got != "DONE 0 0 2" {
		t.Error(got)
	}
	b.sound()
}

// drainless moves a job to the queue other by its own plan.
func drainless(b *bench, id string) *fsmpb.Op {
	b.ok(planOp("m-"+id, rota.PlanMove, "id="+id, toQueue("other")))
	return b.stepOf("m-"+id, 1)
}

// TestPlan_badInput checks that each is refused by its field, and nothing is stored.
func TestPlan_badInput(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(queueOp("leaving"))
	b.submit("j", queue("leaving"))
	b.ok(drainOp("leaving", "default"))
	b.submit("k")
	for _, c := range []struct {
		field string
		op    *fsmpb.Op
	}{
		{"filter", planOp("p", rota.PlanCancel, "")},
		{"filter", planOp("p", rota.PlanCancel, "  ")},
		{"filter", planOp("p", rota.PlanCancel, "type=")},
		{"filter", planOp("p", rota.PlanCancel, "label.x=\"cut")},
		{"filter", planOp("p", rota.PlanCancel, "state=DEAD")},
		{"filter", planOp("p", rota.PlanRetry, "state=COMPLETED")},
		{"filter", planOp("p", rota.PlanMove, "state=RUNNING", toQueue("default"))},
		{"filter", planOp("p", rota.PlanCancel, strings.Repeat("x", limits.MaxFilterBytes+1))},
		{"verb", planOp("p", rota.PlanNone, "id=*")},
		{"verb", planOp("p", 77, "id=*")},
		{"plan", planOp("", rota.PlanCancel, "id=*")},
		{"plan", planOp(strings.Repeat("p", 1000), rota.PlanCancel, "id=*")},
		{"to", planOp("p", rota.PlanMove, "id=*")},
		{"to", planOp("p", rota.PlanCancel, "id=*", toQueue("default"))},
		{"priority", planOp("p", rota.PlanReprioritise, "id=*")},
		{"priority", planOp("p", rota.PlanReprioritise, "id=*", urgency(11))},
		{"priority", planOp("p", rota.PlanCancel, "id=*", urgency(1))},
		{"max", planOp("p", rota.PlanCancel, "id=*", most(-1))},
	} {
		b.refuses(rota.KindInvalid, c.field, c.op)
	}
	b.refuses(rota.KindNotFound, "queue", planOp("p", rota.PlanMove, "id=*", toQueue("nowhere")))
	b.refuses(rota.KindNotFound, "plan", endPlanOp("p"))
	b.refuses(rota.KindNotFound, "plan", &fsmpb.Op{Op: &fsmpb.Op_PlanStep{PlanStep: &fsmpb.PlanStep{Plan: "p",
		To: "x"}}})
	if b.plans.Rows.Len() != 0 {
		t.Error("a refused plan is kept")
	}

	b.ok(planOp("p", rota.PlanCancel, "id=*", most(2)))
	many := make([]*fsmpb.PlanItem, limits.MaxPlanItems+1)
	for i := range many {
		many[i] = &fsmpb.PlanItem{Job: fmt.Sprintf("j%09d", i), Number: 1}
	}
	for field, step := range map[string]*fsmpb.PlanStep{
		"to":                 {To: strings.Repeat("x", 5000)},
		"items":              {To: "z", Items: many},
		"items of max":       {To: "z", Items: many[:3]},
		"items out of order": {To: "z", Items: []*fsmpb.PlanItem{{Job: "b"}, {Job: "a"}}},
		"items twice":        {To: "z", Items: []*fsmpb.PlanItem{{Job: "b"}, {Job: "b"}}},
		"items beyond":       {To: "a", Items: []*fsmpb.PlanItem{{Job: "b"}}},
		"items without one":  {To: "a", Items: []*fsmpb.PlanItem{{}}},
	} {
		step.Plan = "p"
		field, _, _ = strings.Cut(field, " ")
		b.refuses(rota.KindInvalid, field, &fsmpb.Op{Op: &fsmpb.Op_PlanStep{PlanStep: step}})
	}
	if got := counts(b.plan("p")); got != "RUNNING 0 0 0" {
		t.Error(got)
	}
	stale := b.stamped(&fsmpb.Entry{Term: b.term + 1, NowMs: int64(b.now), Ops: []*fsmpb.Op{b.stepOf("p", 1)}}, b.term)
	if o := stale.Outcomes[0]; rota.Kind(o.GetKind()) != rota.KindStale {
		t.Error(o)
	}
	b.sound()
}

// TestPlan_bounds checks that ten run, a hundred are kept, and the oldest that is over makes room.
func TestPlan_bounds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.every = 1 << 20
	for i := range limits.MaxPlansRunning {
		b.ok(planOp(fmt.Sprint("run", i), rota.PlanCancel, "id=*"))
	}
	b.refuses(rota.KindExhausted, "plans", planOp("more", rota.PlanCancel, "id=*"))
	b.ok(endPlanOp("run0"))
	if p := b.plan("run0"); p.State != rota.PlanCancelled || p.Why != "enough" {
		t.Errorf("%+v", p)
	}
	if o := b.ok(endPlanOp("run0")); !o.GetExisted() {
		t.Error("it ended twice")
	}
	for i := range limits.MaxPlans {
		id := fmt.Sprint("p", i)
		b.ok(planOp(id, rota.PlanCancel, "id=*"))
		b.ok(endPlanOp(id))
	}
	if n := b.plans.Rows.Len(); n != limits.MaxPlans {
		t.Error(n)
	}
	if _, kept := PlanOf(&b.View, "run0"); kept {
		t.Error("the oldest is kept")
	}
	b.plan("run1")
	b.plan("p99")
	b.restored()
	m := b.restored()
	if err := m.Reincarnate(Rebirth{Cluster: "another"}); err != nil {
		t.Fatal(err)
	}
	if p, _ := PlanOf(&m.View, "run1"); p.State != rota.PlanCancelled || p.Why == "" {
		t.Errorf("%+v", p)
	}
}

// TestPlan_shares checks that one principal has at most two running plans, under any ids, and so keeps no other out;
// one that is over makes room. A principal with all rights may run ten.
func TestPlan_shares(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(roleOp("ops", everyRight(rota.RightControl)...))
	b.ok(tokenOp(tokenWish("o", "ops")))
	b.ok(tokenOp(tokenWish("p", "ops")))
	start := func(actor, id string) *fsmpb.Op { return by(actorNamed(actor), planOp(id, rota.PlanCancel, "id=*")) }
	for i := range limits.MaxPlansOfOne {
		b.ok(start("o", fmt.Sprint("o", i)))
	}
	o := b.refuses(rota.KindExhausted, "plans", start("o", "more"))
	if text := entry.OutcomeError(o).Error(); !strings.Contains(text, "has 2 plans running, 2 are allowed") ||
		!strings.Contains(text, "rota plan cancel") {
		t.Error(text)
	}
	if _, kept := PlanOf(&b.View, "more"); kept {
		t.Error("a refused plan is kept")
	}
	if o := b.ok(start("o", "o0")); !o.GetExisted() {
		t.Error("a repetition is refused, or starts again")
	}
	b.ok(start("p", "theirs"))
	b.ok(by(actorNamed("o"), endPlanOp("o0")))
	b.ok(start("o", "more"))
	b.refuses(rota.KindExhausted, "plans", start("o", "again"))
	for i := range limits.MaxPlansRunning - limits.MaxPlansOfOne - 1 {
		b.ok(planOp(fmt.Sprint("root", i), rota.PlanCancel, "id=*"))
	}
	b.refuses(rota.KindExhausted, "plans", planOp("eleventh", rota.PlanCancel, "id=*"))
	b.restored()
	b.sound()
}

// TestPlan_refusals checks that twenty are shown and all are counted.
func TestPlan_refusals(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.every = 1 << 20
	b.ok(queueOp("other"))
	for i := range 30 {
		b.submit(fmt.Sprintf("j%02d", i))
	}
	b.ok(planOp("p", rota.PlanMove, "id=*", toQueue("other")))
	step := b.stepOf("p", 500)
	b.ok(deleteQueueOp("other"))
	b.ok(step)
	if p := b.plan("p"); counts(p) != "DONE 0 30 0" || len(p.Refusals) != limits.MaxPlanRefusals ||
		!strings.Contains(p.Refusals[0].Text, "other") {
		t.Errorf("%+v", p)
	}
	b.restored()
}

// TestPlan_moveIntoFull checks that a move into a queue is bound by the same limits as a submission to it.
func TestPlan_moveIntoFull(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(queueOp("small", "queue_cap", "3"))
	for i := range 5 {
		b.submit(fmt.Sprint("j", i))
	}
	b.ok(planOp("p", rota.PlanMove, "id=*", toQueue("small")))
	if p := b.runPlan("p", 500); counts(p) != "DONE 3 2 0" || !strings.Contains(p.Refusals[0].Text, "queue_cap") {
		t.Errorf("%+v", p)
	}
	b.restored()
}

// TestPlan_rights checks that a plan changes the jobs that its starter may read and control now, not at its start.
func TestPlan_rights(t *testing.T) {
	t.Parallel()
	acme := func(r rota.Right) rota.Grant { return rota.Grant{Right: r, Tenant: "acme", Queue: "*"} }
	setup := func() *bench {
		b := newBench(t)
		b.ok(queueOp("other"))
		for i, tenant := range []rota.TenantID{"acme", "umbrella", "acme", "umbrella"} {
			b.submit(fmt.Sprint("j", i), func(s *rota.JobSpec) { s.Tenant = tenant })
		}
		b.ok(roleOp("ops", acme(rota.RightControl), acme(rota.RightRead)))
		b.ok(roleOp("blind", acme(rota.RightControl)))
		b.ok(roleOp("readers", everyRight(rota.RightRead)...))
		b.ok(tokenOp(tokenWish("o", "ops")))
		b.ok(tokenOp(tokenWish("b", "blind")))
		b.ok(tokenOp(tokenWish("r", "readers")))
		return b
	}
	ops := actorNamed("o")
	b := setup()
	b.refuses(rota.KindDenied, "control", by(actorNamed("r"), planOp("p", rota.PlanCancel, "id=*")))
	b.ok(by(ops, planOp("p", rota.PlanCancel, "id=*")))
	b.refuses(rota.KindNotFound, "plan", by(actorNamed("b"), endPlanOp("p")))
	b.refuses(rota.KindDenied, "operation", by(ops, b.stepOf("p", 500)))
	honest := b.stepOf("p", 500)
	if n := len(honest.GetPlanStep().GetItems()); n != 2 {
		t.Errorf("%d jobs are read", n)
	}
	theirs := &fsmpb.PlanItem{Job: "j1", Number: b.JobTable.Get("j1").Seq}
	step := &fsmpb.PlanStep{Plan: "p", To: "j3", End: true, Items: []*fsmpb.PlanItem{honest.GetPlanStep().GetItems()[0],
		theirs, honest.GetPlanStep().GetItems()[1]}}
	a := b.entry(&fsmpb.Op{Op: &fsmpb.Op_PlanStep{PlanStep: step}}) // an incorrect leader
	if p := b.plan("p"); counts(p) != "DONE 2 1 0" || p.By != ops {
		t.Errorf("%+v", p)
	}
	b.state("j1", rota.JobQueued)
	for _, e := range a.Events {
		if e.Actor != ops {
			t.Errorf("%s is %q's", e.Kind, e.Actor)
		}
	}

	b = setup()
	b.ok(by(ops, planOp("move", rota.PlanMove, "id=*", toQueue("other"))))
	if got := counts(b.runPlan("move", 1)); got != "DONE 0 2 0" { // it lacks the right to submit there
		t.Error(got)
	}
	b.ok(by(actorNamed("b"), planOp("blind", rota.PlanCancel, "id=*")))
	if got := counts(b.runPlan("blind", 500)); got != "DONE 0 0 0" {
		t.Error(got)
	}
	b.ok(by(ops, planOp("p", rota.PlanCancel, "id=*")))
	b.ok(b.stepOf("p", 1))
	step2 := b.stepOf("p", 1)
	b.ok(revokeOp("o"))
	b.ok(step2)
	if p := b.plan("p"); counts(p) != "CANCELLED 1 0 0" || p.Why == "" {
		t.Errorf("%+v", p)
	}
	b.state("j2", rota.JobQueued)
	b.restored()
}

// TestPlan_errorsAreNotTold checks that a filter by errors selects nothing for callers that may not read them, and that
// a step's jobs are not compared with it, as skipped jobs would reveal them.
func TestPlan_errorsAreNotTold(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok(queueOp("default", "backoff_base_ms", "600000", "backoff_cap_ms", "600000"))
	l := b.leased("j", "w")
	b.ok(verb(rota.VerbAck, l))
	fail := verb(rota.VerbFail, l)
	fail.GetLease().Text = "password is swordfish"
	b.ok(fail)
	b.state("j", rota.JobDelayed)
	b.ok(roleOp("ops", everyRight(rota.RightControl, rota.RightRead)...))
	b.ok(tokenOp(tokenWish("o", "ops")))
	ops := actorNamed("o")
	b.ok(by(ops, planOp("p", rota.PlanReprioritise, "error~swordfish", urgency(3))))
	if got := counts(b.runPlan("p", 500)); got != "DONE 0 0 0" {
		t.Error(got)
	}
	b.ok(by(ops, planOp("n", rota.PlanReprioritise, "-error~swordfish", urgency(4))))
	if got := counts(b.runPlan("n", 500)); got != "DONE 1 0 0" {
		t.Error(got)
	}
}

// TestStepOf_bytes checks that a step has as many jobs as fit in its bytes, or one.
func TestStepOf_bytes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.every = 1 << 20
	for i := range 5 {
		b.submit(fmt.Sprint("j", i), func(s *rota.JobSpec) {
			s.Payload = make([]byte, []int{100_000, 100_000, 100_000, 262_144, 10}[i])
		})
		b.ok(cancelOp(fmt.Sprint("j", i)))
	}
	b.ok(planOp("p", rota.PlanRetry, "id=*"))
	var sizes []int
	for b.plan("p").State == rota.PlanRunning {
		step := b.stepOf("p", 500)
		sizes = append(sizes, len(step.GetPlanStep().GetItems()))
		b.ok(step)
	}
	if !slices.Equal(sizes, []int{2, 1, 1, 1}) || counts(b.plan("p")) != "DONE 5 0 0" {
		t.Error(sizes, counts(b.plan("p")))
	}
}

// TestPlanRow_copiesShareNoRefusals: a row in a snapshot that is being written keeps its refusals while the plan
// continues.
func TestPlanRow_copiesShareNoRefusals(t *testing.T) {
	t.Parallel()
	frozen := &plans.Row{Refusals: append(make([]rota.PlanRefusal, 0, 2), rota.PlanRefusal{Job: "a"})}
	live := *frozen
	state.Row(&live).Detach()
	live.Refusals = append(live.Refusals, rota.PlanRefusal{Job: "b"})
	if shared := frozen.Refusals[:2][1]; shared.Job != "" {
		t.Errorf("a copy appended %q to the original row's list", shared.Job)
	}
}
