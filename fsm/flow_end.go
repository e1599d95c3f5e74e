package fsm

import (
	"slices"
	"strconv"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/limits"
)

// noteAttempt keeps of an attempt that ended what its vertex tells of the last one.
func (fs *flows) noteAttempt(l *leaseRow, j *jobRow) {
	if j.workflow == "" {
		return
	}
	v := fs.editVertex(fs.flowIndex.byID[j.workflow], j.vertex)
	v.worker, v.attempt, v.assigned, v.assignedAt = l.Worker, l.Attempt, l.Started, l.index
}

// endVertex notes the end of a vertex's job, and lets the vertices that wait for it
// know: this touches its out-edges and nothing else (SPEC §11.2). What follows for
// others is done at the end of the entry, and of the next ones.
func (fs *flows) endVertex(j *jobRow, state rota.JobState, why rota.Reason) {
	if j.workflow == "" {
		return
	}
	f, r := fs.flowIndex.byID[j.workflow], fs.workflows.edit(j.workflow)
	v := fs.editVertex(f, j.vertex)
	v.state, v.reason, v.freeAt = rota.NodeState(state), why, max(v.freeAt, fs.ended.freeAt)
	fs.keepPast(v, j, state)
	if why == rota.ReasonParentFailed || why == rota.ReasonNotNeeded {
		v.state = rota.NodeSkipped
	}
	if v.unneeded() {
		r.unneeded++
	}
	v.finished, v.finishedAt = fs.s.head.now(), fs.s.at
	r.live--
	*r.count(v.state)++
	if state == rota.JobCompleted {
		f.queues[f.queueAt[v.spec.Queue]].completed++
		f.ripple(v.number, func(c uint32) {
			if f.waiting[c]--; f.waiting[c] == 0 {
				fs.addWork(f, r, c)
			}
		})
	} else {
		fs.failVertex(f, r, v)
	}
	f.settle(v.number, func(c uint32) {
		if f.open[c]--; f.open[c] == 0 && f.rows[c].run != rota.RunOnSuccess {
			fs.addWork(f, r, c)
		}
	})
	fs.finishFlow(f, r)
}

// unheard reports whether a node that a retry released waits for the end of a lease that was
// cancelled: its worker may not have heard.
func (fs *flows) unheard(j *jobRow) bool {
	f := fs.flowIndex.byID[j.workflow]
	return f != nil && j.attempt == 0 && j.declines == 0 && j.due != 0 && f.rows[j.vertex].freeAt == j.due
}

// keepPast keeps the attempts of a node that a retry may run again. Of all such nodes so
// many are kept and no more: there may be two million nodes.
func (fs *flows) keepPast(v *vertexRow, j *jobRow, st rota.JobState) {
	fs.flowIndex.attempts -= len(v.past.list())
	v.past = nil
	if st == rota.JobCompleted || len(j.attempts) == 0 || fs.flowIndex.attempts+len(j.attempts) > limits.MaxNodeAttempts {
		return
	}
	kept := slices.Clone(j.attempts)
	for i := range kept {
		kept[i].Error = tail(kept[i].Error, limits.MaxNodeErrorBytes)
	}
	v.past = &nodePast{kept}
	fs.flowIndex.attempts += len(kept)
}

// noteLog notes that the log of an attempt was kept after its job's end, where the attempt is kept
// for another run of its node.
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
	at := slices.IndexFunc(f.rows[number].past.list(), func(a rota.Attempt) bool { return a.Lease == lease })
	if at < 0 {
		return
	}
	kept := slices.Clone(f.rows[number].past.list())
	kept[at].Log = true
	fs.editVertex(f, number).past = &nodePast{kept}
}

// failVertex does what a node that did not complete means for the others (SPEC
// §11.3). One that ended because the workflow ends, or an ancestor failed, has not
// failed itself.
func (fs *flows) failVertex(f *flow, r *workflowRow, v *vertexRow) {
	if v.failedItself() {
		if r.reason == rota.ReasonNone {
			r.failed, r.reason = v.number, v.reason
		}
		if r.policy == rota.FailureFailFast && r.ending == rota.WorkflowNone {
			fs.endFlow(f, r, rota.WorkflowFailed)
		}
	}
	f.spoil(v.number, 1, func(c uint32) {
		if f.lost[c]++; f.lost[c] == 1 { // what lost more stands in work already
			fs.addWork(f, r, c)
		}
	})
}

// endFlow lets a RUNNING workflow come to its end: nothing more is released, a pass
// cancels what is to be cancelled, and what may run on is waited for.
func (fs *flows) endFlow(f *flow, r *workflowRow, as rota.WorkflowState) {
	r.ending, r.cursor, r.redo, r.from = as, 0, false, 0
	f.redo = nil
	due := f.outliving(r)
	f.work.Clear()
	fs.flowIndex.ready.Delete(f.seq)
	for _, number := range due {
		fs.addWork(f, r, number)
	}
	fs.flowIndex.passing.Set(f.seq, f)
}

// endsWith cancels a job that would wait again, where its workflow is ending: an
// attempt that does not complete is its last then. Its lease is closed already.
func (fs *flows) endsWith(j *jobRow) bool {
	if !fs.doomed(j) {
		return false
	}
	why := fs.workflows.get(j.workflow).why()
	fs.s.journal.emitFor(j, &rota.Event{Kind: rota.EventJobCancelled, Job: j.spec.ID, Queue: j.spec.Queue, Tenant: j.spec.Tenant, Attempt: j.attempt,
		Reason: why})
	fs.life.finish(j, rota.JobCancelled, why, result{})
	return true
}

// doomed reports whether a job waits only for the pass that cancels it, as its workflow is
// ending: it is not leased any more (SPEC §11.3).
func (fs *flows) doomed(j *jobRow) bool {
	if j.workflow == "" {
		return false
	}
	ending := fs.workflows.get(j.workflow).ending
	return ending != rota.WorkflowNone && !fs.flowIndex.byID[j.workflow].rows[j.vertex].outlives(ending)
}

// finishFlow ends a RUNNING workflow of which nothing is left. One of which a retry
// ran only a part again is what it was before, unless that part failed too.
func (fs *flows) finishFlow(f *flow, r *workflowRow) {
	if r.state != rota.WorkflowRunning || r.blocked+r.live > 0 || r.redo {
		return
	}
	st := r.ending
	switch {
	case r.completed+r.unneeded == r.nodes:
		st = rota.WorkflowCompleted
	case st != rota.WorkflowNone:
	case r.reason != rota.ReasonNone:
		st = rota.WorkflowFailed
	default:
		st = r.was
	}
	if st == rota.WorkflowFailed && r.reason == rota.ReasonNone && fs.s.head.rules >= culpritRules {
		f.blame(r)
	}
	fs.flowIndex.passing.Delete(f.seq)
	fs.freeKinds(f)
	fs.access.hold(r.by, access.OwnsWorkflow, -1)
	r.state, r.ending, r.cursor = st, rota.WorkflowNone, 0
	r.finished = fs.s.head.now()
	r.due = fs.ended.remembered(r.queue, 0)
	fs.noteOver(r, 1)
	e := rota.Event{Kind: rota.EventWorkflowFinished, Reason: r.reason, Payload: fs.finishedPayload(r)}
	if r.reason != rota.ReasonNone {
		e.Node = vertexName(f.rows[r.failed])
	}
	fs.emitFlow(r, e)
}

// culpritRules are the first rules under which a FAILED workflow always names a node.
const culpritRules = 2

// blame names the node for which a workflow stays FAILED where a retry ran only a part of it again: of those that did not complete
// the first that ended for a reason of its own, else the first; r is editable.
func (f *flow) blame(r *workflowRow) {
	var first *vertexRow
	for _, v := range f.rows {
		if v.lost() && (first == nil || v.blamedBefore(first)) {
			first = v
		}
	}
	if first != nil {
		r.failed, r.reason = first.number, first.reason
	}
}

// emitFlow adds an event about a workflow; r is editable.
func (fs *flows) emitFlow(r *workflowRow, e rota.Event) {
	e.Run, e.Queue, e.Tenant, e.Parent = string(r.id), r.queue, r.tenant, r.lastEvent
	if id := fs.s.journal.announce(&e); !fs.s.journal.mute {
		r.lastEvent = id
	}
}

// startedPayload tells of a run that begins: workflowStarted.
func (fs *flows) startedPayload(r *workflowRow) string {
	b := strconv.AppendUint(append(fs.s.journal.scratch[:0], `{"nodes":`...), uint64(r.nodes), 10)
	b = strconv.AppendUint(append(b, `,"edges":`...), r.edges, 10)
	b = strconv.AppendInt(append(b, `,"run":`...), int64(r.runs), 10)
	fs.s.journal.scratch = append(b, '}')
	return string(fs.s.journal.scratch)
}

// finishedPayload returns how a workflow's nodes ended: workflowFinished.
func (fs *flows) finishedPayload(r *workflowRow) string {
	b := append(fs.s.journal.scratch[:0], `{"state":"`...)
	b = append(append(b, r.state.String()...), '"')
	for _, n := range []struct {
		name  string
		count uint32
	}{{"nodes", r.nodes}, {"completed", r.completed}, {"dead", r.dead}, {"expired", r.expired}, {"cancelled", r.cancelled},
		{"skipped", r.skipped}} {
		b = append(append(append(b, `,"`...), n.name...), `":`...)
		b = strconv.AppendUint(b, uint64(n.count), 10)
	}
	b = strconv.AppendInt(append(b, `,"run":`...), int64(r.runs), 10)
	fs.s.journal.scratch = append(b, '}')
	return string(fs.s.journal.scratch)
}

// Passes go over all vertices of a workflow, by number: one that ends cancels, one
// that is retried takes vertices back, one that leaves drops them. A pass may be
// long, so an entry does a part of it, and the row's cursor tells where the next one
// goes on. To do all in one entry was refused: it stops the cluster for a third of a
// second at 100,000 nodes.

// looksPerStep bounds the vertices that passes look at in one entry, in relation to
// those that they may change: a look costs a small part of a change.
const looksPerStep = 16

// settlePasses does at most so many steps of all passes, with as many looks, and gives
// what is left of both. They stop when the records staged so far take most bytes.
func (fs *flows) settlePasses(left, looks int, most int64) (int, int) {
	for left > 0 && looks > 0 && fs.ended.staged.added < most {
		_, f, ok := fs.flowIndex.passing.Min()
		if !ok {
			break
		}
		left, looks = fs.pass(f, fs.workflows.edit(f.id), left, looks, most)
	}
	for left > 0 {
		_, id, ok := fs.flowIndex.leaving.Min()
		if !ok {
			break
		}
		left = fs.dropSome(fs.workflows.edit(id), left)
	}
	return left, looks
}

// pass goes on with one workflow's pass; r is editable.
func (fs *flows) pass(f *flow, r *workflowRow, left, looks int, most int64) (int, int) {
	for r.passing() && left > 0 && looks > 0 && fs.ended.staged.added < most {
		number := r.cursor
		r.cursor++
		looks--
		if r.redo && fs.takeBack(f, r, number) || !r.redo && fs.cancelVertex(f, r, number) {
			left--
		}
	}
	if r.state == rota.WorkflowRunning && !r.passing() {
		fs.flowIndex.passing.Delete(f.seq)
		if r.redo {
			r.redo, r.from, r.cursor, f.redo = false, 0, 0, nil
			if f.work.Len() > 0 {
				fs.flowIndex.ready.Set(f.seq, f)
			}
			fs.finishFlow(f, r) // what ran already may have been all
		}
	}
	return left, looks
}

// cancelVertex ends a vertex of a workflow that is ending, and says whether there
// was anything to end. What is leased runs to its end where the workflow failed.
func (fs *flows) cancelVertex(f *flow, r *workflowRow, number uint32) bool {
	v := f.rows[number]
	var j *jobRow
	switch {
	case v.over() || v.outlives(r.ending):
		return false
	case v.state == vertexBlocked:
		j = fs.makeJob(f, r, number)
	default:
		if j = fs.s.jobs.get(v.spec.ID); j.state.Leased() && r.ending == rota.WorkflowFailed {
			return false
		}
		j = fs.s.jobs.edit(v.spec.ID)
	}
	fs.life.expel(j, rota.JobCancelled, r.why())
	return true
}

// takeBack makes a vertex Blocked again that a retry runs again, and says whether it
// is one. What it waits for may be taken back after it.
func (fs *flows) takeBack(f *flow, r *workflowRow, number uint32) bool {
	v := f.rows[number]
	if !v.lost() || f.redo != nil && !f.redo[number] {
		return false
	}
	v = fs.editVertex(f, number)
	if v.unneeded() {
		r.unneeded--
	}
	*r.count(v.state)--
	r.blocked++
	fs.s.queues.edit(v.spec.Queue).blocked++
	v.state, v.reason, v.finished, v.finishedAt = vertexBlocked, rota.ReasonNone, rota.Moment{}, 0
	v.worker, v.attempt, v.assigned, v.assignedAt = "", 0, rota.Moment{}, 0
	if v.gate != nil {
		v.gate = &gate{terms: v.gate.terms} // it waits for another signal
	}
	if t := fs.ended.tombs.get(v.spec.ID); t != nil {
		fs.ended.dropTomb(t.id, t.seq)
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

// noteOver puts a workflow that is over among those that leave by their dates, and by
// their ends where new ones need the room; by is -1 for one that does not endure any more.
func (fs *flows) noteOver(r *workflowRow, by int64) {
	id, due, end := string(r.id), int64(r.due), int64(r.finished.Clock)
	if by > 0 {
		fs.s.timers.ended.set(id, 0, due)
		fs.s.timers.oldest.set(id, 0, end)
	} else {
		fs.s.timers.ended.set(id, due, 0)
		fs.s.timers.oldest.set(id, end, 0)
	}
	fs.flowIndex.over.add(r, by)
}

// leave forgets a workflow that is over, or whose upload is given up: at once for
// whoever asks, its rows over the next entries; r is editable.
func (fs *flows) leave(r *workflowRow) {
	fs.s.timers.upload.set(string(r.id), r.lapses(), 0)
	fs.flowIndex.kept.add(r, -1)
	if r.endures() {
		fs.noteOver(r, -1)
	} else {
		fs.freeKinds(fs.flowIndex.byID[r.id])
	}
	if r.lives() {
		fs.access.hold(r.by, access.OwnsWorkflow, -1)
	}
	delete(fs.flowIndex.byID, r.id)
	r.leaving, r.cursor = true, 0
	fs.flowIndex.leaving.Set(r.seq, r.id)
}

// dropSome drops vertices of a workflow that is leaving, and the row after the last.
func (fs *flows) dropSome(r *workflowRow, left int) int {
	for ; r.cursor < r.added && left > 0; left-- {
		key := vertexKey(r.id, r.cursor)
		fs.flowIndex.attempts -= len(fs.vertices.get(key).past.list())
		fs.vertices.drop(key)
		r.cursor++
	}
	if left == 0 {
		return 0
	}
	fs.flowIndex.all.add(r, -1)
	fs.flowIndex.leaving.Delete(r.seq)
	fs.workflows.drop(r.id)
	return left - 1
}

func (fs *flows) fireUpload(id string) { fs.leave(fs.workflows.edit(rota.WorkflowID(id))) }
func (fs *flows) fireEnded(id string)  { fs.leave(fs.workflows.edit(rota.WorkflowID(id))) }
