package fsm

import (
	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
)

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
	for left > 0 && looks > 0 && fs.m.ended.staged.added < most {
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
	for r.passing() && left > 0 && looks > 0 && fs.m.ended.staged.added < most {
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
	case v.over():
		return false
	case v.state == vertexBlocked:
		j = fs.makeJob(f, r, number)
	default:
		if j = fs.m.jobs.get(v.spec.ID); j.state.Leased() && r.ending == rota.WorkflowFailed {
			return false
		}
		j = fs.m.jobs.edit(v.spec.ID)
	}
	fs.m.expel(j, rota.JobCancelled, r.why())
	return true
}

// takeBack makes a vertex Blocked again that a retry runs again, and says whether it
// is one. Its parents come first, as their numbers are smaller.
func (fs *flows) takeBack(f *flow, r *workflowRow, number uint32) bool {
	v := f.rows[number]
	if !v.lost() || f.redo != nil && !f.redo[number] {
		return false
	}
	v = fs.editVertex(f, number)
	*r.count(v.state)--
	r.blocked++
	fs.m.queues.edit(v.spec.Queue).blocked++
	v.state, v.reason, v.finished, v.finishedAt = vertexBlocked, rota.ReasonNone, rota.Moment{}, 0
	v.worker, v.attempt, v.assigned, v.assignedAt = "", 0, rota.Moment{}, 0
	if t := fs.m.ended.tombs.get(v.spec.ID); t != nil {
		fs.m.dropTomb(t.id, t.seq)
	}
	for _, c := range f.children[number] {
		f.lost[c]--
	}
	fs.addWork(f, r, number)
	return true
}

// lapses is when an upload is given up, 0 for never.
func (r *workflowRow) lapses() int64 {
	if r.state != rota.WorkflowOpen || r.leaving {
		return 0
	}
	return int64(r.touched + limits.UploadLapses)
}

// endures reports whether a workflow is over, and kept until its date.
func (r *workflowRow) endures() bool { return r.state.Terminal() && !r.leaving }

// noteOver puts a workflow that is over among those that leave by their dates, and by
// their ends where new ones need the room; by is -1 for one that does not endure any more.
func (fs *flows) noteOver(r *workflowRow, by int64) {
	id, due, end := string(r.id), int64(r.due), int64(r.finished.Clock)
	if by > 0 {
		fs.m.timers.ended.set(id, 0, due)
		fs.m.timers.oldest.set(id, 0, end)
	} else {
		fs.m.timers.ended.set(id, due, 0)
		fs.m.timers.oldest.set(id, end, 0)
	}
	fs.flowIndex.over.add(r, by)
}

// leave forgets a workflow that is over, or whose upload is given up: at once for
// whoever asks, its rows over the next entries; r is editable.
func (fs *flows) leave(r *workflowRow) {
	fs.m.timers.upload.set(string(r.id), r.lapses(), 0)
	fs.flowIndex.kept.add(r, -1)
	if r.endures() {
		fs.noteOver(r, -1)
	} else {
		fs.freeKinds(fs.flowIndex.byID[r.id])
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
