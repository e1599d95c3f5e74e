package sim

import "github.com/rotasched/rota"

// final returns an error unless every guarantee was kept and all work was done, once the world is healed.
func (a *auditor) final() error {
	for _, n := range a.w.nodes {
		if n.applied != len(a.w.log) {
			a.failf("node %s has applied %d of %d", n.name, n.applied, len(a.w.log))
		}
		if faults := n.machine.Check(); len(faults) > 0 {
			a.failf("node %s: %q", n.name, faults)
		}
	}
	m := a.w.nodes[0].machine
	if len(a.accepted) != a.w.Jobs {
		a.failf("%d of %d jobs were accepted", len(a.accepted), a.w.Jobs)
	}
	for id := range a.accepted {
		if s, j := m.JobState(id), a.jobs[id]; j.deleted && s != rota.JobNone {
			a.failf("job %s is %s at the end, it was deleted", id, s)
		} else if !j.deleted && !s.Terminal() {
			a.failf("job %s is %s at the end", id, s)
		} else if j.told && s != rota.JobCompleted {
			a.failf("job %s: its worker learned that it is COMPLETED, it is %s", id, s)
		}
	}
	for _, n := range a.w.nodes {
		a.kept(n)
		a.keptEdits(n)
	}
	if a.w.Deletes {
		for _, n := range a.w.nodes {
			a.listed(n)
		}
	}
	a.keysFinal()
	a.wideFinal(m)
	a.datesFinal(a.w.nodes[0])
	a.batchesFinal()
	a.hooksFinal()
	a.flowsFinal()
	return a.fault
}
