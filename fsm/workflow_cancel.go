package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
)

// committed returns a workflow that somebody may see; the error says that there is none.
func (fs *flows) committed(id rota.WorkflowID) (*workflowRow, error) {
	if r := fs.workflows.get(id); r != nil && !r.leaving && r.state != rota.WorkflowOpen {
		return r, nil
	}
	return nil, rota.Refusef(rota.KindNotFound, "workflow", "workflow %.80q is not known", id)
}

// cancelWorkflow ends what has not ended of a workflow, leases too; what is done
// stays. One that is failing is CANCELLED then.
func (fs *flows) cancelWorkflow(op *fsmpb.CancelWorkflow) *fsmpb.Outcome {
	r, err := fs.committed(rota.WorkflowID(op.GetId()))
	switch {
	case err != nil:
		return entry.Refused(err)
	case r.state == rota.WorkflowCancelled || r.ending == rota.WorkflowCancelled:
		return flowOutcome(r, true)
	case r.state != rota.WorkflowRunning:
		return flowRefused(r, rota.Refusef(rota.KindConflict, "workflow", "workflow %s is %s already", r.id, r.state))
	}
	r = fs.workflows.edit(r.id)
	f := fs.flowIndex.byID[r.id]
	fs.endFlow(f, r, rota.WorkflowCancelled)
	fs.finishFlow(f, r) // where a retry has taken nothing back yet there is nothing left to end
	return flowOutcome(r, false)
}

// flowRefused is a refusal that tells where the workflow stands.
func flowRefused(r *workflowRow, err error) *fsmpb.Outcome {
	o := entry.Refused(err)
	o.WorkflowState, o.Runs = uint32(r.state), r.runs
	return o
}

// retryWorkflow runs again what did not complete of a workflow that FAILED or was
// CANCELLED, all of it or what hangs on a node (SPEC §11.3). What COMPLETED stays. It
// is RUNNING at once; vertices that the pass has not come to yet stand as they ended.
// A retry that was counted already is known by the number of runs.
func (fs *flows) retryWorkflow(op *fsmpb.RetryWorkflow) *fsmpb.Outcome {
	r, err := fs.committed(rota.WorkflowID(op.GetId()))
	switch {
	case err != nil:
		return entry.Refused(err)
	case op.GetRuns() < r.runs:
		return flowOutcome(r, true)
	case op.GetRuns() > r.runs:
		return flowRefused(r, rota.Refusef(rota.KindInvalid, "runs", "workflow %s has run %d times, not %d", r.id, r.runs,
			op.GetRuns()))
	case r.state != rota.WorkflowFailed && r.state != rota.WorkflowCancelled:
		return flowRefused(r, rota.Refusef(rota.KindConflict, "workflow", "workflow %s is %s: only one that FAILED or was CANCELLED can be "+
			"retried", r.id, r.state))
	}
	f := fs.flowIndex.byID[r.id]
	from, redo := uint32(0), []bool(nil)
	number, known := f.byName[op.GetFrom()]
	if op.GetFrom() != "" && !known {
		return flowRefused(r, rota.Refusef(rota.KindNotFound, "from", "workflow %s has no node %.80q", r.id, op.GetFrom()))
	}
	looks := len(f.queues) + 16*len(f.kinds) // a class is held against the workers
	if op.GetFrom() != "" {
		looks += len(f.rows) + int(r.edges)
	}
	if err := fs.flowIndex.spend(looks); err != nil {
		return flowRefused(r, err)
	}
	if op.GetFrom() != "" {
		var any bool
		if redo, any = f.after(number); !any {
			return flowRefused(r, rota.Refusef(rota.KindConflict, "from", "node %s of workflow %s and all that waits for it have COMPLETED: "+
				"there is nothing to run again", op.GetFrom(), r.id))
		}
		from = number + 1
	}
	for _, q := range f.again(redo) {
		row := fs.m.queues.get(q.name)
		if pending := row.pending(); pending+q.nodes > row.policy.QueueCap {
			return flowRefused(r, exhausted("queue", "queue %q holds %d pending jobs, the retry brings %d more: queue_cap is %d", q.name,
				pending, q.nodes, row.policy.QueueCap))
		}
	}
	if err := fs.holdKinds(f); err != nil {
		return flowRefused(r, err)
	}
	r = fs.workflows.edit(r.id)
	fs.noteOver(r, -1)
	r.was, r.state = r.state, rota.WorkflowRunning
	r.ending, r.failed, r.reason = rota.WorkflowNone, 0, rota.ReasonNone
	r.redo, r.from, r.cursor = true, from, 0
	r.runs++
	r.finished, r.due, r.started = rota.Moment{}, 0, fs.m.head.now()
	f.redo = redo
	fs.flowIndex.passing.Set(f.seq, f)
	fs.emitFlow(r, rota.Event{Kind: rota.EventWorkflowStarted, Payload: fs.startedPayload(r)})
	return flowOutcome(r, false)
}

// again counts what a retry brings to each queue.
func (f *flow) again(redo []bool) []flowQueue {
	list := make([]flowQueue, len(f.queues))
	for i, q := range f.queues {
		list[i] = flowQueue{name: q.name}
		if redo == nil {
			list[i].nodes = q.nodes - q.completed
		}
	}
	for n, marked := range redo {
		if marked {
			list[f.queueAt[f.rows[n].spec.Queue]].nodes++
		}
	}
	return list
}
