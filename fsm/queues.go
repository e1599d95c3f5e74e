package fsm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/authz"
	"github.com/rotasched/rota/fsm/internal/batches"
	"github.com/rotasched/rota/fsm/internal/hooks"
	"github.com/rotasched/rota/fsm/internal/keys"
	"github.com/rotasched/rota/fsm/internal/learn"
	"github.com/rotasched/rota/fsm/internal/refuse"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
)

// setQueue creates a queue or changes its policy at run time, without losing any job's place: enqueue times are kept,
// the order is recalculated.
func (pl *placement) setQueue(op *fsmpb.SetQueue) *fsmpb.Outcome {
	name := rota.QueueName(op.GetName())
	policy, expected, err := pl.wantQueue(op, pl.s.Journal.Owner())
	if err != nil {
		return entry.Refused(err)
	}
	q := pl.s.QueueTable.Get(name)
	if q != nil && q.Says(&policy, expected) {
		return &fsmpb.Outcome{Existed: true}
	}
	if err := pl.s.Journal.Matches(queueText(q, name)); err != nil {
		return entry.Refused(err)
	}
	if q == nil {
		pl.addQueue(name, policy)
		pl.s.QueueTable.Edit(name).Expected = expected
		return &fsmpb.Outcome{}
	}
	q = pl.s.QueueTable.Edit(name)
	q.DrainTo, q.DrainFrom = "", "" // setting a queue keeps it
	pl.changeQueue(q, policy, expected)
	return &fsmpb.Outcome{Existed: true}
}

// queueText returns the name of a queue for refusals, and its version, "" for nil.
func queueText(q *state.QueueRow, name rota.QueueName) (what, etag string) {
	what = fmt.Sprintf("queue %q", name)
	if q != nil {
		etag = q.ETag()
	}
	return what, etag
}

// wantQueue returns the policy that an operation would give a queue, or its refusal; it changes nothing.
func (pl *placement) wantQueue(op *fsmpb.SetQueue, by rota.Principal) (rota.QueuePolicy, []state.ExpectedTime, error) {
	name := rota.QueueName(op.GetName())
	policy := rota.StandardPolicy()
	if err := rota.CheckID("queue", name); err != nil {
		return policy, nil, err
	}
	if pl.s.Header.Cluster == "" {
		return policy, nil, rota.Refusef(rota.KindUnavailable, "cluster", "the cluster has no leader yet: try again")
	}
	q := pl.s.QueueTable.Get(name)
	var expected []state.ExpectedTime
	if q != nil {
		policy, expected = q.Policy, q.Expected
	}
	if op.GetPreset() != "" {
		var err error
		if policy, err = rota.PresetPolicyOf(pl.s.Header.Rules, op.GetPreset()); err != nil {
			return policy, nil, err
		}
	}
	for _, s := range op.GetSet() {
		if !ascii(s.GetKey()) || !ascii(s.GetValue()) {
			// Letter case beyond ASCII depends on Unicode tables, which differ between binaries (SPEC §2.2).
			return policy, nil, rota.Refusef(rota.KindInvalid, "key", "key %q or its value is not ASCII", s.GetKey())
		}
		one := rota.Setting{Key: s.GetKey(), Value: s.GetValue()}
		typ, ms, is, err := one.Expected()
		switch {
		case err != nil:
		case is:
			expected = learn.WithExpected(expected, typ, ms)
		default:
			err = policy.Set(one)
		}
		if err != nil {
			return policy, nil, err
		}
	}
	if len(expected) > limits.MaxExpectedTypes {
		return policy, nil, refuse.Exhausted("expected", "expected times are set for %d types: at most %d are taken",
			len(expected),
			limits.MaxExpectedTypes)
	}
	if err := policy.Check(); err != nil {
		return policy, nil, err
	}
	if q == nil {
		return policy, expected, pl.mayAddQueue(by)
	}
	if pl.keyring.Groups[name] != nil {
		err := keys.Turnless(name, &policy)
		return policy, expected, err
	}
	return policy, expected, nil
}

// mayAddQueue refuses a new queue if a limit is reached.
func (pl *placement) mayAddQueue(by rota.Principal) error {
	if pl.s.QueueTable.Len() >= limits.MaxQueues {
		return refuse.Exhausted("queue", "%d queues exist: no more are taken", limits.MaxQueues)
	}
	if err := pl.admission.admitBytes(nil, "", 1); err != nil {
		return err
	}
	return pl.access.MayHold(by, access.OwnsQueue)
}

// PreviewQueue returns a queue as an operation would set it, with the changes of its policy; its counters are the
// current ones. The error is the refusal that the operation would get.
func PreviewQueue(vw *View, op *fsmpb.Op) (rota.Queue, error) {
	name := rota.QueueName(op.GetSetQueue().GetName())
	policy, expected, err := vw.m.placement.wantQueue(op.GetSetQueue(), rota.Principal(op.GetActor()))
	if err != nil {
		return rota.Queue{}, err
	}
	was := vw.m.QueueTable.Get(name)
	if was == nil || !was.Says(&policy, expected) {
		what, etag := queueText(was, name)
		if err := access.Matches(op.GetIfMatch(), what, etag); err != nil {
			return rota.Queue{}, err
		}
	}
	made := state.QueueRow{Policy: policy, Expected: expected}
	if was == nil {
		usual := rota.StandardPolicy()
		changes := append([]rota.SettingChange{{Key: "preset", To: policy.Preset}}, usual.Differences(&policy)...)
		return rota.Queue{Name: name, Policy: policy, ETag: made.ETag(),
			Changes: append(changes, expectedChanges(nil, expected)...)}, nil
	}
	q := vw.queueWords(was)
	q.Policy, q.ETag = policy, made.ETag()
	if was.Policy.Preset != policy.Preset {
		q.Changes = append(q.Changes, rota.SettingChange{Key: "preset", From: was.Policy.Preset, To: policy.Preset})
	}
	q.Changes = append(append(q.Changes, was.Policy.Differences(&policy)...),
		expectedChanges(was.Expected, expected)...)
	if was.DrainTo != "" {
		q.Changes = append(q.Changes, rota.SettingChange{Key: "drain_to", From: string(was.DrainTo)})
	}
	return q, nil
}

// expectedChanges returns the types whose expected times differ; both lists are sorted by type.
func expectedChanges(from, to []state.ExpectedTime) (changes []rota.SettingChange) {
	for len(from)+len(to) > 0 {
		var c rota.SettingChange
		switch {
		case len(to) == 0 || len(from) > 0 && from[0].Typ < to[0].Typ:
			c = rota.SettingChange{Key: expectedKey(from[0]), From: fmt.Sprint(from[0].Ms)}
			from = from[1:]
		case len(from) == 0 || to[0].Typ < from[0].Typ:
			c = rota.SettingChange{Key: expectedKey(to[0]), To: fmt.Sprint(to[0].Ms)}
			to = to[1:]
		default:
			c = rota.SettingChange{Key: expectedKey(to[0]), From: fmt.Sprint(from[0].Ms), To: fmt.Sprint(to[0].Ms)}
			from, to = from[1:], to[1:]
		}
		if c.From != c.To {
			changes = append(changes, c)
		}
	}
	return changes
}

func expectedKey(x state.ExpectedTime) string { return "expected." + string(x.Typ) }

func (pl *placement) changeQueue(q *state.QueueRow, policy rota.QueuePolicy, expected []state.ExpectedTime) {
	estimates := policy.Estimate != q.Policy.Estimate || policy.MaxRuntimeMs != q.Policy.MaxRuntimeMs ||
		!slices.Equal(expected, q.Expected)
	foretold := policy.Estimate != q.Policy.Estimate && (policy.Estimate.Learned() || q.Policy.Estimate.Learned()) ||
		policy.Ranking != q.Policy.Ranking && (policy.Ranking == rota.RankSmallest ||
			q.Policy.Ranking == rota.RankSmallest)
	reorder := foretold || rankedOtherwise(&q.Policy, &policy) || estimates && policy.Ranking.Estimates()
	tiered := policy.Ranking == rota.RankAdaptive && q.Policy.Ranking != rota.RankAdaptive
	before := sched.RulesOf(&q.Policy)
	oldWeight := uint64(q.Policy.Weight)
	if (policy.RenewalsMax < 0) != (q.Policy.RenewalsMax < 0) {
		pl.recountEndless(q, &policy)
	}
	old := q.Policy
	set := func() { q.Policy, q.Expected = policy, expected }
	if estimates {
		pl.reestimate(q, set)
	} else {
		set()
	}
	switch {
	case policy.Paused:
		pl.endHolds(q.Name, "QUEUE_PAUSED")
	case policy.Backfill != rota.BackfillFree && old.Backfill == rota.BackfillFree:
		pl.endHolds(q.Name, "BACKFILL") // reservations replace them
	}
	if weight := uint64(policy.Weight); weight != oldWeight {
		pl.setTurn(q, rescale(q.Turn, weight, oldWeight)) // the queue keeps its place among the others
	}
	if policy.Tiers != old.Tiers {
		pl.spreadTiers(q)
	}
	if tiered {
		pl.enterTiers(q)
	}
	if foretold {
		pl.typeStats.ForeseeAll(q)
	}
	if reorder {
		pl.refile(q, pl.registry.queues[q.Name])
	}
	if policy.WorkerLossesMax == 0 && old.WorkerLossesMax > 0 {
		pl.clearQueue(q.Name)
	}
	pl.timePromotion(q, pl.registry.queues[q.Name])
	pl.changeRules(q, before)
	pl.admission.reviewQueue(q, &old)
	pl.shorten(q, &old)
	pl.s.Journal.Emit(rota.Event{Kind: rota.EventQueueChanged, Queue: q.Name, Text: policy.Preset})
}

// rankedOtherwise reports whether keys or the draw differ between two policies.
func rankedOtherwise(a, b *rota.QueuePolicy) bool {
	return a.Ranking != b.Ranking || a.FairShare != b.FairShare || a.AgingFactorMs != b.AgingFactorMs ||
		a.WFee != b.WFee || a.WAge != b.WAge || a.WSize != b.WSize || a.WTier != b.WTier || a.FeeHalf != b.FeeHalf ||
		a.SizeHalf != b.SizeHalf || a.AgeHorizonMs != b.AgeHorizonMs || a.Tiers != b.Tiers ||
		a.ShortestAging != b.ShortestAging
}

// deleteQueue deletes a queue that nothing names (SPEC §21.4). Its ended jobs are remembered; they cannot be retried
// until the queue is set again. Workers may continue to name it.
func (pl *placement) deleteQueue(op *fsmpb.DeleteQueue) *fsmpb.Outcome {
	name := rota.QueueName(op.GetName())
	if err := rota.CheckID("queue", name); err != nil {
		return entry.Refused(err)
	}
	q := pl.s.QueueTable.Get(name)
	switch {
	case name == rota.DefaultQueue:
		return entry.Refused(rota.Refusef(rota.KindConflict, "queue",
			"queue %q is where jobs go that name none, it stays: `rota queue pause %s` "+
				"starts none of them", name, name))
	case q == nil:
		return &fsmpb.Outcome{Existed: true} // already deleted, or never created
	}
	if err := pl.s.Journal.Matches(queueText(q, name)); err != nil {
		return entry.Refused(err)
	}
	switch {
	case op.GetDrainTo() != "":
		return pl.drainQueue(q, rota.QueueName(op.GetDrainTo()))
	case q.Live() > 0:
		holds := "live jobs"
		if pl.access.CallerReads(access.Everything, name) {
			holds = fmt.Sprintf("%d live jobs", q.Live())
		}
		return entry.Refused(rota.Refusef(rota.KindConflict, "queue",
			"queue %q holds %s: let them end, cancel them, or move them with "+
				"`rota queue delete %s --drain-to OTHER`", name, holds, name))
	}
	return pl.forgetQueue(q)
}

// forgetQueue deletes a queue without live jobs, unless something names it.
func (pl *placement) forgetQueue(q *state.QueueRow) *fsmpb.Outcome {
	name := q.Name
	if err := pl.stays(name); err != nil {
		return entry.Refused(err)
	}
	if n := pl.leasing.lingers(name); n > 0 {
		return entry.Refused(rota.Refusef(rota.KindConflict, "queue",
			"the workers of %d ended jobs of queue %q have not confirmed that they have "+
				"stopped: delete it once they have, or their leases have ended", n, name))
	}
	if pl.s.Ledger.Named(q) {
		return entry.Refused(rota.Refusef(rota.KindConflict, "queue",
			"a workflow names queue %q: wait until it has ended and is forgotten", name))
	}
	pl.admission.forgetQueue(name)
	pl.typeStats.ForgetQueue(name)
	i := pl.registry.queues[name]
	pl.s.Timers.Promote.Refile(string(name), int64(i.promoteDue), 0)
	delete(pl.registry.queues, name)
	pl.registry.supply.DropQueue(name)
	pl.access.Hold(q.By, access.OwnsQueue, -1)
	pl.s.QueueTable.Drop(name)
	pl.fleet.reviewWorkers(name)
	pl.s.Journal.Emit(rota.Event{Kind: rota.EventQueueDeleted, Queue: name})
	return &fsmpb.Outcome{}
}

// drainQueue takes one step of emptying a queue into another one (SPEC §21.5): the queue refuses submissions, some of
// its pending jobs move, and once nothing names it, it is deleted. A repetition is the next step; it continues where
// the last one stopped, whichever caller sends it.
func (pl *placement) drainQueue(q *state.QueueRow, into rota.QueueName) *fsmpb.Outcome {
	if err := rota.CheckID("drain_to", into); err != nil {
		return entry.Refused(err)
	}
	switch to := pl.s.QueueTable.Get(into); {
	case into == q.Name:
		return entry.Refused(rota.Refusef(rota.KindInvalid, "drain_to",
			"queue %q cannot move its jobs to itself: name another queue", into))
	case to == nil:
		return entry.Refused(refuse.NoQueue(into))
	case to.DrainTo != "":
		return entry.Refused(refuse.Leaving(to))
	}
	if err := pl.stays(q.Name); err != nil {
		return entry.Refused(err)
	}
	left := func() int64 { return q.Live() + pl.leasing.lingers(q.Name) }
	if left() == 0 {
		return pl.forgetQueue(q)
	}
	q = pl.s.QueueTable.Edit(q.Name)
	if q.DrainTo != into {
		q.DrainTo, q.DrainFrom = into, ""
		pl.s.Journal.Emit(rota.Event{Kind: rota.EventQueueChanged, Queue: q.Name, Text: q.Policy.Preset})
	}
	for _, id := range pl.movable(q) {
		pl.moveJob(pl.s.JobTable.Edit(id), into)
	}
	if left() > 0 || pl.s.Ledger.Named(q) {
		return &fsmpb.Outcome{Left: uint64(max(left(), 1))}
	}
	return pl.forgetQueue(q)
}

// movable returns the next pending jobs of a queue that is drained, in the order of their ids from where the last step
// stopped, and advances that position. A workflow node stays, as its workflow names the queue; so does a job with
// requirements that the other queue has no room for.
func (pl *placement) movable(q *state.QueueRow) (ids []rota.JobID) {
	looked, end := 0, true
	pl.s.JobTable.Tree.Ascend(q.DrainFrom, func(id rota.JobID, j *state.JobRow) bool {
		if looked == limits.DrainLooks || len(ids) == limits.DrainMoves {
			q.DrainFrom, end = id, false
			return false
		}
		looked++
		if j.Spec.Queue == q.Name && !j.State.Leased() && j.Workflow == "" {
			ids = append(ids, id)
		}
		return true
	})
	if end {
		q.DrainFrom = "" // jobs that came back from a lease meanwhile are found from the start
	}
	return ids
}

// moveJob moves a pending job to another queue: its place by age, its dates and the hash that identifies its submission
// are kept. The other queue's queue_cap is not checked, as the job was already admitted.
func (pl *placement) moveJob(j *state.JobRow, into rota.QueueName) {
	st := j.State
	spec := j.Spec.Words()
	spec.Queue = into
	if !pl.life.classFits(&spec) {
		return
	}
	from := pl.s.QueueTable.Edit(j.Spec.Queue)
	if st == rota.JobQueued {
		pl.unfile(j, from)
		if h := pl.holds.Get(spec.ID); h != nil {
			pl.endHold(h, "JOB_MOVED")
		}
	}
	from.Count(st, -1)
	pl.registry.supply.Release(j.Class)
	pl.life.own(j)
	past := *j.History()
	past.Content, past.Changes = j.FirstContent(), past.Changes+1
	moved := pl.s.NewJob() // its own row, as the owner of a counted row never changes
	*moved, j.JobLife = *j, state.NoLife
	pl.s.JobTable.Drop(spec.ID)
	pl.keyring.Leave(moved, rota.JobNone)
	pl.budgets.Ended(spec.ID, &moved.Spec.JobSpec, true)
	moved.Spec, moved.Past = pl.s.Specs.Keep(&spec), &past
	moved.SpecHash = pl.s.Specs.Hash(&pl.s.Ledger.Enc, moved.Spec)
	moved.Tier, moved.TierAt, moved.TierSeq = 0, 0, 0
	pl.s.JobTable.Insert(spec.ID, moved)
	pl.classify(moved)
	pl.keyring.Enter(moved)
	to := pl.s.QueueTable.Edit(into)
	to.Count(st, 1)
	pl.typeStats.DeclareType(moved.Spec, to)
	if st == rota.JobQueued {
		pl.enterTier(moved, to)
		pl.file(moved, to)
	}
	pl.s.Journal.EmitFor(moved, &rota.Event{Kind: rota.EventJobChanged, Job: spec.ID, Queue: into, Tenant: spec.Tenant,
		Attempt: moved.Attempt,
		Payload: state.Payload(map[string]rota.QueueName{"queue": into})})
	if to.Policy.WorkerLossesMax == 0 && len(moved.History().Losses) > 0 {
		pl.clear(moved, "", func(rota.Session) bool { return true })
	}
}

// stays refuses to delete a queue named by something that was set explicitly and that no drain moves: the runs of a
// schedule, callbacks of batches, webhooks, a rule of keys. It names a schedule or a rule only to callers that may read
// it.
func (pl *placement) stays(name rota.QueueName) error {
	if s, named := pl.schedules.Naming(name); named {
		which := "a schedule"
		if kept := pl.schedules.Rows.Get(s).Kept; pl.access.CallerReads(kept.Tenant, kept.Queue) {
			which = fmt.Sprintf("schedule %q", s)
		}
		return rota.Refusef(rota.KindConflict, "queue",
			"the runs of %s go to queue %q: set it to another one, or delete it with "+
				"`rota schedule delete`", which, name)
	}
	if pl.batches.ToCome.Naming.Get(name) > 0 {
		return batches.OfBatches(name)
	}
	if name == rota.WebhookQueue && pl.hooks.Rows.Len() > 0 {
		return hooks.OfHooks(pl.hooks.Rows.Len())
	}
	if r := pl.keyring.Naming(name); r != nil {
		which := "a rule of keys"
		if pl.access.CallerReads(access.Everything, name) {
			which = fmt.Sprintf("the rule of key %q", strings.TrimSuffix(r.Name+":"+r.Value, ":"))
		}
		return rota.Refusef(rota.KindConflict, "queue",
			"%s is for queue %q: delete it with `rota key delete NAME --queue %s`", which, name, name)
	}
	if b := pl.budgets.Naming(name); b != nil {
		which := "a budget"
		if pl.access.CallerReads(rota.TenantID(authz.OrEverything(string(b.Tenant))), name) {
			which = fmt.Sprintf("budget %q", b.Name)
		}
		return rota.Refusef(rota.KindConflict, "queue", "%s is for queue %q: delete it with `rota budget delete`", which,
			name)
	}
	return nil
}

// drains checks the data about queues that are drained.
func (c *checker) drains() {
	c.m.QueueTable.Scan(func(name rota.QueueName, q *state.QueueRow) bool {
		if q.DrainTo == name || name == rota.DefaultQueue && q.DrainTo != "" || q.DrainTo == "" && q.DrainFrom != "" {
			c.fault("queue %s is drained to %q, from job %q on", name, q.DrainTo, q.DrainFrom)
		}
		if q.DrainTo != "" && c.m.keyring.Naming(name) != nil {
			c.fault("queue %s is drained to %q, and a rule of keys is for it", name, q.DrainTo)
		}
		if q.DrainTo != "" && c.m.budgets.Naming(name) != nil {
			c.fault("queue %s is drained to %q, and a budget is for it", name, q.DrainTo)
		}
		return true
	})
}
