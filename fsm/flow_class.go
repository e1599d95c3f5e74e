package fsm

import (
	"fmt"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/refuse"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
)

// A queue has at most MaxClassesPerQueue classes (SPEC §1), and a release is never refused. So an OPEN or RUNNING
// workflow is a user of every class of its nodes, from their upload to its end: what its jobs share with it and with
// others counts once. Counting only the classes of live jobs was rejected: 100,000 nodes of one class each would pass
// the check one by one, and then all be released.

// kind is a class of a workflow's nodes: the first node with it, and its number while the workflow holds it.
type kind struct {
	vertex uint32
	class  sched.ClassID
}

// takeKind adds one use of the class of a spec, and returns it if the workflow, or taken, already has that class.
func (fs *flows) takeKind(f *flow, taken []kind, v uint32, spec *state.KeptSpec) []kind {
	s, words := fs.placement.registry.supply, spec.Words()
	c := s.Intern(sched.RequirementsOf(&words))
	if f.holds[c] {
		s.Release(c)
		return taken
	}
	f.holds[c] = true
	return append(taken, kind{v, c})
}

// dropKinds returns the classes taken for a workflow that was then refused.
func (fs *flows) dropKinds(f *flow, taken []kind) {
	for _, k := range taken {
		delete(f.holds, k.class)
		fs.placement.registry.supply.Release(k.class)
	}
}

// admitKind checks the class that was just taken for a spec.
func (fs *flows) admitKind(f *flow, spec *state.KeptSpec) error {
	if n := len(f.holds); n > limits.MaxWorkflowClasses {
		return rota.Refusef(rota.KindInvalid, "requires",
			"the nodes of workflow %s have more than %d different requirement sets: give "+
				"more of them the same, or split the workflow", f.id, limits.MaxWorkflowClasses)
	}
	if fs.placement.registry.supply.Classes(spec.Queue) > limits.MaxClassesPerQueue {
		return refuse.Exhausted("requires",
			"queue %q has jobs and nodes of workflows of %d different requirement sets: no more are taken",
			spec.Queue, limits.MaxClassesPerQueue)
	}
	return nil
}

// holdKinds takes all classes of a workflow that runs again, or none.
func (fs *flows) holdKinds(f *flow) error {
	f.holds = make(map[sched.ClassID]bool, len(f.kinds))
	taken := make([]kind, 0, len(f.kinds))
	for _, k := range f.kinds {
		spec := f.rows[k.vertex].Spec
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

// freeKinds returns the classes of a workflow that is over or abandoned.
func (fs *flows) freeKinds(f *flow) {
	for _, k := range f.kinds {
		fs.placement.registry.supply.Release(k.class)
	}
	f.holds = nil
}

// deriveKinds rebuilds the classes of a workflow's nodes.
func (fs *flows) deriveKinds(f *flow, r *state.WorkflowRow) {
	for _, v := range f.rows {
		f.kinds = fs.takeKind(f, f.kinds, v.Number, v.Spec)
	}
	if r.State.Terminal() {
		fs.freeKinds(f)
	}
}

// kinds checks the classes of a workflow's nodes against their specs.
func (c *checker) kinds(f *flow, r *state.WorkflowRow) {
	known, at := make(map[string]bool, len(f.kinds)), 0
	for _, v := range f.rows {
		words := v.Spec.Words()
		requirements := sched.RequirementsOf(&words)
		key := requirements.Key()
		if known[key] {
			continue
		}
		known[key] = true
		if at >= len(f.kinds) || f.kinds[at].vertex != v.Number || f.holds != nil && !f.holds[f.kinds[at].class] {
			c.fault("I4: the class of vertex %d of workflow %s is not filed", v.Number, r.ID)
			return
		}
		at++
	}
	if at != len(f.kinds) || (f.holds == nil) != r.State.Terminal() || f.holds != nil && len(f.holds) != at {
		c.fault("I4: workflow %s, which is %s, has nodes of %d classes, filed are %d and held %d", r.ID, r.State, at,
			len(f.kinds),
			len(f.holds))
	}
}

// deriveFlows rebuilds all derived data of workflows, before jobs are derived: those of nodes share the vertices'
// specs.
func (fs *flows) deriveFlows() error {
	var err error
	fs.workflows.Scan(func(id rota.WorkflowID, r *state.WorkflowRow) bool {
		fs.flowIndex.all.add(r, 1)
		if r.Leaving {
			fs.flowIndex.leaving.Set(r.Seq, id)
			return true
		}
		if fs.s.QueueTable.Get(r.Queue) == nil || r.Added > r.Nodes || r.From > r.Added {
			err = fmt.Errorf("workflow %s contradicts itself, or is of the unknown queue %q", id, r.Queue)
			return false
		}
		fs.flowIndex.kept.add(r, 1)
		fs.flowIndex.byID[id] = newFlow(r)
		fs.s.Timers.Upload.Refile(string(id), 0, r.Lapses())
		if r.Endures() {
			fs.noteOver(r, 1)
		}
		return true
	})
	if err != nil {
		return err
	}
	fs.vertices.Scan(func(_ string, v *state.VertexRow) bool {
		err = fs.deriveVertex(v)
		return err == nil
	})
	if err != nil {
		return err
	}
	fs.workflows.Scan(func(id rota.WorkflowID, r *state.WorkflowRow) bool {
		if f := fs.flowIndex.byID[id]; f != nil {
			err = fs.deriveFlow(f, r)
		}
		return err == nil
	})
	return err
}

// deriveVertex adds a vertex to its flow. Vertices must be added in the order of their numbers.
func (fs *flows) deriveVertex(v *state.VertexRow) error {
	fs.flowIndex.attempts += len(v.Past.List())
	r, f := fs.workflows.Get(v.Workflow), fs.flowIndex.byID[v.Workflow]
	_, name, _ := rota.SplitNodeJobID(v.Spec.ID)
	switch {
	case r == nil || f == nil && !r.Leaving:
		return fmt.Errorf("vertex %d is of the unknown workflow %q", v.Number, v.Workflow)
	case v.Spec.ID != rota.NodeJobID(v.Workflow, name) || fs.s.QueueTable.Get(v.Spec.Queue) == nil:
		return fmt.Errorf("vertex %d of workflow %s has id %q and queue %q", v.Number, v.Workflow, v.Spec.ID,
			v.Spec.Queue)
	case f == nil:
		return nil
	}
	if _, twice := f.byName[name]; twice || int(v.Number) != len(f.rows) || v.Number >= r.Added {
		return fmt.Errorf("vertex %d of workflow %s, node %q, is duplicate or out of order", v.Number, v.Workflow, name)
	}
	if by, grown := v.GrownBy(); grown {
		if s := f.sprouts[by]; by >= v.Number || f.rows[by].State != rota.NodeState(rota.JobCompleted) || s != nil &&
			s.first+s.n != v.Number {
			return fmt.Errorf("vertex %d of workflow %s was grown by %d, apart from others", v.Number, v.Workflow, by)
		}
	}
	f.append(v)
	return nil
}

// deriveFlow counts the ended parents in a workflow, and schedules its pending work.
func (fs *flows) deriveFlow(f *flow, r *state.WorkflowRow) error {
	open := r.State == rota.WorkflowOpen
	if len(f.rows) != int(r.Added) || !open && (r.Added != r.Nodes || r.Added == 0) {
		return fmt.Errorf("workflow %s has %d vertices, %d of %d should be there", f.id, len(f.rows), r.Added, r.Nodes)
	}
	for _, v := range f.rows {
		switch {
		case v.State == rota.NodeState(rota.JobCompleted):
			f.queues[f.queueAt[v.Spec.Queue]].completed++
			f.ripple(v.Number, func(c uint32) { f.waiting[c]-- }) // the vertices that it grew have larger numbers
		case v.Lost():
			f.spoil(v.Number, 1, func(c uint32) { f.lost[c]++ })
		}
		f.settle(v.Number, func(c uint32) { f.open[c]-- })
	}
	fs.deriveKinds(f, r)
	if r.Redo && r.From > 0 {
		f.redo, _ = f.after(r.From - 1)
	}
	if r.Passing() {
		fs.flowIndex.passing.Set(f.seq, f)
	}
	for _, v := range f.rows {
		fs.s.Timers.Gate.Refile(v.Key, 0, v.GateDue())
		switch {
		case open && len(v.Parents) == 0:
			f.work.Insert(v.Number)
		case r.State == rota.WorkflowRunning:
			fs.addWork(f, r, v.Number)
		}
	}
	return nil
}

// deriveNodeJob makes the job of a node share its vertex's spec, and sets where its parents' outputs are.
func (fs *flows) deriveNodeJob(j *state.JobRow) error {
	if j.Workflow == "" {
		return nil
	}
	f := fs.flowIndex.byID[j.Workflow]
	if f == nil || int(j.Vertex) >= len(f.rows) || f.rows[j.Vertex].Spec.ID != j.Spec.ID {
		return fmt.Errorf("job %s is of no vertex of workflow %q", j.Spec.ID, j.Workflow)
	}
	v := f.rows[j.Vertex]
	if state.HashSpec(&fs.s.Ledger.Enc, v.Spec) != j.SpecHash {
		return fmt.Errorf("job %s has another spec than its vertex", j.Spec.ID)
	}
	j.Spec, j.Data = v.Spec, f.data(v) // a node's job has a jobLife
	return nil
}
