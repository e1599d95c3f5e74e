package fsm

import (
	"fmt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/sched"
)

// Reincarnate turns a restored backup into the state of a fresh cluster (SPEC
// §13.5, §8.6): another cluster id, the next incarnation, no leadership and no
// nodes. Every open lease is void, uncounted, and its job QUEUED again; every
// worker is RETIRED. The index stays. It is done offline, before any node
// serves the state; what it changes is no log entry and tells no events.
func (m *Machine) Reincarnate(cluster rota.ClusterID) error {
	if err := rota.CheckID("cluster_id", cluster); err != nil {
		return err
	}
	h := &m.head
	if h.cluster == "" || h.cluster == cluster {
		return rota.Refusef(rota.KindConflict, "cluster_id", "a state of cluster %q cannot become one of cluster %q", h.cluster, cluster)
	}
	m.at, m.journal.mute = h.index, true
	m.ledger.gen++
	var leases []*leaseRow
	m.leasing.leases.scan(func(_ string, l *leaseRow) bool {
		leases = append(leases, l)
		return true
	})
	for _, l := range leases {
		m.leasing.endLease(l, rota.ReasonRestored, "")
	}
	var workers []rota.WorkerID
	m.fleet.workers.scan(func(id rota.WorkerID, _ *workerRow) bool {
		workers = append(workers, id)
		return true
	})
	for _, id := range workers {
		m.fleet.enter(m.fleet.workers.edit(id), rota.WorkerRetired)
	}
	var nodes []rota.NodeID
	m.nodes.scan(func(id rota.NodeID, _ *nodeRow) bool {
		nodes = append(nodes, id)
		return true
	})
	for _, id := range nodes {
		m.nodes.drop(id)
	}
	h.cluster, h.incarnation, h.term, h.leader = cluster, h.incarnation+1, 0, ""
	h.beacon = sched.FirstBeacon(cluster)
	m.journal.events, m.journal.mute = nil, false
	m.settleHeader()
	m.ledger.settle()
	if faults := m.Check(); len(faults) > 0 {
		return fmt.Errorf("the restored state contradicts itself: %s", faults[0])
	}
	return nil
}
