package fsm

import (
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/sched"
)

// changeRules follows a change of what a queue asks of its workers: leases beyond
// a lower cap are revoked (SPEC §8.5), all else decides only who gets the next.
func (m *Machine) changeRules(q *queueRow, before sched.Rules) {
	rules := sched.RulesOf(&q.policy)
	if rules == before {
		return
	}
	m.registry.supply.SetRules(q.name, rules)
	m.reviewWorkers(q.name)
	for _, h := range m.held() {
		if m.jobs.get(h.Item.ID).spec.Queue == q.name {
			m.reviewHold(h.Worker)
		}
	}
	if rules.PrefetchMax < before.PrefetchMax ||
		rules.LeasesMax > 0 && (before.LeasesMax == 0 || rules.LeasesMax < before.LeasesMax) {
		m.workers.scan(func(_ rota.WorkerID, w *workerRow) bool {
			m.cutQuota(w, capOf(w.spec, &rules), q.name)
			return true
		})
	}
}

// reviewWorkers brings the standing of a queue's workers up to date with its
// min_health, which times when their health counts again.
func (m *Machine) reviewWorkers(queue rota.QueueName) {
	var weak []rota.WorkerID // those in full health have nothing to wait for
	m.workers.scan(func(id rota.WorkerID, w *workerRow) bool {
		if w.health < healthFull && slices.Contains(w.spec.Queues, queue) {
			weak = append(weak, id)
		}
		return true
	})
	for _, id := range weak {
		w := m.workers.edit(id)
		w.settleHealth(m.head.clock)
		m.restand(w)
	}
}

// capOf is how many leases, of whatever queue, a worker may have open when it gets
// one of a queue with such rules.
func capOf(s *rota.WorkerSpec, rules *sched.Rules) int64 {
	most := int64(s.Slots) + min(int64(s.Prefetch), rules.PrefetchMax)
	if rules.LeasesMax > 0 {
		most = min(most, rules.LeasesMax)
	}
	return most
}
