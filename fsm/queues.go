package fsm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
)

// setQueue creates a queue or changes its policy at run time, without losing
// anybody's place: enqueue times stay, the order is computed anew.
func (pl *placement) setQueue(op *fsmpb.SetQueue) *fsmpb.Outcome {
	name := rota.QueueName(op.GetName())
	policy, expected, err := pl.wantQueue(op, pl.s.journal.owner())
	if err != nil {
		return entry.Refused(err)
	}
	q := pl.s.queues.get(name)
	if q != nil && q.says(&policy, expected) {
		return &fsmpb.Outcome{Existed: true}
	}
	if err := pl.s.journal.matches(queueText(q, name)); err != nil {
		return entry.Refused(err)
	}
	if q == nil {
		pl.addQueue(name, policy)
		pl.s.queues.edit(name).expected = expected
		return &fsmpb.Outcome{}
	}
	q = pl.s.queues.edit(name)
	q.drainTo, q.drainFrom = "", "" // who sets it keeps it
	pl.changeQueue(q, policy, expected)
	return &fsmpb.Outcome{Existed: true}
}

// queueText returns the name of a queue for refusals, and its version, "" for nil.
func queueText(q *queueRow, name rota.QueueName) (what, etag string) {
	what = fmt.Sprintf("queue %q", name)
	if q != nil {
		etag = q.etag()
	}
	return what, etag
}

// wantQueue returns the policy that an operation would give a queue, or its refusal; it changes nothing.
func (pl *placement) wantQueue(op *fsmpb.SetQueue, by rota.Principal) (rota.QueuePolicy, []expectedTime, error) {
	name := rota.QueueName(op.GetName())
	policy := rota.StandardPolicy()
	if err := rota.CheckID("queue", name); err != nil {
		return policy, nil, err
	}
	if pl.s.head.cluster == "" {
		return policy, nil, rota.Refusef(rota.KindUnavailable, "cluster", "the cluster has no leader yet: try again")
	}
	q := pl.s.queues.get(name)
	var expected []expectedTime
	if q != nil {
		policy, expected = q.policy, q.expected
	}
	if op.GetPreset() != "" {
		var err error
		if policy, err = rota.PresetPolicyOf(pl.s.head.rules, op.GetPreset()); err != nil {
			return policy, nil, err
		}
	}
	for _, s := range op.GetSet() {
		if !ascii(s.GetKey()) || !ascii(s.GetValue()) {
			// Letter case beyond ASCII is a matter of Unicode tables, which differ
			// between binaries (SPEC §2.2).
			return policy, nil, rota.Refusef(rota.KindInvalid, "key", "key %q or its value is not ASCII", s.GetKey())
		}
		one := rota.Setting{Key: s.GetKey(), Value: s.GetValue()}
		typ, ms, is, err := one.Expected()
		switch {
		case err != nil:
		case is:
			expected = withExpected(expected, typ, ms)
		default:
			err = policy.Set(one)
		}
		if err != nil {
			return policy, nil, err
		}
	}
	if len(expected) > limits.MaxExpectedTypes {
		return policy, nil, exhausted("expected", "expected times are set for %d types: at most %d are taken", len(expected),
			limits.MaxExpectedTypes)
	}
	if err := policy.Check(); err != nil {
		return policy, nil, err
	}
	if q == nil {
		return policy, expected, pl.mayAddQueue(by)
	}
	if pl.keyring.groups[name] != nil {
		err := turnless(name, &policy)
		return policy, expected, err
	}
	return policy, expected, nil
}

// mayAddQueue refuses a new queue if a limit is reached.
func (pl *placement) mayAddQueue(by rota.Principal) error {
	if pl.s.queues.len() >= limits.MaxQueues {
		return exhausted("queue", "%d queues exist: no more are taken", limits.MaxQueues)
	}
	if err := pl.admission.admitBytes(nil, "", 1); err != nil {
		return err
	}
	return pl.access.mayHold(by, access.OwnsQueue)
}

// PreviewQueue returns a queue as an operation would set it, with the changes of its policy; its
// counters are the current ones. The error is the refusal that the operation would get.
func PreviewQueue(vw *View, op *fsmpb.Op) (rota.Queue, error) {
	name := rota.QueueName(op.GetSetQueue().GetName())
	policy, expected, err := vw.m.placement.wantQueue(op.GetSetQueue(), rota.Principal(op.GetActor()))
	if err != nil {
		return rota.Queue{}, err
	}
	was := vw.m.queues.get(name)
	if was == nil || !was.says(&policy, expected) {
		what, etag := queueText(was, name)
		if err := access.Matches(op.GetIfMatch(), what, etag); err != nil {
			return rota.Queue{}, err
		}
	}
	made := queueRow{policy: policy, expected: expected}
	if was == nil {
		usual := rota.StandardPolicy()
		changes := append([]rota.SettingChange{{Key: "preset", To: policy.Preset}}, usual.Differences(&policy)...)
		return rota.Queue{Name: name, Policy: policy, ETag: made.etag(), Changes: append(changes, expectedChanges(nil, expected)...)}, nil
	}
	q := vw.queueWords(was)
	q.Policy, q.ETag = policy, made.etag()
	if was.policy.Preset != policy.Preset {
		q.Changes = append(q.Changes, rota.SettingChange{Key: "preset", From: was.policy.Preset, To: policy.Preset})
	}
	q.Changes = append(append(q.Changes, was.policy.Differences(&policy)...), expectedChanges(was.expected, expected)...)
	if was.drainTo != "" {
		q.Changes = append(q.Changes, rota.SettingChange{Key: "drain_to", From: string(was.drainTo)})
	}
	return q, nil
}

// expectedChanges lists the types whose expected times differ; both lists are sorted by type.
func expectedChanges(from, to []expectedTime) (changes []rota.SettingChange) {
	for len(from)+len(to) > 0 {
		var c rota.SettingChange
		switch {
		case len(to) == 0 || len(from) > 0 && from[0].typ < to[0].typ:
			c = rota.SettingChange{Key: expectedKey(from[0]), From: fmt.Sprint(from[0].ms)}
			from = from[1:]
		case len(from) == 0 || to[0].typ < from[0].typ:
			c = rota.SettingChange{Key: expectedKey(to[0]), To: fmt.Sprint(to[0].ms)}
			to = to[1:]
		default:
			c = rota.SettingChange{Key: expectedKey(to[0]), From: fmt.Sprint(from[0].ms), To: fmt.Sprint(to[0].ms)}
			from, to = from[1:], to[1:]
		}
		if c.From != c.To {
			changes = append(changes, c)
		}
	}
	return changes
}

func expectedKey(x expectedTime) string { return "expected." + string(x.typ) }

func (pl *placement) changeQueue(q *queueRow, policy rota.QueuePolicy, expected []expectedTime) {
	estimates := policy.Estimate != q.policy.Estimate || policy.MaxRuntimeMs != q.policy.MaxRuntimeMs || !slices.Equal(expected, q.expected)
	foretold := policy.Estimate != q.policy.Estimate && (policy.Estimate.Learned() || q.policy.Estimate.Learned()) ||
		policy.Ranking != q.policy.Ranking && (policy.Ranking == rota.RankSmallest || q.policy.Ranking == rota.RankSmallest)
	reorder := foretold || rankedOtherwise(&q.policy, &policy) || estimates && policy.Ranking.Estimates()
	tiered := policy.Ranking == rota.RankAdaptive && q.policy.Ranking != rota.RankAdaptive
	before := sched.RulesOf(&q.policy)
	oldWeight := uint64(q.policy.Weight)
	if (policy.RenewalsMax < 0) != (q.policy.RenewalsMax < 0) {
		pl.recountEndless(q, &policy)
	}
	old := q.policy
	set := func() { q.policy, q.expected = policy, expected }
	if estimates {
		pl.reestimate(q, set)
	} else {
		set()
	}
	switch {
	case policy.Paused:
		pl.endHolds(q.name, "QUEUE_PAUSED")
	case policy.Backfill != rota.BackfillFree && old.Backfill == rota.BackfillFree:
		pl.endHolds(q.name, "BACKFILL") // reservations stand for them
	}
	if weight := uint64(policy.Weight); weight != oldWeight {
		pl.setTurn(q, rescale(q.turn, weight, oldWeight)) // the queue keeps its place among the others
	}
	if policy.Tiers != old.Tiers {
		pl.spreadTiers(q)
	}
	if tiered {
		pl.enterTiers(q)
	}
	if foretold {
		pl.typeStats.foreseeAll(q)
	}
	if reorder {
		pl.refile(q, pl.registry.queues[q.name])
	}
	if policy.WorkerLossesMax == 0 && old.WorkerLossesMax > 0 {
		pl.clearQueue(q.name)
	}
	pl.timePromotion(q, pl.registry.queues[q.name])
	pl.changeRules(q, before)
	pl.admission.reviewQueue(q, &old)
	pl.shorten(q, &old)
	pl.s.journal.emit(rota.Event{Kind: rota.EventQueueChanged, Queue: q.name, Text: policy.Preset})
}

// rankedOtherwise reports whether keys or the draw differ between two policies.
func rankedOtherwise(a, b *rota.QueuePolicy) bool {
	return a.Ranking != b.Ranking || a.FairShare != b.FairShare || a.AgingFactorMs != b.AgingFactorMs ||
		a.WFee != b.WFee || a.WAge != b.WAge || a.WSize != b.WSize || a.WTier != b.WTier || a.FeeHalf != b.FeeHalf ||
		a.SizeHalf != b.SizeHalf || a.AgeHorizonMs != b.AgeHorizonMs || a.Tiers != b.Tiers || a.ShortestAging != b.ShortestAging
}

// refile builds a queue's lanes anew; it walks all live jobs, which only an
// operator's change of ranking may cost.
func (pl *placement) refile(q *queueRow, i *queueIndex) {
	i.pending.Forget()
	kr := pl.keyring
	kr.restoring = true
	defer func() { kr.restoring = false }()
	i.pending = pl.newPending(q)
	pl.admission.initLanes(q, i)
	pl.s.jobs.scan(func(_ rota.JobID, j *jobRow) bool {
		if j.state == rota.JobQueued && j.spec.Queue == q.name {
			// The item is derived: the row's canonical bytes do not change.
			item := pl.itemOf(j, q)
			j.item = &item
			pl.admission.syncLanes(i, q, j.spec.Tenant)
			i.pending.Add(j.item)
		}
		return true
	})
	pl.leasing.leases.scan(func(_ string, l *leaseRow) bool {
		if l.queue == q.name {
			i.share(l.tenant, i.open.get(l.tenant), pl.admission.limitsOf(l.tenant).Weight)
		}
		return true
	})
}

// deleteQueue forgets a queue that nothing names (SPEC §21.4). What ended in it is remembered;
// it cannot be retried until somebody sets the queue again. Workers may go on naming it.
func (pl *placement) deleteQueue(op *fsmpb.DeleteQueue) *fsmpb.Outcome {
	name := rota.QueueName(op.GetName())
	if err := rota.CheckID("queue", name); err != nil {
		return entry.Refused(err)
	}
	q := pl.s.queues.get(name)
	switch {
	case name == rota.DefaultQueue:
		return entry.Refused(rota.Refusef(rota.KindConflict, "queue", "queue %q is where jobs go that name none, it stays: `rota queue pause %s` "+
			"starts none of them", name, name))
	case q == nil:
		return &fsmpb.Outcome{Existed: true} // deleted already, or never made
	}
	if err := pl.s.journal.matches(queueText(q, name)); err != nil {
		return entry.Refused(err)
	}
	switch {
	case op.GetDrainTo() != "":
		return pl.drainQueue(q, rota.QueueName(op.GetDrainTo()))
	case q.live() > 0:
		holds := "live jobs"
		if pl.tells(access.Everything, name) {
			holds = fmt.Sprintf("%d live jobs", q.live())
		}
		return entry.Refused(rota.Refusef(rota.KindConflict, "queue", "queue %q holds %s: let them end, cancel them, or move them with "+
			"`rota queue delete %s --drain-to OTHER`", name, holds, name))
	}
	return pl.forgetQueue(q)
}

// forgetQueue forgets a queue without live jobs, unless something names it.
func (pl *placement) forgetQueue(q *queueRow) *fsmpb.Outcome {
	name := q.name
	if err := pl.stays(name); err != nil {
		return entry.Refused(err)
	}
	if n := pl.lingers(name); n > 0 {
		return entry.Refused(rota.Refusef(rota.KindConflict, "queue", "the workers of %d ended jobs of queue %q have not confirmed that they have "+
			"stopped: delete it once they have, or their leases have ended", n, name))
	}
	if pl.s.ledger.named(q) {
		return entry.Refused(rota.Refusef(rota.KindConflict, "queue", "a workflow names queue %q: wait until it has ended and is forgotten", name))
	}
	pl.admission.forgetQueue(name)
	pl.typeStats.forgetQueue(name)
	i := pl.registry.queues[name]
	pl.s.timers.promote.set(string(name), int64(i.promoteDue), 0)
	delete(pl.registry.queues, name)
	pl.registry.supply.DropQueue(name)
	pl.access.hold(q.by, access.OwnsQueue, -1)
	pl.s.queues.drop(name)
	pl.fleet.reviewWorkers(name)
	pl.s.journal.emit(rota.Event{Kind: rota.EventQueueDeleted, Queue: name})
	return &fsmpb.Outcome{}
}

// drainQueue takes one step of emptying a queue into another one (SPEC §21.5): it takes no more
// submissions, some of its pending jobs move, and once nothing names it, it is forgotten. A
// repetition is the next step; whoever asks, it goes on where the last one stopped.
func (pl *placement) drainQueue(q *queueRow, into rota.QueueName) *fsmpb.Outcome {
	if err := rota.CheckID("drain_to", into); err != nil {
		return entry.Refused(err)
	}
	switch to := pl.s.queues.get(into); {
	case into == q.name:
		return entry.Refused(rota.Refusef(rota.KindInvalid, "drain_to", "queue %q cannot move its jobs to itself: name another queue", into))
	case to == nil:
		return entry.Refused(noQueue(into))
	case to.drainTo != "":
		return entry.Refused(leaving(to))
	}
	if err := pl.stays(q.name); err != nil {
		return entry.Refused(err)
	}
	left := func() int64 { return q.live() + pl.lingers(q.name) }
	if left() == 0 {
		return pl.forgetQueue(q)
	}
	q = pl.s.queues.edit(q.name)
	if q.drainTo != into {
		q.drainTo, q.drainFrom = into, ""
		pl.s.journal.emit(rota.Event{Kind: rota.EventQueueChanged, Queue: q.name, Text: q.policy.Preset})
	}
	for _, id := range pl.movable(q) {
		pl.moveJob(pl.s.jobs.edit(id), into)
	}
	if left() > 0 || pl.s.ledger.named(q) {
		return &fsmpb.Outcome{Left: uint64(max(left(), 1))}
	}
	return pl.forgetQueue(q)
}

// movable returns the next pending jobs of a queue that is drained, in the order of their ids
// from where the last step stopped, and moves that place on. A node of a workflow stays, as its
// workflow names the queue; so does a job of requirements that the other queue has no room for.
func (pl *placement) movable(q *queueRow) (ids []rota.JobID) {
	looked, end := 0, true
	pl.s.jobs.tree.Ascend(q.drainFrom, func(id rota.JobID, j *jobRow) bool {
		if looked == limits.DrainLooks || len(ids) == limits.DrainMoves {
			q.drainFrom, end = id, false
			return false
		}
		looked++
		if j.spec.Queue == q.name && !j.state.Leased() && j.workflow == "" {
			ids = append(ids, id)
		}
		return true
	})
	if end {
		q.drainFrom = "" // what came back from a lease meanwhile is found from the start
	}
	return ids
}

// moveJob takes a pending job to another queue: its place by age, its dates and the hash by
// which its submission is known again stay. The other queue's queue_cap is not asked, as the job
// was admitted once.
func (pl *placement) moveJob(j *jobRow, into rota.QueueName) {
	st := j.state
	spec := j.spec.words()
	spec.Queue = into
	if !pl.life.classFits(&spec) {
		return
	}
	from := pl.s.queues.edit(j.spec.Queue)
	if st == rota.JobQueued {
		pl.unfile(j, from)
		if h := pl.holds.get(spec.ID); h != nil {
			pl.endHold(h, "JOB_MOVED")
		}
	}
	from.count(st, -1)
	pl.registry.supply.Release(j.class)
	pl.life.own(j)
	past := *j.history()
	past.content, past.changes = j.firstContent(), past.changes+1
	moved := pl.s.newJob() // a row of its own, as what counts for a queue never changes it
	*moved, j.jobLife = *j, noLife
	pl.s.jobs.drop(spec.ID)
	pl.keyring.leave(moved, rota.JobNone)
	moved.spec, moved.past = pl.s.specs.keep(&spec), &past
	moved.specHash = pl.s.specs.hash(&pl.s.ledger.enc, moved.spec)
	moved.tier, moved.tierAt, moved.tierSeq = 0, 0, 0
	pl.s.jobs.insert(spec.ID, moved)
	pl.classify(moved)
	pl.keyring.enter(moved)
	to := pl.s.queues.edit(into)
	to.count(st, 1)
	pl.typeStats.declareType(moved.spec, to)
	if st == rota.JobQueued {
		pl.enterTier(moved, to)
		pl.file(moved, to)
	}
	pl.s.journal.emitFor(moved, &rota.Event{Kind: rota.EventJobChanged, Job: spec.ID, Queue: into, Tenant: spec.Tenant, Attempt: moved.attempt,
		Payload: payload(map[string]rota.QueueName{"queue": into})})
	if to.policy.WorkerLossesMax == 0 && len(moved.history().losses) > 0 {
		pl.clear(moved, "", func(rota.Session) bool { return true })
	}
}

// stays refuses to delete a queue that something set by hand names, and that no drain moves: the
// runs of a schedule, callbacks of batches, webhooks, a rule of keys. It names a schedule or a rule
// to who may read it.
func (pl *placement) stays(name rota.QueueName) error {
	if s, named := pl.schedules.naming(name); named {
		which := "a schedule"
		if kept := pl.schedules.rows.get(s).kept; pl.tells(kept.Tenant, kept.Queue) {
			which = fmt.Sprintf("schedule %q", s)
		}
		return rota.Refusef(rota.KindConflict, "queue", "the runs of %s go to queue %q: set it to another one, or delete it with "+
			"`rota schedule delete`", which, name)
	}
	if pl.batches.toCome.naming.get(name) > 0 {
		return ofBatches(name)
	}
	if name == rota.WebhookQueue && pl.hooks.rows.len() > 0 {
		return ofHooks(pl.hooks.rows.len())
	}
	if r := pl.keyring.naming(name); r != nil {
		which := "a rule of keys"
		if pl.tells(access.Everything, name) {
			which = fmt.Sprintf("the rule of key %q", strings.TrimSuffix(r.Name+":"+r.Value, ":"))
		}
		return rota.Refusef(rota.KindConflict, "queue", "%s is for queue %q: delete it with `rota key delete NAME --queue %s`", which, name, name)
	}
	return nil
}

// tells reports whether the caller of the operation at hand may read what is of a tenant and a queue.
func (pl *placement) tells(tenant rota.TenantID, queue rota.QueueName) bool {
	actor := pl.s.journal.caller.Actor
	if actor == "" {
		return true
	}
	rights, refusal := pl.access.rightsOf(actor)
	return refusal == nil && rights.Allow(rota.RightRead, tenant, queue)
}

// drains checks what is known of queues that are drained.
func (c *checker) drains() {
	c.m.queues.scan(func(name rota.QueueName, q *queueRow) bool {
		if q.drainTo == name || name == rota.DefaultQueue && q.drainTo != "" || q.drainTo == "" && q.drainFrom != "" {
			c.fault("queue %s is drained to %q, from job %q on", name, q.drainTo, q.drainFrom)
		}
		if q.drainTo != "" && c.m.keyring.naming(name) != nil {
			c.fault("queue %s is drained to %q, and a rule of keys is for it", name, q.drainTo)
		}
		return true
	})
}
