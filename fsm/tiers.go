package fsm

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
)

// The tiers of an adaptive queue (SPEC §10.2, §10.3). A job enters the tier of its priority. Once it has been in a tier
// below the second for aging_threshold, a promotion moves it to the back of the next higher one. A tier reached is
// kept: a job that is QUEUED again, after a backoff or because a lease ended, enters the same tier at the back. Scores
// use only the submitted tier (SPEC §14).

// highestReachable is the highest tier that jobs can be promoted to.
const highestReachable = 1

// newPending creates the empty lanes of a queue.
func (pl *placement) newPending(q *state.QueueRow) (lanes *sched.Pending) {
	switch p := &q.Policy; {
	case p.Ranking == rota.RankAdaptive:
		lanes = sched.NewTiered(int(p.Tiers))
	case pl.keyring.Groups[q.Name] != nil:
		lanes = sched.NewGrouped()
	default:
		lanes = sched.NewPending(p.FairShare)
	}
	lanes.SetKeys(pl.keyring.Lanes)
	return lanes
}

// enterTier puts a job that becomes QUEUED at the back of its tier (SPEC §10.2);
// j is editable.
func (pl *placement) enterTier(j *state.JobRow, q *state.QueueRow) {
	if q.Policy.Ranking != rota.RankAdaptive {
		return
	}
	if j.TierSeq == 0 {
		pl.life.own(j)
		j.Tier = tierOf(j, &q.Policy)
	}
	pl.toBack(j)
}

// tierOf returns the tier that a job is submitted to.
func tierOf(j *state.JobRow, p *rota.QueuePolicy) int32 {
	return int32(sched.TierOf(j.Spec.Priority, int(p.Tiers)))
}

// spreadTiers moves all jobs of a queue whose number of tiers changed to the tiers of their priorities: promotions are
// lost, the places among the jobs of a tier are kept. It walks all live jobs, which only an operator's change may cost.
func (pl *placement) spreadTiers(q *state.QueueRow) {
	i := pl.registry.queues[q.Name]
	i.tiers = [rota.MaxTiers]int64{}
	var moved []rota.JobID
	pl.s.JobTable.Scan(func(id rota.JobID, j *state.JobRow) bool {
		if j.Spec.Queue != q.Name {
			return true
		}
		if j.State == rota.JobQueued {
			i.countTier(j, &q.Policy, 1)
		}
		if j.TierSeq != 0 && j.Tier != tierOf(j, &q.Policy) {
			moved = append(moved, id)
		}
		return true
	})
	for _, id := range moved {
		j := pl.s.JobTable.Edit(id)
		pl.life.own(j)
		j.Tier = tierOf(j, &q.Policy)
	}
}

// toBack gives a job the last place in its tier; j is editable.
func (pl *placement) toBack(j *state.JobRow) {
	pl.s.Header.TierSeq++
	pl.life.own(j)
	j.TierAt, j.TierSeq = pl.s.Header.Clock, pl.s.Header.TierSeq
}

// enterTiers adds all QUEUED jobs of a queue that becomes adaptive to tiers, in the order of their age, so that no job
// loses its place. It walks all live jobs, which only an operator's change of ranking may cost.
func (pl *placement) enterTiers(q *state.QueueRow) {
	var queued []*state.JobRow
	pl.s.JobTable.Scan(func(_ rota.JobID, j *state.JobRow) bool {
		if j.State == rota.JobQueued && j.Spec.Queue == q.Name {
			queued = append(queued, j)
		}
		return true
	})
	slices.SortFunc(queued, func(a, b *state.JobRow) int {
		return cmp.Or(cmp.Compare(a.Enqueued, b.Enqueued), cmp.Compare(a.Seq, b.Seq))
	})
	for _, j := range queued {
		pl.enterTier(pl.s.JobTable.Edit(j.Spec.ID), q)
	}
}

// promoteAt returns when a job that entered a tier is promoted: at the first promotion, every PromoteEvery of the
// clock, at which it has been there for aging_threshold.
func promoteAt(entered rota.Clock, p *rota.QueuePolicy) rota.Clock {
	aged := entered + rota.Clock(p.AgingThresholdMs)
	return (aged + limits.PromoteEvery - 1) / limits.PromoteEvery * limits.PromoteEvery
}

// nextRise returns the job of a queue that is promoted next, and when: at equal times the higher tier's first, within a
// tier the one that entered first. nil if none is to be promoted.
func (i *queueIndex) nextRise(p *rota.QueuePolicy) (next *sched.Item, due rota.Clock) {
	if p.Ranking != rota.RankAdaptive {
		return nil, 0
	}
	for tier := highestReachable + 1; tier < int(p.Tiers); tier++ {
		front := i.pending.TierFront(tier)
		if front == nil {
			continue
		}
		if at := promoteAt(front.TierAt, p); next == nil || at < due {
			next, due = front, at
		}
	}
	return next, due
}

// timePromotion updates a queue's timer, after the front of a tier may have changed.
func (pl *placement) timePromotion(q *state.QueueRow, i *queueIndex) {
	_, due := i.nextRise(&q.Policy)
	pl.s.Timers.Promote.Refile(string(q.Name), int64(i.promoteDue), int64(due))
	i.promoteDue = due
}

// firePromote promotes one aged job of a queue (SPEC §10.3): each counts as a firing, so the limit on a sweep's firings
// holds for promotions too.
func (pl *placement) firePromote(queue string) {
	q := pl.s.QueueTable.Get(rota.QueueName(queue))
	i := pl.registry.queues[q.Name]
	item, _ := i.nextRise(&q.Policy)
	j := pl.s.JobTable.Edit(item.ID)
	from := j.Tier
	i.pending.Remove(item)
	j.Tier--
	pl.toBack(j)
	risen := pl.itemOf(j, q)
	j.Item = &risen
	i.pending.Add(j.Item)
	pl.timePromotion(q, i)
	pl.s.Journal.Emit(rota.Event{Kind: rota.EventJobPromoted, Job: j.Spec.ID, Queue: q.Name, Tenant: j.Spec.Tenant,
		Attempt: j.Attempt, Payload: fmt.Sprintf(`{"from":%d,"to":%d}`, from, j.Tier)})
}

// tiers checks that the QUEUED jobs of adaptive queues are in tiers that they can have reached, each at its own place.
func (c *checker) tiers() {
	m := c.m
	places := make(map[uint64]rota.JobID)
	depths := make(map[rota.QueueName][]int64)
	m.JobTable.Scan(func(id rota.JobID, j *state.JobRow) bool {
		q := m.QueueTable.Get(j.Spec.Queue)
		if q == nil {
			return true
		}
		submitted := tierOf(j, &q.Policy)
		if j.TierSeq > m.Header.TierSeq || j.TierAt > m.Header.Clock {
			c.fault("I6: job %s entered its tier after the clock", id)
		}
		if j.TierSeq != 0 && (j.Tier > submitted || j.Tier < min(submitted, highestReachable)) {
			c.fault("I4: job %s of priority %d stands in tier %d", id, j.Spec.Priority, j.Tier)
			return true
		}
		if j.State != rota.JobQueued || q.Policy.Ranking != rota.RankAdaptive {
			return true
		}
		if other, taken := places[j.TierSeq]; j.TierSeq == 0 || taken {
			c.fault("I4: job %s has place %d in its tier, as job %q", id, j.TierSeq, other)
		}
		places[j.TierSeq] = id
		if j.Tier < 0 || int64(j.Tier) >= q.Policy.Tiers {
			c.fault("I4: job %s stands in tier %d of %d", id, j.Tier, q.Policy.Tiers)
			return true
		}
		if depths[q.Name] == nil {
			depths[q.Name] = make([]int64, q.Policy.Tiers)
		}
		depths[q.Name][j.Tier]++
		return true
	})
	m.QueueTable.Scan(func(name rota.QueueName, q *state.QueueRow) bool {
		i := m.placement.registry.queues[name]
		if q.Policy.Ranking != rota.RankAdaptive || i == nil {
			return true
		}
		want := depths[name]
		if want == nil {
			want = make([]int64, q.Policy.Tiers)
		}
		if got := i.pending.Tiers(); !slices.Equal(got, want) {
			c.fault("I4: queue %s has tiers of %v, its rows say %v", name, got, want)
		}
		return true
	})
}

// promotions calculates from the rows alone when queues have jobs to promote.
func (vw *View) promotions(t *state.Timers) {
	due := make(map[rota.QueueName]rota.Clock)
	vw.m.JobTable.Scan(func(_ rota.JobID, j *state.JobRow) bool {
		q := vw.m.QueueTable.Get(j.Spec.Queue)
		if j.State != rota.JobQueued || j.Tier <= highestReachable || q == nil ||
			q.Policy.Ranking != rota.RankAdaptive {
			return true
		}
		if at := promoteAt(j.TierAt, &q.Policy); due[q.Name] == 0 || at < due[q.Name] {
			due[q.Name] = at
		}
		return true
	})
	vw.m.QueueTable.Scan(func(name rota.QueueName, _ *state.QueueRow) bool {
		t.Promote.Refile(string(name), 0, int64(due[name]))
		return true
	})
}

// refileAll is refile by the name of a queue.
func (pl *placement) refileAll(queue rota.QueueName) {
	pl.refile(pl.s.QueueTable.Get(queue), pl.registry.queues[queue])
}

// refile rebuilds a queue's lanes; it walks all live jobs, which only an operator's change of ranking may cost.
func (pl *placement) refile(q *state.QueueRow, i *queueIndex) {
	i.pending.Forget()
	kr := pl.keyring
	kr.Restoring = true
	defer func() { kr.Restoring = false }()
	i.pending = pl.newPending(q)
	pl.admission.initLanes(q, i)
	pl.s.JobTable.Scan(func(_ rota.JobID, j *state.JobRow) bool {
		if j.State == rota.JobQueued && j.Spec.Queue == q.Name {
			// The item is derived: the row's canonical bytes do not change.
			item := pl.itemOf(j, q)
			j.Item = &item
			pl.admission.syncLanes(i, q, j.Spec.Tenant)
			i.pending.Add(j.Item)
		}
		return true
	})
	pl.leasing.leases.Scan(func(_ string, l *state.LeaseRow) bool {
		if l.Queue == q.Name {
			i.share(l.Tenant, i.open.Get(l.Tenant), pl.admission.limitsOf(l.Tenant).Weight)
		}
		return true
	})
}
