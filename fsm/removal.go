package fsm

import (
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// deleteQueue forgets a queue that nothing names (SPEC §21.4). What ended in it is remembered;
// it cannot be retried until somebody sets the queue again. Workers may go on naming it.
func (pl *placement) deleteQueue(op *fsmpb.DeleteQueue) *fsmpb.Outcome {
	m, name := pl.m, rota.QueueName(op.GetName())
	if err := rota.CheckID("queue", name); err != nil {
		return entry.Refused(err)
	}
	q := m.queues.get(name)
	switch {
	case name == rota.DefaultQueue:
		return entry.Refused(rota.Refusef(rota.KindConflict, "queue", "queue %q is where jobs go that name none: it stays", name))
	case q == nil:
		return &fsmpb.Outcome{Existed: true} // deleted already, or never made
	case q.live() > 0:
		return entry.Refused(rota.Refusef(rota.KindConflict, "queue", "queue %q holds %d live jobs: let them end, cancel or move them first",
			name, q.live()))
	case m.ledger.named(q):
		return entry.Refused(rota.Refusef(rota.KindConflict, "queue", "a workflow names queue %q: wait until it has ended and is forgotten", name))
	}
	m.admission.forgetQueue(name)
	i := pl.registry.queues[name]
	m.timers.promote.set(string(name), int64(i.promoteDue), 0)
	delete(pl.registry.queues, name)
	pl.registry.supply.DropQueue(name)
	m.queues.drop(name)
	m.fleet.reviewWorkers(name)
	m.journal.emit(rota.Event{Kind: rota.EventQueueDeleted, Queue: name})
	return &fsmpb.Outcome{}
}

// live counts the jobs of a queue that have not ended.
func (r *queueRow) live() int64 { return r.pending() + r.assigned + r.running }

// named reports whether a row that the tally counts, but for its own, is of a queue or of a
// tenant.
func (l *ledger) named(of weighed) bool {
	queue, tenant := of.owner()
	if l.tally.queues[queue]+l.tally.tenants[tenant] > of.meta().bytes() {
		return true
	}
	for _, d := range l.dirty { // those of this entry are not counted yet
		w, ok := d.row.(weighed)
		if !ok || d.row == row(of) || d.row.meta().gen() == goneGen {
			continue
		}
		if q, t := w.owner(); queue != "" && q == queue || tenant != "" && t == tenant {
			return true
		}
	}
	return false
}

// forgetQueue drops the rate limiters and failure domains of a queue without leases.
func (lm *admission) forgetQueue(name rota.QueueName) {
	for _, key := range keysUnder(&lm.limiters, limiterKey(name, "")) {
		lm.m.timers.limiter.set(key, int64(lm.limiters.get(key).due), 0)
		lm.limiters.drop(key)
	}
	for _, key := range lm.domainsOf(name) {
		lm.m.timers.domain.set(key, int64(lm.domains.get(key).due), 0)
		lm.domains.drop(key)
	}
}

// deleteTenant forgets what was set of a tenant: no job, lease, workflow or token names it.
func (lm *admission) deleteTenant(op *fsmpb.DeleteTenant) *fsmpb.Outcome {
	id := rota.TenantID(op.GetId())
	if err := rota.CheckID("tenant", id); err != nil {
		return entry.Refused(err)
	}
	t := lm.tenants.get(id)
	switch {
	case t == nil:
		return &fsmpb.Outcome{Existed: true}
	case t.open > 0 || lm.m.ledger.named(t):
		return entry.Refused(rota.Refusef(rota.KindConflict, "tenant", "a live job or a workflow is of tenant %q: let it end or cancel it first", id))
	case lm.m.access.namesTenant(id):
		return entry.Refused(rota.Refusef(rota.KindConflict, "tenant", "a token is for tenant %q: revoke it, or wait for its end", id))
	}
	lm.m.timers.penalty.set(string(id), int64(t.penaltyAt()), 0)
	lm.tenants.drop(id)
	lm.syncBusyLanes(id)
	lm.m.journal.emit(rota.Event{Kind: rota.EventTenantDeleted, Tenant: id})
	return &fsmpb.Outcome{}
}

// deleteWorker forgets a worker that is RETIRED, or UNREACHABLE, without a lease.
func (fl *fleet) deleteWorker(op *fsmpb.DeleteWorker) *fsmpb.Outcome {
	id := rota.WorkerID(op.GetId())
	if err := rota.CheckID("worker", id); err != nil {
		return entry.Refused(err)
	}
	w := fl.workers.get(id)
	switch {
	case w == nil:
		return &fsmpb.Outcome{Existed: true}
	case w.open > 0:
		return entry.Refused(rota.Refusef(rota.KindConflict, "worker", "worker %s has %d leases: suspend it, or wait for their end", id, w.open))
	case w.status != rota.WorkerRetired && w.status != rota.WorkerUnreachable:
		return entry.Refused(rota.Refusef(rota.KindConflict, "worker", "worker %s is %s: retire it first", id, w.status))
	}
	fl.fireForget(string(id))
	fl.m.placement.trimHolds()
	fl.m.journal.emit(rota.Event{Kind: rota.EventWorkerDeleted, Worker: id})
	return &fsmpb.Outcome{}
}

// namesTenant reports whether a token that counts is narrowed to a tenant by its very id.
func (ac *authority) namesTenant(id rota.TenantID) (named bool) {
	ac.tokens.scan(func(_ tokenID, t *tokenRow) bool {
		named = t.Revoked == (rota.Moment{}) && slices.Contains(t.Tenants, string(id))
		return !named
	})
	return named
}
