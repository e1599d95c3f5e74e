package fsm

import (
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/sched"
)

// setQueue creates a queue or changes its policy at run time, without losing
// anybody's place: enqueue times stay, the order is computed anew.
func (m *Machine) setQueue(op *fsmpb.SetQueue) *fsmpb.Outcome {
	name := rota.QueueName(op.GetName())
	if err := rota.CheckID("queue", name); err != nil {
		return refused(err)
	}
	if m.head.cluster == "" {
		return refused(rota.Refusef(rota.Unavailable, "cluster", "the cluster has no leader yet: try again"))
	}
	q := m.queues.get(name)
	policy := rota.StandardPolicy()
	var expected []expectedTime
	if q != nil {
		policy, expected = q.policy, q.expected
	}
	if op.GetPreset() != "" {
		var err error
		if policy, err = rota.PresetPolicy(op.GetPreset()); err != nil {
			return refused(err)
		}
	}
	for _, s := range op.GetSet() {
		if !ascii(s.GetKey()) || !ascii(s.GetValue()) {
			// Letter case beyond ASCII is a matter of Unicode tables, which differ
			// between binaries (SPEC §2.2).
			return refused(rota.Refusef(rota.Invalid, "key", "key %q or its value is not ASCII", s.GetKey()))
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
			return refused(err)
		}
	}
	if len(expected) > rota.MaxExpectedTypes {
		return refused(exhausted("expected", "expected times are set for %d types: at most %d are taken", len(expected),
			rota.MaxExpectedTypes))
	}
	if err := policy.Check(); err != nil {
		return refused(err)
	}
	if q == nil {
		if m.queues.len() >= rota.MaxQueues {
			return refused(exhausted("queue", "%d queues exist: no more are taken", rota.MaxQueues))
		}
		m.addQueue(name, policy)
		m.queues.edit(name).expected = expected
		return &fsmpb.Outcome{}
	}
	if policy == q.policy && slices.Equal(expected, q.expected) {
		return &fsmpb.Outcome{Existed: true}
	}
	q = m.queues.edit(name)
	q.expected = expected
	m.changeQueue(q, policy)
	return &fsmpb.Outcome{Existed: true}
}

func (m *Machine) changeQueue(q *queueRow, policy rota.QueuePolicy) {
	reorder := rankedOtherwise(&q.policy, &policy)
	tiered := policy.Ranking == rota.RankAdaptive && q.policy.Ranking != rota.RankAdaptive
	before := sched.RulesOf(&q.policy)
	oldWeight := uint64(q.policy.Weight)
	if (policy.RenewalsMax < 0) != (q.policy.RenewalsMax < 0) {
		m.recountEndless(q, &policy)
	}
	old := q.policy
	q.policy = policy
	if policy.Paused {
		m.endHolds(q.name, "QUEUE_PAUSED")
	}
	if weight := uint64(policy.Weight); weight != oldWeight {
		m.setTurn(q, rescale(q.turn, weight, oldWeight)) // the queue keeps its place among the others
	}
	if policy.Tiers != old.Tiers {
		m.spreadTiers(q)
	}
	if tiered {
		m.enterTiers(q)
	}
	if reorder {
		m.refile(q, m.registry.queues[q.name])
	}
	m.timePromotion(q, m.registry.queues[q.name])
	m.changeRules(q, before)
	m.reviewQueue(q, &old)
	m.emit(rota.Event{Kind: rota.QueueChanged, Queue: q.name, Text: policy.Preset})
}

// rankedOtherwise says whether keys or the draw differ between two policies.
func rankedOtherwise(a, b *rota.QueuePolicy) bool {
	return a.Ranking != b.Ranking || a.FairShare != b.FairShare || a.AgingFactorMs != b.AgingFactorMs ||
		a.WFee != b.WFee || a.WAge != b.WAge || a.WSize != b.WSize || a.WTier != b.WTier || a.FeeHalf != b.FeeHalf ||
		a.SizeHalf != b.SizeHalf || a.AgeHorizonMs != b.AgeHorizonMs || a.Tiers != b.Tiers
}

// refile builds a queue's lanes anew; it walks all live jobs, which only an
// operator's change of ranking may cost.
func (m *Machine) refile(q *queueRow, i *queueIndex) {
	i.pending = newPending(&q.policy)
	m.informAnew(q, i)
	m.jobs.scan(func(_ rota.JobID, j *jobRow) bool {
		if j.state == rota.Queued && j.spec.Queue == q.name {
			// The item is derived: the row's canonical bytes do not change.
			item := m.itemOf(j, &q.policy)
			j.item = &item
			m.inform(i, q, j.spec.Tenant)
			i.pending.Add(j.item)
		}
		return true
	})
	m.leases.scan(func(_ string, l *leaseRow) bool {
		if l.queue == q.name {
			i.share(l.tenant, i.open[l.tenant], m.limitsOf(l.tenant).Weight)
		}
		return true
	})
}

func ascii(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] > 127 {
			return false
		}
	}
	return true
}
