package fsm

import (
	"fmt"

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
	s, words := fs.placement.registry.supply, spec.words()
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
		fs.placement.registry.supply.Release(k.class)
	}
}

// admitKind checks the class that was taken for a spec just now.
func (fs *flows) admitKind(f *flow, spec *keptSpec) error {
	if n := len(f.holds); n > limits.MaxWorkflowClasses {
		return rota.Refusef(rota.KindInvalid, "requires", "the nodes of workflow %s have more than %d different requirement sets: give "+
			"more of them the same, or split the workflow", f.id, limits.MaxWorkflowClasses)
	}
	if fs.placement.registry.supply.Classes(spec.Queue) > limits.MaxClassesPerQueue {
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
		fs.placement.registry.supply.Release(k.class)
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

// deriveFlows rebuilds all that is derived of workflows, before jobs are derived:
// those of nodes share their specs.
func (fs *flows) deriveFlows() error {
	var err error
	fs.workflows.scan(func(id rota.WorkflowID, r *workflowRow) bool {
		fs.flowIndex.all.add(r, 1)
		if r.leaving {
			fs.flowIndex.leaving.Set(r.seq, id)
			return true
		}
		if fs.s.queues.get(r.queue) == nil || r.added > r.nodes || r.from > r.added {
			err = fmt.Errorf("workflow %s contradicts itself, or is of the unknown queue %q", id, r.queue)
			return false
		}
		fs.flowIndex.kept.add(r, 1)
		fs.flowIndex.byID[id] = newFlow(r)
		fs.s.timers.upload.set(string(id), 0, r.lapses())
		if r.endures() {
			fs.noteOver(r, 1)
		}
		return true
	})
	if err != nil {
		return err
	}
	fs.vertices.scan(func(_ string, v *vertexRow) bool {
		err = fs.deriveVertex(v)
		return err == nil
	})
	if err != nil {
		return err
	}
	fs.workflows.scan(func(id rota.WorkflowID, r *workflowRow) bool {
		if f := fs.flowIndex.byID[id]; f != nil {
			err = fs.deriveFlow(f, r)
		}
		return err == nil
	})
	return err
}

// deriveVertex adds a vertex to its flow; they come in the order of their numbers.
func (fs *flows) deriveVertex(v *vertexRow) error {
	fs.flowIndex.attempts += len(v.past.list())
	r, f := fs.workflows.get(v.workflow), fs.flowIndex.byID[v.workflow]
	_, name, _ := rota.SplitNodeJobID(v.spec.ID)
	switch {
	case r == nil || f == nil && !r.leaving:
		return fmt.Errorf("vertex %d is of the unknown workflow %q", v.number, v.workflow)
	case v.spec.ID != rota.NodeJobID(v.workflow, name) || fs.s.queues.get(v.spec.Queue) == nil:
		return fmt.Errorf("vertex %d of workflow %s has id %q and queue %q", v.number, v.workflow, v.spec.ID, v.spec.Queue)
	case f == nil:
		return nil
	}
	if _, twice := f.byName[name]; twice || int(v.number) != len(f.rows) || v.number >= r.added {
		return fmt.Errorf("vertex %d of workflow %s, node %q, stands twice or out of order", v.number, v.workflow, name)
	}
	if by, grown := v.grownBy(); grown {
		if s := f.sprouts[by]; by >= v.number || f.rows[by].state != rota.NodeState(rota.JobCompleted) || s != nil && s.first+s.n != v.number {
			return fmt.Errorf("vertex %d of workflow %s was grown by %d, apart from others", v.number, v.workflow, by)
		}
	}
	f.append(v)
	return nil
}

// deriveFlow counts what has ended of a workflow's parents, and files what is to be
// done for it.
func (fs *flows) deriveFlow(f *flow, r *workflowRow) error {
	open := r.state == rota.WorkflowOpen
	if len(f.rows) != int(r.added) || !open && (r.added != r.nodes || r.added == 0) {
		return fmt.Errorf("workflow %s has %d vertices, %d of %d should be there", f.id, len(f.rows), r.added, r.nodes)
	}
	for _, v := range f.rows {
		switch {
		case v.state == rota.NodeState(rota.JobCompleted):
			f.queues[f.queueAt[v.spec.Queue]].completed++
			f.ripple(v.number, func(c uint32) { f.waiting[c]-- }) // what it grew has larger numbers
		case v.lost():
			f.spoil(v.number, 1, func(c uint32) { f.lost[c]++ })
		}
		f.settle(v.number, func(c uint32) { f.open[c]-- })
	}
	fs.deriveKinds(f, r)
	if r.redo && r.from > 0 {
		f.redo, _ = f.after(r.from - 1)
	}
	if r.passing() {
		fs.flowIndex.passing.Set(f.seq, f)
	}
	for _, v := range f.rows {
		fs.s.timers.gate.set(v.key, 0, v.gateDue())
		switch {
		case open && len(v.parents) == 0:
			f.work.Insert(v.number)
		case r.state == rota.WorkflowRunning:
			fs.addWork(f, r, v.number)
		}
	}
	return nil
}

// deriveNodeJob lets the job of a node share its vertex's spec, and tells where its
// parents' outputs lie.
func (fs *flows) deriveNodeJob(j *jobRow) error {
	if j.workflow == "" {
		return nil
	}
	f := fs.flowIndex.byID[j.workflow]
	if f == nil || int(j.vertex) >= len(f.rows) || f.rows[j.vertex].spec.ID != j.spec.ID {
		return fmt.Errorf("job %s is of no vertex of workflow %q", j.spec.ID, j.workflow)
	}
	v := f.rows[j.vertex]
	if hashSpec(&fs.s.ledger.enc, v.spec) != j.specHash {
		return fmt.Errorf("job %s has another spec than its vertex", j.spec.ID)
	}
	j.spec, j.data = v.spec, f.data(v) // a node's job has a jobLife
	return nil
}
