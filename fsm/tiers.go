package fsm

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
)

// The tiers of an adaptive queue (SPEC §10.2, §10.3). A job enters the tier of its
// priority; while it stands in a tier below the second for aging_threshold, a
// promotion takes it to the back of the next higher one. A tier reached is kept:
// who is QUEUED again, after a backoff or because a lease ended, enters the same
// tier at the back. Scores know the submitted tier alone (SPEC §14).

// highestReachable is the tier up to which jobs rise.
const highestReachable = 1

// newPending starts the lanes of a queue empty.
func (pl *placement) newPending(q *queueRow) (lanes *sched.Pending) {
	switch p := &q.policy; {
	case p.Ranking == rota.RankAdaptive:
		lanes = sched.NewTiered(int(p.Tiers))
	case pl.keyring.groups[q.name] != nil:
		lanes = sched.NewGrouped()
	default:
		lanes = sched.NewPending(p.FairShare)
	}
	lanes.SetKeys(pl.keyring.lanes)
	return lanes
}

// enterTier puts a job that becomes QUEUED at the back of its tier (SPEC §10.2);
// j is editable.
func (pl *placement) enterTier(j *jobRow, q *queueRow) {
	if q.policy.Ranking != rota.RankAdaptive {
		return
	}
	if j.tierSeq == 0 {
		pl.life.own(j)
		j.tier = tierOf(j, &q.policy)
	}
	pl.toBack(j)
}

// tierOf is the tier that a job is submitted to.
func tierOf(j *jobRow, p *rota.QueuePolicy) int32 {
	return int32(sched.TierOf(j.spec.Priority, int(p.Tiers)))
}

// spreadTiers puts all jobs of a queue whose number of tiers changed into those of their
// priorities: what they rose is over, their places among the others of a tier stay. It
// walks all live jobs, which only an operator's change may cost.
func (pl *placement) spreadTiers(q *queueRow) {
	i := pl.registry.queues[q.name]
	i.tiers = [rota.MaxTiers]int64{}
	var moved []rota.JobID
	pl.s.jobs.scan(func(id rota.JobID, j *jobRow) bool {
		if j.spec.Queue != q.name {
			return true
		}
		if j.state == rota.JobQueued {
			i.countTier(j, &q.policy, 1)
		}
		if j.tierSeq != 0 && j.tier != tierOf(j, &q.policy) {
			moved = append(moved, id)
		}
		return true
	})
	for _, id := range moved {
		j := pl.s.jobs.edit(id)
		pl.life.own(j)
		j.tier = tierOf(j, &q.policy)
	}
}

// toBack gives a job the last place in its tier; j is editable.
func (pl *placement) toBack(j *jobRow) {
	pl.s.head.tierSeq++
	pl.life.own(j)
	j.tierAt, j.tierSeq = pl.s.head.clock, pl.s.head.tierSeq
}

// enterTiers puts all QUEUED jobs of a queue that becomes adaptive into tiers, in
// the order of their age: nobody's place is lost. It walks all live jobs, which
// only an operator's change of ranking may cost.
func (pl *placement) enterTiers(q *queueRow) {
	var queued []*jobRow
	pl.s.jobs.scan(func(_ rota.JobID, j *jobRow) bool {
		if j.state == rota.JobQueued && j.spec.Queue == q.name {
			queued = append(queued, j)
		}
		return true
	})
	slices.SortFunc(queued, func(a, b *jobRow) int {
		return cmp.Or(cmp.Compare(a.enqueued, b.enqueued), cmp.Compare(a.seq, b.seq))
	})
	for _, j := range queued {
		pl.enterTier(pl.s.jobs.edit(j.spec.ID), q)
	}
}

// promoteAt is when a job that entered a tier rises out of it: at the first
// promotion, every PromoteEvery of the clock, at which it has stood there for
// aging_threshold.
func promoteAt(entered rota.Clock, p *rota.QueuePolicy) rota.Clock {
	aged := entered + rota.Clock(p.AgingThresholdMs)
	return (aged + limits.PromoteEvery - 1) / limits.PromoteEvery * limits.PromoteEvery
}

// nextRise is the job of a queue that rises next, and when: of those that rise at
// one moment the higher tier's first, within a tier who entered first. nil where
// none is to rise.
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

// timePromotion puts a queue where it stands in the timers, after the front of a
// tier may have changed.
func (pl *placement) timePromotion(q *queueRow, i *queueIndex) {
	_, due := i.nextRise(&q.policy)
	pl.s.timers.promote.set(string(q.name), int64(i.promoteDue), int64(due))
	i.promoteDue = due
}

// firePromote lets one aged job of a queue rise (SPEC §10.3): each counts as a
// firing, so that no sweep carries more of them than of anything else.
func (pl *placement) firePromote(queue string) {
	q := pl.s.queues.get(rota.QueueName(queue))
	i := pl.registry.queues[q.name]
	item, _ := i.nextRise(&q.policy)
	j := pl.s.jobs.edit(item.ID)
	from := j.tier
	i.pending.Remove(item)
	j.tier--
	pl.toBack(j)
	risen := pl.itemOf(j, q)
	j.item = &risen
	i.pending.Add(j.item)
	pl.timePromotion(q, i)
	pl.s.journal.emit(rota.Event{Kind: rota.EventJobPromoted, Job: j.spec.ID, Queue: q.name, Tenant: j.spec.Tenant, Attempt: j.attempt,
		Payload: fmt.Sprintf(`{"from":%d,"to":%d}`, from, j.tier)})
}

// tiers checks that the QUEUED jobs of adaptive queues stand in tiers that they
// can have reached, each at a place of its own.
func (c *checker) tiers() {
	m := c.m
	places := make(map[uint64]rota.JobID)
	depths := make(map[rota.QueueName][]int64)
	m.jobs.scan(func(id rota.JobID, j *jobRow) bool {
		q := m.queues.get(j.spec.Queue)
		if q == nil {
			return true
		}
		submitted := tierOf(j, &q.policy)
		if j.tierSeq > m.head.tierSeq || j.tierAt > m.head.clock {
			c.fault("I6: job %s entered its tier after the clock", id)
		}
		if j.tierSeq != 0 && (j.tier > submitted || j.tier < min(submitted, highestReachable)) {
			c.fault("I4: job %s of priority %d stands in tier %d", id, j.spec.Priority, j.tier)
			return true
		}
		if j.state != rota.JobQueued || q.policy.Ranking != rota.RankAdaptive {
			return true
		}
		if other, taken := places[j.tierSeq]; j.tierSeq == 0 || taken {
			c.fault("I4: job %s has place %d in its tier, as job %q", id, j.tierSeq, other)
		}
		places[j.tierSeq] = id
		if j.tier < 0 || int64(j.tier) >= q.policy.Tiers {
			c.fault("I4: job %s stands in tier %d of %d", id, j.tier, q.policy.Tiers)
			return true
		}
		if depths[q.name] == nil {
			depths[q.name] = make([]int64, q.policy.Tiers)
		}
		depths[q.name][j.tier]++
		return true
	})
	m.queues.scan(func(name rota.QueueName, q *queueRow) bool {
		i := m.placement.registry.queues[name]
		if q.policy.Ranking != rota.RankAdaptive || i == nil {
			return true
		}
		want := depths[name]
		if want == nil {
			want = make([]int64, q.policy.Tiers)
		}
		if got := i.pending.Tiers(); !slices.Equal(got, want) {
			c.fault("I4: queue %s has tiers of %v, its rows say %v", name, got, want)
		}
		return true
	})
}

// promotions computes from the rows alone when queues have jobs to promote.
func (vw *View) promotions(t *timers) {
	due := make(map[rota.QueueName]rota.Clock)
	vw.m.jobs.scan(func(_ rota.JobID, j *jobRow) bool {
		q := vw.m.queues.get(j.spec.Queue)
		if j.state != rota.JobQueued || j.tier <= highestReachable || q == nil || q.policy.Ranking != rota.RankAdaptive {
			return true
		}
		if at := promoteAt(j.tierAt, &q.policy); due[q.name] == 0 || at < due[q.name] {
			due[q.name] = at
		}
		return true
	})
	vw.m.queues.scan(func(name rota.QueueName, _ *queueRow) bool {
		t.promote.set(string(name), 0, int64(due[name]))
		return true
	})
}
