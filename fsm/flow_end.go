package fsm

import (
	"slices"
	"strconv"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
)

// noteAttempt copies the data of an ended attempt that a vertex stores about its last one.
func (fs *flows) noteAttempt(l *state.LeaseRow, j *state.JobRow) {
	if j.Workflow == "" {
		return
	}
	v := fs.editVertex(fs.flowIndex.byID[j.Workflow], j.Vertex)
	v.Worker, v.Attempt, v.Assigned, v.AssignedAt = l.Worker, l.Attempt, l.Started, l.Index
}

// endVertex records the end of a vertex's job and updates the vertices that wait for it. It touches only its out-edges
// (SPEC §11.2). Further consequences follow at the end of the entry, and in the next ones.
func (fs *flows) endVertex(j *state.JobRow, state rota.JobState, why rota.Reason) {
	if j.Workflow == "" {
		return
	}
	f, r := fs.flowIndex.byID[j.Workflow], fs.workflows.Edit(j.Workflow)
	v := fs.editVertex(f, j.Vertex)
	v.State, v.Reason, v.FreeAt = rota.NodeState(state), why, max(v.FreeAt, fs.ended.freeAt)
	fs.keepPast(v, j, state)
	if why == rota.ReasonParentFailed || why == rota.ReasonNotNeeded {
		v.State = rota.NodeSkipped
	}
	if v.Unneeded() {
		r.Unneeded++
	}
	v.Finished, v.FinishedAt = fs.s.Header.Now(), fs.s.At
	r.Live--
	*r.Count(v.State)++
	if state == rota.JobCompleted {
		f.queues[f.queueAt[v.Spec.Queue]].completed++
		f.ripple(v.Number, func(c uint32) {
			if f.waiting[c]--; f.waiting[c] == 0 {
				fs.addWork(f, r, c)
			}
		})
	} else {
		fs.failVertex(f, r, v)
	}
	f.settle(v.Number, func(c uint32) {
		if f.open[c]--; f.open[c] == 0 && f.rows[c].Run != rota.RunOnSuccess {
			fs.addWork(f, r, c)
		}
	})
	fs.finishFlow(f, r)
}

// unheard reports whether a node released by a retry waits for the end of a cancelled lease: its worker may not know of
// the cancellation.
func (fs *flows) unheard(j *state.JobRow) bool {
	f := fs.flowIndex.byID[j.Workflow]
	return f != nil && j.Attempt == 0 && j.Declines == 0 && j.Due != 0 && f.rows[j.Vertex].FreeAt == j.Due
}

// keepPast keeps what the jobs of a node have spent, and their attempts, if a retry may run it again. The number of
// attempts kept over all such nodes is bounded: there may be two million nodes.
func (fs *flows) keepPast(v *state.VertexRow, j *state.JobRow, st rota.JobState) {
	fs.flowIndex.attempts -= len(v.Past.List())
	v.Past = nil
	if spent := j.History().Spent; len(spent) > 0 && st != rota.JobCompleted {
		v.Past = &state.NodePast{Spent: spent}
	}
	if st == rota.JobCompleted || len(j.Attempts) == 0 ||
		fs.flowIndex.attempts+len(j.Attempts) > limits.MaxNodeAttempts {
		return
	}
	kept := slices.Clone(j.Attempts)
	for i := range kept {
		kept[i].Error = state.Tail(kept[i].Error, limits.MaxNodeErrorBytes)
	}
	v.Past = &state.NodePast{Attempts: kept, Spent: j.History().Spent}
	fs.flowIndex.attempts += len(kept)
}

// noteLog records that the log of an attempt was kept after its job's end, if the attempt is kept for another run of
// its node.
func (fs *flows) noteLog(id rota.JobID, lease rota.LeaseID) {
	w, name, _ := rota.SplitNodeJobID(id)
	f := fs.flowIndex.byID[w]
	if f == nil {
		return
	}
	number, known := f.byName[name]
	if !known {
		return
	}
	at := slices.IndexFunc(f.rows[number].Past.List(), func(a rota.Attempt) bool { return a.Lease == lease })
	if at < 0 {
		return
	}
	kept := slices.Clone(f.rows[number].Past.List())
	kept[at].Log = true
	fs.editVertex(f, number).Past = &state.NodePast{Attempts: kept, Spent: f.rows[number].Past.Costs()}
}

// failVertex applies the consequences of a node that did not complete (SPEC §11.3). A node that ended because the
// workflow ends, or an ancestor failed, has not failed itself.
func (fs *flows) failVertex(f *flow, r *state.WorkflowRow, v *state.VertexRow) {
	if v.FailedItself() {
		if r.Reason == rota.ReasonNone {
			r.Failed, r.Reason = v.Number, v.Reason
		}
		if r.Policy == rota.FailureFailFast && r.Ending == rota.WorkflowNone {
			fs.endFlow(f, r, rota.WorkflowFailed)
		}
	}
	f.spoil(v.Number, 1, func(c uint32) {
		if f.lost[c]++; f.lost[c] == 1 { // if it lost more parents it is in work already
			fs.addWork(f, r, c)
		}
	})
}

// endFlow starts the end of a RUNNING workflow: nothing more is released, a pass cancels the nodes that must not
// continue, and nodes that may continue are awaited.
func (fs *flows) endFlow(f *flow, r *state.WorkflowRow, as rota.WorkflowState) {
	r.Ending, r.Cursor, r.Redo, r.From = as, 0, false, 0
	f.redo = nil
	due := f.outliving(r)
	f.work.Clear()
	fs.flowIndex.ready.Delete(f.seq)
	for _, number := range due {
		fs.addWork(f, r, number)
	}
	fs.flowIndex.passing.Set(f.seq, f)
}

// endsWith cancels a job that would wait again if its workflow is ending: an attempt that does not complete is then its
// last. Its lease is closed already.
func (fs *flows) endsWith(j *state.JobRow) bool {
	if !fs.doomed(j) {
		return false
	}
	why := fs.workflows.Get(j.Workflow).Why()
	fs.s.Journal.EmitFor(j, &rota.Event{Kind: rota.EventJobCancelled, Job: j.Spec.ID, Queue: j.Spec.Queue,
		Tenant: j.Spec.Tenant, Attempt: j.Attempt,
		Reason: why})
	fs.life.finish(j, rota.JobCancelled, why, result{})
	return true
}

// doomed reports whether a job only waits for the pass that cancels it, as its workflow is ending: it is no longer
// leased (SPEC §11.3).
func (fs *flows) doomed(j *state.JobRow) bool {
	if j.Workflow == "" {
		return false
	}
	ending := fs.workflows.Get(j.Workflow).Ending
	return ending != rota.WorkflowNone && !fs.flowIndex.byID[j.Workflow].rows[j.Vertex].Outlives(ending)
}

// finishFlow ends a RUNNING workflow without remaining work. If a retry ran only a part of it again, it returns to its
// previous state, unless that part failed too.
func (fs *flows) finishFlow(f *flow, r *state.WorkflowRow) {
	if r.State != rota.WorkflowRunning || r.Blocked+r.Live > 0 || r.Redo {
		return
	}
	st := r.Ending
	switch {
	case r.Completed+r.Unneeded == r.Nodes:
		st = rota.WorkflowCompleted
	case st != rota.WorkflowNone:
	case r.Reason != rota.ReasonNone:
		st = rota.WorkflowFailed
	default:
		st = r.Was
	}
	if st == rota.WorkflowFailed && r.Reason == rota.ReasonNone && fs.s.Header.Rules >= culpritRules {
		f.blame(r)
	}
	fs.flowIndex.passing.Delete(f.seq)
	fs.freeKinds(f)
	fs.access.Hold(r.By, access.OwnsWorkflow, -1)
	r.State, r.Ending, r.Cursor = st, rota.WorkflowNone, 0
	r.Finished = fs.s.Header.Now()
	r.Due = fs.ended.remembered(r.Queue, 0)
	fs.noteOver(r, 1)
	fs.budgets.FlowEnded(r.ID)
	e := rota.Event{Kind: rota.EventWorkflowFinished, Reason: r.Reason, Payload: fs.finishedPayload(r)}
	if r.Reason != rota.ReasonNone {
		e.Node = state.VertexName(f.rows[r.Failed])
	}
	fs.emitFlow(r, e)
}

// culpritRules is the first rules version under which a FAILED workflow always names a node.
const culpritRules = 2

// blame sets the node for which a workflow stays FAILED when a retry ran only a part of it again: among those that did
// not complete, the first that ended for a reason of its own, else the first; r is editable.
func (f *flow) blame(r *state.WorkflowRow) {
	var first *state.VertexRow
	for _, v := range f.rows {
		if v.Lost() && (first == nil || v.BlamedBefore(first)) {
			first = v
		}
	}
	if first != nil {
		r.Failed, r.Reason = first.Number, first.Reason
	}
}

// emitFlow adds an event about a workflow; r is editable.
func (fs *flows) emitFlow(r *state.WorkflowRow, e rota.Event) {
	e.Run, e.Queue, e.Tenant, e.Parent = string(r.ID), r.Queue, r.Tenant, r.LastEvent
	if id := fs.s.Journal.Announce(&e); !fs.s.Journal.Mute {
		r.LastEvent = id
	}
}

// startedPayload returns the payload of workflowStarted.
func (fs *flows) startedPayload(r *state.WorkflowRow) string {
	b := strconv.AppendUint(append(fs.s.Journal.Scratch[:0], `{"nodes":`...), uint64(r.Nodes), 10)
	b = strconv.AppendUint(append(b, `,"edges":`...), r.Edges, 10)
	b = strconv.AppendInt(append(b, `,"run":`...), int64(r.Runs), 10)
	fs.s.Journal.Scratch = append(b, '}')
	return string(fs.s.Journal.Scratch)
}

// finishedPayload returns the payload of workflowFinished: how a workflow's nodes ended.
func (fs *flows) finishedPayload(r *state.WorkflowRow) string {
	b := append(fs.s.Journal.Scratch[:0], `{"state":"`...)
	b = append(append(b, r.State.String()...), '"')
	for _, n := range []struct {
		name  string
		count uint32
	}{{"nodes", r.Nodes}, {"completed", r.Completed}, {"dead", r.Dead}, {"expired", r.Expired},
		{"cancelled", r.Cancelled},
		{"skipped", r.Skipped}} {
		b = append(append(append(b, `,"`...), n.name...), `":`...)
		b = strconv.AppendUint(b, uint64(n.count), 10)
	}
	b = strconv.AppendInt(append(b, `,"run":`...), int64(r.Runs), 10)
	fs.s.Journal.Scratch = append(b, '}')
	return string(fs.s.Journal.Scratch)
}

// Passes visit all vertices of a workflow, by number: one that ends cancels, one that is retried takes vertices back,
// one that leaves drops them. A pass may be long, so an entry does a part of it, and the row's cursor is where the next
// one continues. Doing all in one entry was rejected: with 100,000 nodes it stops the cluster for a third of a second.

// looksPerStep is the ratio of vertices that passes may look at in one entry to those that they may change: a look
// costs a small part of a change.
const looksPerStep = 16

// settlePasses does at most left steps of all passes, with at most looks looks, and returns the rest of both. It stops
// when the records staged so far take most bytes.
func (fs *flows) settlePasses(left, looks int, most int64) (int, int) {
	for left > 0 && looks > 0 && fs.ended.staged.added < most {
		_, f, ok := fs.flowIndex.passing.Min()
		if !ok {
			break
		}
		left, looks = fs.pass(f, fs.workflows.Edit(f.id), left, looks, most)
	}
	for left > 0 {
		_, id, ok := fs.flowIndex.leaving.Min()
		if !ok {
			break
		}
		left = fs.dropSome(fs.workflows.Edit(id), left)
	}
	return left, looks
}

// pass continues one workflow's pass; r is editable.
func (fs *flows) pass(f *flow, r *state.WorkflowRow, left, looks int, most int64) (int, int) {
	for r.Passing() && left > 0 && looks > 0 && fs.ended.staged.added < most {
		number := r.Cursor
		r.Cursor++
		looks--
		if r.Redo && fs.takeBack(f, r, number) || !r.Redo && fs.cancelVertex(f, r, number) {
			left--
		}
	}
	if r.State == rota.WorkflowRunning && !r.Passing() {
		fs.flowIndex.passing.Delete(f.seq)
		if r.Redo {
			r.Redo, r.From, r.Cursor, f.redo = false, 0, 0, nil
			if f.work.Len() > 0 {
				fs.flowIndex.ready.Set(f.seq, f)
			}
			fs.finishFlow(f, r) // everything may have ended already
		}
	}
	return left, looks
}

// cancelVertex ends a vertex of a workflow that is ending, and reports whether there was anything to end. If the
// workflow failed, leased jobs run to their end.
func (fs *flows) cancelVertex(f *flow, r *state.WorkflowRow, number uint32) bool {
	v := f.rows[number]
	var j *state.JobRow
	switch {
	case v.Over() || v.Outlives(r.Ending):
		return false
	case v.State == state.VertexBlocked:
		j = fs.makeJob(f, r, number)
	default:
		if j = fs.s.JobTable.Get(v.Spec.ID); j.State.Leased() && r.Ending == rota.WorkflowFailed {
			return false
		}
		j = fs.s.JobTable.Edit(v.Spec.ID)
	}
	fs.life.expel(j, rota.JobCancelled, r.Why())
	return true
}

// takeBack makes a vertex that a retry runs again Blocked, and reports whether it is such a vertex. It may run before
// takeBack of the vertices that this one waits for.
func (fs *flows) takeBack(f *flow, r *state.WorkflowRow, number uint32) bool {
	v := f.rows[number]
	if !v.Lost() || f.redo != nil && !f.redo[number] {
		return false
	}
	v = fs.editVertex(f, number)
	if v.Unneeded() {
		r.Unneeded--
	}
	*r.Count(v.State)--
	r.Blocked++
	fs.s.QueueTable.Edit(v.Spec.Queue).Blocked++
	v.State, v.Reason, v.Finished, v.FinishedAt = state.VertexBlocked, rota.ReasonNone, rota.Moment{}, 0
	v.Worker, v.Attempt, v.Assigned, v.AssignedAt = "", 0, rota.Moment{}, 0
	if v.Gate != nil {
		v.Gate = &state.Gate{Terms: v.Gate.Terms} // it waits for another signal
	}
	if t := fs.ended.tombs.Get(v.Spec.ID); t != nil {
		fs.ended.dropTomb(t.ID, t.Seq)
	}
	f.spoil(number, -1, func(c uint32) {
		if f.lost[c]--; f.lost[c] == 0 && f.work.Contains(c) && !f.due(r, f.rows[c]) {
			fs.dropWork(f, c)
		}
	})
	f.unsettle(number, func(c uint32) {
		if f.open[c]++; f.work.Contains(c) && !f.due(r, f.rows[c]) {
			fs.dropWork(f, c)
		}
	})
	fs.addWork(f, r, number)
	return true
}

// noteOver adds a workflow that is over to the timers by date, and to those by order of end, from which new workflows
// get their room; a by of -1 removes it.
func (fs *flows) noteOver(r *state.WorkflowRow, by int64) {
	id, due, end := string(r.ID), int64(r.Due), int64(r.Finished.Clock)
	if by > 0 {
		fs.s.Timers.Ended.Refile(id, 0, due)
		fs.s.Timers.Oldest.Refile(id, 0, end)
	} else {
		fs.s.Timers.Ended.Refile(id, due, 0)
		fs.s.Timers.Oldest.Refile(id, end, 0)
	}
	fs.flowIndex.over.add(r, by)
}

// leave forgets a workflow that is over, or whose upload is abandoned: at once for callers, its rows over the next
// entries; r is editable.
func (fs *flows) leave(r *state.WorkflowRow) {
	fs.s.Timers.Upload.Refile(string(r.ID), r.Lapses(), 0)
	fs.flowIndex.kept.add(r, -1)
	if r.Endures() {
		fs.noteOver(r, -1)
	} else {
		fs.freeKinds(fs.flowIndex.byID[r.ID])
	}
	if r.Lives() {
		fs.access.Hold(r.By, access.OwnsWorkflow, -1)
	}
	delete(fs.flowIndex.byID, r.ID)
	r.Leaving, r.Cursor = true, 0
	fs.flowIndex.leaving.Set(r.Seq, r.ID)
}

// dropSome drops vertices of a leaving workflow, and its row after the last one.
func (fs *flows) dropSome(r *state.WorkflowRow, left int) int {
	for ; r.Cursor < r.Added && left > 0; left-- {
		key := state.VertexKey(r.ID, r.Cursor)
		fs.flowIndex.attempts -= len(fs.vertices.Get(key).Past.List())
		fs.vertices.Drop(key)
		r.Cursor++
	}
	if left == 0 {
		return 0
	}
	fs.flowIndex.all.add(r, -1)
	fs.flowIndex.leaving.Delete(r.Seq)
	fs.workflows.Drop(r.ID)
	return left - 1
}

func (fs *flows) fireUpload(id string) { fs.leave(fs.workflows.Edit(rota.WorkflowID(id))) }
func (fs *flows) fireEnded(id string)  { fs.leave(fs.workflows.Edit(rota.WorkflowID(id))) }
