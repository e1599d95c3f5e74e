package whatif

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// near reports whether two figures in seconds are the same, except for the time that a worker takes to answer.
func near(got, want float64) bool { return got > want-0.02 && got < want+0.02 }

// flow submits a workflow of a tenant.
func (l *leader) flow(id rota.WorkflowID, tenant rota.TenantID, nodes ...rota.NodeSpec) {
	l.t.Helper()
	spec := rota.WorkflowSpec{ID: id, Tenant: tenant, Queue: rota.DefaultQueue, Nodes: nodes}
	graph, err := spec.Arrange()
	if err != nil {
		l.t.Fatal(err)
	}
	content := [16]byte{1}
	l.log(entry.OpenWorkflowOp(&spec, graph, content))
	l.log(entry.AddNodesOps(&spec, graph, content, 0)...)
	l.log(entry.CommitWorkflowOp(id, content))
	l.decide()
}

func node(id string, runs time.Duration, parents ...string) rota.NodeSpec {
	n := rota.NewNodeSpec(id, "step", nil, parents...)
	n.Simulate = runs * time.Second
	return n
}

// TestRun_workflow checks that nodes are released as their parents end, in each history by its own ends. One worker
// runs two nodes that become ready at once one after another, two workers run them at the same time.
func TestRun_workflow(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	l.set("fair_share", "off", "oldest_every", "0")
	l.worker("w", 1)
	first := node("b", 10, "a")
	first.Priority = 1 // otherwise the first of the two is drawn
	l.flow("f", "flows", node("a", 10), first, node("c", 10, "a"), node("d", 5, "b", "c"))
	l.until(l.now + 5_000)
	l.submit(jobSpec("single", 1_000)) // waits for a, and for b or c
	l.until(l.now + 60_000)
	r := mustRun(t, &Plan{Log: l, Change: change(t, nil, "+2xw")})
	control, changed := r.Histories[1], r.Histories[2]
	if c := r.Control; c.Verdict() != Equal || c.Decisions != 5 || control.Common != 5 || control.Completed != 5 {
		t.Fatalf("control %+v, %+v, %+v", c, c.Difference, control)
	}
	if r.Parting == nil || changed.Completed != 5 || changed.Filled != 0 || changed.Refused != 0 ||
		!near(changed.WaitMaxS, 0) || control.WaitMaxS < 5 {
		t.Errorf("the histories differ at %+v: control %+v, changed %+v", r.Parting, control, changed)
	}
	plan := &Plan{Log: l}
	plan.Change.Without = "flows"
	r = mustRun(t, plan)
	if changed = r.Histories[2]; changed.Jobs != 1 || changed.Completed != 1 || !near(changed.WaitMaxS, 0) ||
		len(changed.Tenants) != 1 {
		t.Errorf("without the workflow's tenant: %+v", changed)
	}
}

// fire makes the leader decide the dates of a schedule that are due.
func (l *leader) fire(name rota.ScheduleName, every int64) {
	due, ok := fsm.DueOf(&l.m.View, name)
	if !ok {
		l.t.Fatalf("no schedule %s", name)
	}
	until := int64(l.m.Head().Date)
	op := &fsmpb.Fire{Name: string(name), Version: due.Version, FromMs: int64(due.Through), UntilMs: until,
		Tzdata: "test"}
	for d := int64(due.Through)/every*every + every; d <= until; d += every {
		op.DatesMs = append(op.DatesMs, d)
	}
	if len(op.DatesMs) > 0 {
		l.log(&fsmpb.Op{Op: &fsmpb.Op_Fire{Fire: op}})
		l.decide()
	}
}

// TestRun_schedule checks that a schedule's runs start on its dates in each history, and not at all without its tenant.
func TestRun_schedule(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	l.set("fair_share", "off", "oldest_every", "0", "ranking", "fifo")
	l.worker("w", 1)
	run := rota.NewJobSpec("tick", nil)
	run.Tenant, run.Simulate = "clock", 6*time.Second
	spec := rota.NewScheduleSpec("s", run)
	spec.Every, spec.Overlap = 10*time.Second, rota.OverlapAllow
	l.log(entry.ScheduleOp(&spec))
	for range 6 {
		l.until(l.now + 10_000)
		l.fire("s", 10_000)
		l.submit(jobSpec("j"+l.m.Head().Date.String(), 3_000)) // waits for the run that was fired now
	}
	l.until(l.now + 20_000)
	r := mustRun(t, &Plan{Log: l, Change: change(t, nil, "+1xw")})
	control, changed := r.Histories[1], r.Histories[2]
	if c := r.Control; c.Verdict() != Equal || c.Decisions < 11 || control.Common != c.Decisions ||
		control.Completed != c.Decisions {
		t.Fatalf("control %+v, %+v, %+v", c, c.Difference, control)
	}
	if !near(control.WaitMaxS, 6) || changed.Completed != control.Completed || !near(changed.WaitMaxS, 0) ||
		changed.Refused != 0 {
		t.Errorf("control %+v, changed %+v", control, changed)
	}
	plan := &Plan{Log: l}
	plan.Change.Without = "clock"
	r = mustRun(t, plan)
	if changed = r.Histories[2]; changed.Jobs != 6 || changed.Completed != 6 || !near(changed.WaitMaxS, 0) ||
		changed.Refused != 0 {
		t.Errorf("without the schedule's tenant: %+v", changed)
	}
	midst := mustRun(t, &Plan{Log: l, Since: l.m.Head().Date - 45_000,
		Change: Change{Without: "clock"}}) // the schedule exists already
	if h := midst.Histories[2]; h.Jobs == 0 || h.Refused != 0 || len(h.Tenants) != 1 ||
		h.Tenants[0].Of != string(rota.DefaultTenant) || midst.Histories[1].Jobs <= h.Jobs {
		t.Errorf("without the schedule's tenant, from the middle: %+v", h)
	}
}

// poll makes a polling worker offer a slot for 8 s.
func (l *leader) poll(id rota.WorkerID, number uint64) {
	session, _ := l.m.Session(id)
	l.log(&fsmpb.Op{Op: &fsmpb.Op_Offer{Offer: &fsmpb.Offer{Worker: string(id), Session: uint64(session), Poll: number,
		Free: 1, UntilMs: l.now + 8_000}}})
	l.decide()
}

// TestRun_polls checks that a polling worker gets leases when it polled in the record, whichever they are then: with
// the shortest first the third job starts at the third poll, although the second ended long before.
func TestRun_polls(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	l.set("ranking", "fifo", "fair_share", "off")
	spec := rota.WorkerSpec{ID: "p", Queues: []rota.QueueName{rota.DefaultQueue}, Slots: 1}
	l.log(&fsmpb.Op{Op: &fsmpb.Op_Register{Register: &fsmpb.Register{Spec: entry.WorkerOp(&spec),
		SecretHash: make([]byte, 32), Polls: true}}})
	l.poll("p", 1)
	for _, j := range []struct {
		id   string
		runs int64
	}{{"first", 10_000}, {"long", 10_000}, {"short", 2_000}} {
		s := jobSpec(j.id, j.runs)
		s.Expected = s.Simulate
		l.submit(s)
		l.until(l.now + 1_000)
	}
	for n := range uint64(3) { // 12 s, 24 s and 36 s after the first poll
		l.until(begins + int64(n+1)*12_000)
		l.poll("p", n+2)
	}
	l.until(l.now + 10_000)
	r := mustRun(t, &Plan{Log: l, Change: change(t, []string{"default.ranking=shortest", "default.estimate=user",
		"default.shortest_aging=0"})})
	control, changed := r.Histories[1], r.Histories[2]
	if c := r.Control; c.Verdict() != Equal || c.Decisions != 3 || control.Common != 3 || !near(control.WaitMaxS, 22) {
		t.Fatalf("control %+v, %+v, %+v", c, c.Difference, control)
	}
	if p := r.Parting; p == nil || p.Record.Job != "long" || p.WhatIf.Job != "short" || p.WhatIf.Worker != "p" {
		t.Errorf("the histories differ at %+v", p)
	}
	if changed.Completed != 3 || !near(changed.WaitMaxS, 23) || changed.Filled != 0 || len(r.Losers) != 1 ||
		r.Losers[0].Job != "long" {
		t.Errorf("changed %+v, loses %+v", changed, r.Losers)
	}
	if r := mustRun(t, &Plan{Log: l, Change: change(t, nil, "+1xp")}); r.Histories[2].Completed != 3 ||
		!strings.HasPrefix(string(r.Parting.WhatIf.Worker), "what-if-") {
		t.Errorf("with another like it: %+v, differ at %+v", r.Histories[2], r.Parting)
	}
}

// TestRun_leave checks a worker that leaves when it is idle in the record: the jobs that another history gave it end
// before it leaves, and it gets no further ones. A worker that an operator retires, or whose id is registered again,
// leaves when it did in the record, and its job starts again.
func TestRun_leave(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name       string
		own, again bool
		starts     int64
		waits, use float64 // use is of the slots, which a worker offers until it leaves
	}{
		{"of itself", true, false, 3, 19, 21.0 / (2*20 + 2*30)},
		{"by an operator", false, false, 4, 29, 22.0 / (2*11 + 2*30)},
		{"registered again", true, true, 4, 14, 26.0 / (2*60 + 2*30)},
	} {
		l := newLeader(t)
		l.set("ranking", "fifo", "fair_share", "off")
		l.worker("w", 2)
		for _, id := range []string{"a", "b"} { // at the same time here, one after another under the change
			l.submit(jobSpec(id, 10_000))
		}
		l.until(begins + 11_000)
		w, _ := l.m.Worker("w")
		bye := &fsmpb.SetStatus{Worker: "w", Status: uint32(rota.WorkerRetired)}
		if test.own {
			bye.Session = uint64(w.Session)
		}
		l.log(&fsmpb.Op{Op: &fsmpb.Op_SetStatus{SetStatus: bye}})
		l.submit(jobSpec("c", 1_000))
		if test.again {
			l.until(begins + 15_000)
			l.worker("w", 2)
		}
		l.until(begins + 30_000)
		l.worker("v", 2)
		l.until(begins + 60_000)
		r := mustRun(t, &Plan{Log: l, Change: change(t, []string{"default.leases_max_per_worker=1"})})
		record, h := r.Histories[0], r.Histories[2]
		if r.Parting == nil || record.Decisions != 3 || h.Completed != 3 || h.Decisions != test.starts ||
			h.Refused != 0 || h.Filled != 0 ||
			h.WaitMaxS < test.waits-0.02 || h.WaitMaxS > test.waits+0.3 || !near(h.Utilisation, test.use) {
			t.Errorf("%s: differ at %v, record %+v, changed %+v", test.name, r.Parting != nil, record, h)
		}
	}
}

// TestRun_open counts the jobs that are running, or pending, when the window ends.
func TestRun_open(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	l.worker("w", 1)
	for i := range 5 {
		l.submit(jobSpec(fmt.Sprint("j", i), 10_000))
	}
	l.until(begins + 15_000)
	r := mustRun(t, &Plan{Log: l, Change: change(t, nil, "+1xw")})
	for i, want := range []Group{{Completed: 1, Working: 1, Waiting: 3}, {Completed: 1, Working: 1, Waiting: 3},
		{Completed: 2, Working: 2, Waiting: 1}} {
		if h := r.Histories[i]; h.Jobs != 5 || h.Completed != want.Completed || h.Working != want.Working ||
			h.Waiting != want.Waiting {
			t.Errorf("%s: %+v", h.Name, h)
		}
	}
}
