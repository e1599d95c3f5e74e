package fsm

import (
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/sched"
)

// changeRules follows a change of what a queue asks of its workers: leases beyond
// a lower cap are revoked (SPEC §8.5), all else decides only who gets the next.
func (pl *placement) changeRules(q *queueRow, before sched.Rules) {
	rules := sched.RulesOf(&q.policy)
	if rules == before {
		return
	}
	pl.registry.supply.SetRules(q.name, rules)
	pl.m.fleet.reviewWorkers(q.name)
	for _, h := range pl.held() {
		if pl.m.jobs.get(h.Item.ID).spec.Queue == q.name {
			pl.reviewHold(h.Worker)
		}
	}
	if rules.PrefetchMax < before.PrefetchMax ||
		rules.LeasesMax > 0 && (before.LeasesMax == 0 || rules.LeasesMax < before.LeasesMax) {
		pl.m.fleet.workers.scan(func(_ rota.WorkerID, w *workerRow) bool {
			pl.m.fleet.cutQuota(w, capOf(w.spec, &rules), q.name)
			return true
		})
	}
}

// reviewWorkers brings the standing of a queue's workers up to date with its
// min_health, which times when their health counts again.
func (fl *fleet) reviewWorkers(queue rota.QueueName) {
	var weak []rota.WorkerID // those in full health have nothing to wait for
	fl.workers.scan(func(id rota.WorkerID, w *workerRow) bool {
		if w.health < healthFull && slices.Contains(w.spec.Queues, queue) {
			weak = append(weak, id)
		}
		return true
	})
	for _, id := range weak {
		w := fl.workers.edit(id)
		w.settleHealth(fl.m.head.clock)
		fl.restand(w)
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
