package virtual

import (
	"context"
	"fmt"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/test/jepsen-lite/check"
)

// User actions of SPEC §17 to §24 are recorded as chaos histories record them, and are checked by the checkers of
// those.
var piecesJudged = []string{"schedules", "leases", "keys", "uniques", "batches", "plans", "gates", "workflows",
	"job_logs"}

// The schedules: runs of one may overlap, those of the other take longer than the distance of its dates.
var schedules = []struct {
	name    rota.ScheduleName
	overlap rota.Overlap
	every   time.Duration
	takes   time.Duration
}{{"tick", rota.OverlapAllow, 20 * time.Second, 100 * time.Millisecond}, {"tock", rota.OverlapSkip, 15 * time.Second,
	17 * time.Second}}

// keyRules are the rules of the keys that jobs may have.
var keyRules = []rota.KeyRule{{Name: "solo", Concurrency: 1}, {Name: "line", Sequence: rota.SequenceSkip}}

// makeRules sets rules of keys and schedules.
func (l *life) makeRules(ctx context.Context, admin *client.Client) {
	for _, r := range keyRules {
		if err := admin.Keys().SetRule(ctx, r); err != nil {
			l.violate("founding", "rule of key %s: %v", r.Name, err)
		}
	}
	for _, s := range schedules {
		job := rota.NewJobSpec("dated", task{takes: s.takes}.payload())
		job.Queue = queueName
		spec := rota.NewScheduleSpec(s.name, job)
		spec.Every, spec.Overlap, spec.CatchUpMax = s.every, s.overlap, rota.MaxCatchUp
		if _, err := admin.Schedules().Set(ctx, spec); err != nil {
			l.violate("founding", "schedule %s: %v", s.name, err)
		}
		l.ledger.kept.With(func(h *check.History) {
			h.Schedules = append(h.Schedules, check.ScheduleFacts{Name: string(s.name), EveryMs: s.every.Milliseconds(),
				InTurn: s.overlap != rota.OverlapAllow})
		})
	}
}

// isRun reports whether a job is a run of a schedule.
func isRun(job rota.JobID) bool {
	name, ok := rota.SplitRunID(job)
	return ok && (name == schedules[0].name || name == schedules[1].name)
}

// pauseSchedules stops new dates; the counts at that moment are kept.
func (l *life) pauseSchedules(ctx context.Context, admin *client.Client) error {
	for i := range schedules {
		s, err := admin.Schedules().Pause(ctx, schedules[i].name, "all is healed")
		if err != nil {
			return err
		}
		l.ledger.kept.With(func(h *check.History) {
			f := &h.Schedules[i]
			f.Known, f.Runs, f.Skipped, f.Missed = true, s.Runs, s.Skipped, s.Missed
		})
	}
	return nil
}

// resumeSchedules fires the dates of the pause, too.
func (l *life) resumeSchedules(admin *client.Client) {
	ctx, cancel := context.WithTimeout(l.ctx, leaderWithin)
	defer cancel()
	for i := range schedules {
		if _, err := admin.Schedules().Resume(ctx, schedules[i].name, true); err != nil && l.ctx.Err() == nil {
			l.violate("a healed cluster takes commands", "schedule %s cannot be resumed: %v", schedules[i].name, err)
		}
	}
}

// holds records that a handler has begun a job, and whose payload it got.
func (l *ledger) holds(r *workerRun, job *client.Job, mark string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead[r] {
		return
	}
	now := l.kept.Now()
	l.kept.Add(check.Op{Process: string(r.id), Func: check.OpStart, Job: string(job.ID()), Lease: job.Lease().String(),
		Token: job.Token(), Invoke: now, Return: now, Outcome: check.OK, Output: mark})
}

// logLines is how many lines a handler logs under a lease: none for many.
func logLines(lease rota.LeaseID) int {
	if lease[0]%8 != 0 {
		return 0
	}
	return 1 + int(lease[1])%50
}

// piece performs one of the actions that pieces.go checks.
func (u *user) piece() {
	switch u.random.IntN(5) {
	case 0:
		u.batch()
	case 1:
		u.unique()
	case 2:
		u.plan()
	case 3:
		u.gates()
	default:
		u.keyed()
	}
}

// mint returns a job under an id of its own, which is short.
func (u *user) mint(typ rota.JobType, t task) rota.JobSpec {
	u.minted++
	t.takes = min(t.takes, 2*time.Second)
	id := rota.JobID(fmt.Sprintf("%s-%d", u.host, u.minted))
	if typ == "unique" {
		t.mark = string(id)
	}
	s := rota.NewJobSpec(typ, t.payload())
	s.ID, s.Queue = id, queueName
	u.life.ledger.change(s.ID, func(*jobRecord) {})
	return s
}

// insist calls node after node until there is an outcome.
func (u *user) insist(op check.Op, call func(context.Context, *client.Client, *check.Op) error) check.Outcome {
	kept := u.life.ledger.kept
	for u.life.ctx.Err() == nil {
		now := op
		now.Process, now.Invoke = string(u.host), kept.Now()
		_, err := callElsewhere(u, func(ctx context.Context, c *client.Client) (struct{}, error) {
			return struct{}{}, call(ctx, c, &now)
		})
		now = now.Done(kept, err)
		if kept.Add(now); now.Outcome != check.Unknown {
			return now.Outcome
		}
	}
	return check.Unknown
}

func (u *user) batch() {
	u.minted++
	f := check.BatchFacts{ID: fmt.Sprintf("%s-b%d", u.host, u.minted), At: u.life.ledger.kept.Now()}
	jobs := make([]rota.JobSpec, u.random.IntN(5))
	for i := range jobs {
		jobs[i] = u.mint("batched", drawTask(u.random))
		jobs[i].Batch = rota.BatchID(f.ID)
		f.Jobs = append(f.Jobs, string(jobs[i].ID))
	}
	if u.random.IntN(2) == 0 {
		f.Size = int64(max(1, len(jobs)-u.random.IntN(2)))
	}
	spec := rota.BatchSpec{ID: rota.BatchID(f.ID), Size: f.Size,
		Callback: rota.NewJobSpec("callback", task{}.payload())}
	spec.Callback.Queue = queueName
	u.life.ledger.change(rota.CallbackID(spec.ID), func(*jobRecord) {})
	at, kept := 0, u.life.ledger.kept
	kept.With(func(h *check.History) { at, h.Batches = len(h.Batches), append(h.Batches, f) })
	if u.insist(check.Op{}, func(ctx context.Context, c *client.Client, _ *check.Op) error {
		_, err := client.BatchesOf(c).Open(ctx, spec)
		return err
	}) != check.OK {
		return
	}
	kept.With(func(h *check.History) { h.Batches[at].Opened = true })
	u.offer(jobs)
	sealed := u.insist(check.Op{}, func(ctx context.Context, c *client.Client, _ *check.Op) error {
		_, err := client.BatchesOf(c).Seal(ctx, spec.ID)
		return err
	})
	kept.With(func(h *check.History) { h.Batches[at].Sealed = sealed == check.OK })
}

// unique submits a few jobs under one of the keys that all users share.
func (u *user) unique() {
	f := check.UniqueFacts{Key: fmt.Sprintf("only-%d", u.random.IntN(2))}
	for range 1 + u.random.IntN(4) {
		s := u.mint("unique", drawTask(u.random))
		s.Unique = &rota.Unique{Key: f.Key, OnConflict: []string{rota.UniqueRefuse, rota.UniqueExisting,
			rota.UniqueReplace, rota.UniqueExtend}[u.random.IntN(4)]}
		s.Delay = time.Duration(u.random.IntN(2)*u.random.IntN(2_000)) * time.Millisecond
		f.Subs = append(f.Subs, check.UniqueAsked{ID: string(s.ID), OnConflict: s.Unique.OnConflict})
		u.offer([]rota.JobSpec{s})
	}
	u.life.ledger.kept.With(func(h *check.History) { h.Uniques = append(h.Uniques, f) })
}

// keyed submits jobs with a key of the user's own one by one.
func (u *user) keyed() {
	rule := keyRules[u.random.IntN(len(keyRules))]
	u.minted++
	f := check.KeyFacts{Key: fmt.Sprintf("%s:%s-%d", rule.Name, u.host, u.minted), Most: 1,
		Sequence: rule.Sequence != rota.SequenceNone}
	for range 2 + u.random.IntN(3) {
		s := u.mint("keyed", drawTask(u.random))
		s.Keys = []string{f.Key}
		for _, id := range u.offer([]rota.JobSpec{s}) {
			f.Jobs = append(f.Jobs, string(id))
		}
	}
	u.life.ledger.kept.With(func(h *check.History) { h.Keyed = append(h.Keyed, f) })
}

// plan submits pending jobs, and processes them with plans until all are cancelled, some of them again.
func (u *user) plan() {
	u.minted++
	group := fmt.Sprintf("%s-g%d", u.host, u.minted)
	var specs []rota.JobSpec
	var jobs []string
	for range 2 + u.random.IntN(8) {
		s := u.mint("planned", task{takes: time.Second})
		s.Delay, s.Labels = 20*time.Second, map[string]string{"group": group}
		u.life.ledger.change(s.ID, func(r *jobRecord) { r.cancelled, r.retried = 1, 1 })
		specs, jobs = append(specs, s), append(jobs, string(s.ID))
	}
	u.offer(specs)
	priority := int32(u.random.IntN(rota.DefaultPriority))
	for n, spec := range []rota.PlanSpec{{Verb: rota.PlanReprioritise, Priority: &priority},
		{Verb: rota.PlanMove, To: steadyQueue},
		{Verb: rota.PlanCancel, Max: 2}, {Verb: rota.PlanCancel}, {Verb: rota.PlanRetry, Max: 3}} {
		if n < 3 && u.random.IntN(2) == 0 {
			continue
		}
		spec.ID, spec.Filter = rota.PlanID(fmt.Sprintf("%s-p%d", group, n)), "label.group="+group
		if spec.Verb == rota.PlanRetry {
			spec.Filter += " state=CANCELLED,DEAD"
		}
		u.planned(spec, jobs)
	}
}

// planned starts one plan and waits until it is over.
func (u *user) planned(spec rota.PlanSpec, jobs []string) {
	at, kept := 0, u.life.ledger.kept
	f := check.PlanFacts{ID: string(spec.ID), Verb: spec.Verb.String(), To: string(spec.To), Max: spec.Max,
		At: kept.Now(), Jobs: jobs}
	kept.With(func(h *check.History) { at, h.Plans = len(h.Plans), append(h.Plans, f) })
	if u.insist(check.Op{}, func(ctx context.Context, c *client.Client, _ *check.Op) error {
		_, err := client.PlansOf(c).Start(ctx, spec)
		return err
	}) != check.OK {
		return
	}
	kept.With(func(h *check.History) { h.Plans[at].Started = true })
	for u.life.pause(time.Second) {
		plan, err := callElsewhere(u, func(ctx context.Context, c *client.Client) (rota.Plan, error) {
			return client.PlansOf(c).Get(ctx, spec.ID)
		})
		if err == nil && plan.State != rota.PlanRunning {
			kept.With(func(h *check.History) { h.Plans[at].Shown = &plan })
			return
		}
	}
}

// gates submits a workflow of a node that grows others, a gate after it and a node after that, and signals the gate, or
// lets its time pass.
func (u *user) gates() {
	u.minted++
	id := rota.WorkflowID(fmt.Sprintf("%s-w%d", u.host, u.minted))
	grows, root := &rota.Growth{Detached: u.random.IntN(4) == 0}, check.NodeFacts{ID: "a"}
	for k := range 1 + u.random.IntN(3) {
		child := rota.NewNodeSpec(fmt.Sprint("c", k), "flow", task{takes: time.Second}.payload())
		if k == 1 {
			child.Parents = []string{"c0"}
		}
		grows.Children = append(grows.Children, child)
		root.Grows = append(root.Grows, check.NodeFacts{ID: child.ID, Parents: child.Parents})
	}
	root.Detached = grows.Detached
	gate := check.NodeFacts{ID: "g", Parents: []string{"a"}, Gate: true}
	spec := rota.WorkflowSpec{ID: id, Queue: queueName, OnFailure: rota.FailureContinue, Nodes: []rota.NodeSpec{
		rota.NewNodeSpec("a", "flow", task{takes: time.Second, grows: grows}.payload()),
		{ID: "g", Parents: []string{"a"}, Gate: &rota.Gate{}},
		rota.NewNodeSpec("b", "flow", task{takes: time.Second}.payload(), "g")}}
	if u.random.IntN(2) == 0 {
		spec.Nodes[1].Gate.Timeout, spec.Nodes[1].Gate.OnTimeout = time.Duration(1+u.random.IntN(
			8))*time.Second, rota.GateTimeout(u.random.IntN(2))
		gate.TimeoutMs, gate.OnTimeout = spec.Nodes[1].Gate.Timeout.Milliseconds(), spec.Nodes[1].Gate.OnTimeout.String()
	}
	for _, node := range []string{"a", "b", "c0", "c1", "c2"} {
		u.life.ledger.change(rota.NodeJobID(id, node), func(r *jobRecord) { r.cancelled = 1 })
	}
	u.life.ledger.kept.With(func(h *check.History) {
		h.Flows = append(h.Flows, check.FlowFacts{ID: string(id), OnFailure: spec.OnFailure.String(),
			Nodes: []check.NodeFacts{root, gate, {ID: "b", Parents: []string{"g"}}}})
	})
	op := check.Op{Func: check.OpFlowSubmit, Flow: string(id)}
	if u.insist(op, func(ctx context.Context, c *client.Client, _ *check.Op) error {
		_, err := c.SubmitWorkflow(ctx, spec)
		return err
	}) != check.OK || gate.TimeoutMs > 0 && u.random.IntN(2) == 0 {
		return
	}
	u.life.pause(time.Duration(u.random.Int64N(int64(4 * time.Second))))
	op = check.Op{Func: check.OpSignal, Flow: string(id), Did: "g"}
	for k := range 2 + u.random.IntN(2) {
		s := rota.Signal{Workflow: id, Node: "g", ID: fmt.Sprint("s", k/2), Refuse: k < 2 && u.minted%8 == 0}
		s.Payload, op.Output = rota.Blob(s.ID), s.ID
		u.insist(op, func(ctx context.Context, c *client.Client, op *check.Op) error {
			answer, err := c.SignalWorkflow(ctx, s)
			op.Existed = answer.Existed
			return err
		})
	}
}

// judgePieces reads the data that the checkers of chaos histories need at the end, and runs them.
func (l *life) judgePieces(ctx context.Context) {
	var h check.History
	l.ledger.kept.With(func(kept *check.History) { h = *kept })
	h.End, h.Liveness.Listed = l.ledger.kept.Now(), true
	c := l.dial("audit", l.servers[:1])
	defer c.Close()
	for job, err := range c.Jobs(ctx, rota.JobFilter{}) {
		if err != nil {
			l.violate("jobs can be listed", "%v", err)
			return
		}
		h.Final = append(h.Final, check.FinalJob{ID: string(job.ID), State: job.State.String(),
			Output: string(job.Output)})
	}
	for i := range h.Batches {
		f := &h.Batches[i]
		b, err := client.BatchesOf(c).Get(ctx, rota.BatchID(f.ID))
		callback, err2 := c.Job(ctx, rota.CallbackID(rota.BatchID(f.ID)))
		if err == nil && err2 == nil {
			f.Shown, f.Labels = &b, callback.Labels
		}
	}
	for i := range h.Flows {
		flow, err := c.WorkflowGraph(ctx, rota.WorkflowID(h.Flows[i].ID))
		if err != nil {
			continue // it is lost, or was never accepted: the checker knows
		}
		f := check.FinalFlow{ID: h.Flows[i].ID, State: flow.State.String(), Runs: flow.Runs,
			Nodes: make(map[string]string)}
		for k := range flow.Nodes {
			f.Nodes[flow.Nodes[k].ID] = flow.Nodes[k].State.String()
		}
		h.FinalFlows = append(h.FinalFlows, f)
	}
	h.JobLogs = l.readJobLogs(ctx)
	for _, a := range check.JudgeOnly(&h, piecesJudged...) {
		l.violate("what users did of schedules, keys, plans, gates and batches", "%s %v", a.Text, a.IDs)
	}
	l.figures.pieces += len(h.Batches) + len(h.Plans) + len(h.Flows) + len(h.Uniques) + len(h.Keyed)
}

// logsRead is the number of attempts whose log is read at each node.
const logsRead = 20

func (l *life) readJobLogs(ctx context.Context) (all []check.LogRead) {
	l.ledger.mu.Lock()
	logged := l.ledger.logged
	l.ledger.mu.Unlock()
	for i := range l.servers {
		c := l.dial("audit", l.servers[i:i+1])
		for k := 0; k < len(logged); k += 1 + len(logged)/logsRead {
			of := rota.LogOf{Job: rota.JobID(logged[k].Job)}
			read := check.LogRead{Node: string(l.servers[i].id()), Job: logged[k].Job, Lease: logged[k].Lease,
				Lines: logged[k].Lines}
			err := of.Lease.UnmarshalText([]byte(read.Lease))
			log, err2 := client.JobLog(ctx, c, of)
			if err == nil {
				err = err2
			}
			read.Read(&log, err)
			all = append(all, read)
		}
		_ = c.Close()
	}
	return all
}
