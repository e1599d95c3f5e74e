package fsm

import (
	"fmt"

	"github.com/rotasched/rota"
)

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
		if fs.m.queues.get(r.queue) == nil || r.added > r.nodes || r.from > r.added {
			err = fmt.Errorf("workflow %s contradicts itself, or is of the unknown queue %q", id, r.queue)
			return false
		}
		fs.flowIndex.kept.add(r, 1)
		fs.flowIndex.byID[id] = newFlow(r)
		fs.m.timers.upload.set(string(id), 0, r.lapses())
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
	case v.spec.ID != rota.NodeJobID(v.workflow, name) || fs.m.queues.get(v.spec.Queue) == nil:
		return fmt.Errorf("vertex %d of workflow %s has id %q and queue %q", v.number, v.workflow, v.spec.ID, v.spec.Queue)
	case f == nil:
		return nil
	}
	if _, twice := f.byName[name]; twice || int(v.number) != len(f.rows) || v.number >= r.added {
		return fmt.Errorf("vertex %d of workflow %s, node %q, stands twice or out of order", v.number, v.workflow, name)
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
		for _, c := range f.children[v.number] {
			if v.state == rota.NodeState(rota.JobCompleted) {
				f.waiting[c]--
			} else if v.lost() {
				f.lost[c]++
			}
		}
		if v.state == rota.NodeState(rota.JobCompleted) {
			f.queues[f.queueAt[v.spec.Queue]].completed++
		}
	}
	fs.deriveKinds(f, r)
	if r.redo && r.from > 0 {
		f.redo, _ = f.after(r.from - 1)
	}
	if r.passing() {
		fs.flowIndex.passing.Set(f.seq, f)
	}
	for _, v := range f.rows {
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
	if hashSpec(&fs.m.ledger.enc, v.spec) != j.specHash {
		return fmt.Errorf("job %s has another spec than its vertex", j.spec.ID)
	}
	j.spec, j.data = v.spec, f.data(v) // a node's job has a jobLife
	return nil
}
