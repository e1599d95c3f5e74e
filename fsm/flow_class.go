package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
)

// A queue has at most MaxClassesPerQueue classes (SPEC §1), and a release is never
// refused. So an OPEN or RUNNING workflow is a user of every class of its nodes, from
// their upload to its end: what its jobs share with it and with others counts once. To
// count the classes of live jobs alone was refused: 100,000 nodes of a class each pass
// that check one by one, and are then released.

// kind is a class of a workflow's nodes: the first node that is of it, and its number
// while the workflow holds it.
type kind struct {
	vertex uint32
	class  sched.ClassID
}

// takeKind takes one use more of the class of a spec, and gives it back where the
// workflow, or what has been taken for it, has it already.
func (fs *flows) takeKind(f *flow, taken []kind, v uint32, spec *keptSpec) []kind {
	s, words := fs.m.placement.registry.supply, spec.words()
	c := s.Intern(sched.RequirementsOf(&words))
	if f.holds[c] {
		s.Release(c)
		return taken
	}
	f.holds[c] = true
	return append(taken, kind{v, c})
}

// dropKinds gives back what was taken for a workflow that then was refused.
func (fs *flows) dropKinds(f *flow, taken []kind) {
	for _, k := range taken {
		delete(f.holds, k.class)
		fs.m.placement.registry.supply.Release(k.class)
	}
}

// admitKind checks the class that was taken for a spec just now.
func (fs *flows) admitKind(f *flow, spec *keptSpec) error {
	if n := len(f.holds); n > limits.MaxWorkflowClasses {
		return rota.Refusef(rota.KindInvalid, "requires", "the nodes of workflow %s have more than %d different requirement sets: give "+
			"more of them the same, or split the workflow", f.id, limits.MaxWorkflowClasses)
	}
	if fs.m.placement.registry.supply.Classes(spec.Queue) > limits.MaxClassesPerQueue {
		return exhausted("requires", "queue %q has jobs and nodes of workflows of %d different requirement sets: no more are taken",
			spec.Queue, limits.MaxClassesPerQueue)
	}
	return nil
}

// holdKinds takes the classes of a workflow that runs again, all or none.
func (fs *flows) holdKinds(f *flow) error {
	f.holds = make(map[sched.ClassID]bool, len(f.kinds))
	taken := make([]kind, 0, len(f.kinds))
	for _, k := range f.kinds {
		spec := f.rows[k.vertex].spec
		taken = fs.takeKind(f, taken, k.vertex, spec)
		if err := fs.admitKind(f, spec); err != nil {
			fs.dropKinds(f, taken)
			f.holds = nil
			return err
		}
	}
	f.kinds = taken
	return nil
}

// freeKinds gives the classes of a workflow back that is over, or given up.
func (fs *flows) freeKinds(f *flow) {
	for _, k := range f.kinds {
		fs.m.placement.registry.supply.Release(k.class)
	}
	f.holds = nil
}

// deriveKinds finds the classes of a workflow's nodes anew.
func (fs *flows) deriveKinds(f *flow, r *workflowRow) {
	for _, v := range f.rows {
		f.kinds = fs.takeKind(f, f.kinds, v.number, v.spec)
	}
	if r.state.Terminal() {
		fs.freeKinds(f)
	}
}

// kinds checks the classes of a workflow's nodes against their specs.
func (c *checker) kinds(f *flow, r *workflowRow) {
	known, at := make(map[string]bool, len(f.kinds)), 0
	for _, v := range f.rows {
		words := v.spec.words()
		requirements := sched.RequirementsOf(&words)
		key := requirements.Key()
		if known[key] {
			continue
		}
		known[key] = true
		if at >= len(f.kinds) || f.kinds[at].vertex != v.number || f.holds != nil && !f.holds[f.kinds[at].class] {
			c.fault("I4: the class of vertex %d of workflow %s is not filed", v.number, r.id)
			return
		}
		at++
	}
	if at != len(f.kinds) || (f.holds == nil) != r.state.Terminal() || f.holds != nil && len(f.holds) != at {
		c.fault("I4: workflow %s, which is %s, has nodes of %d classes, filed are %d and held %d", r.id, r.state, at, len(f.kinds),
			len(f.holds))
	}
}
