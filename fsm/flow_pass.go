package fsm

import "github.com/rotasched/rota"

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
func (m *Machine) settlePasses(left, looks int, most int64) (int, int) {
	for left > 0 && looks > 0 && m.staged.added < most {
		_, f, ok := m.flows.passing.Min()
		if !ok {
			break
		}
		left, looks = m.pass(f, m.workflows.edit(f.id), left, looks, most)
	}
	for left > 0 {
		_, id, ok := m.flows.leaving.Min()
		if !ok {
			break
		}
		left = m.dropSome(m.workflows.edit(id), left)
	}
	return left, looks
}

// pass goes on with one workflow's pass; r is editable.
func (m *Machine) pass(f *flow, r *workflowRow, left, looks int, most int64) (int, int) {
	for r.passing() && left > 0 && looks > 0 && m.staged.added < most {
		number := r.cursor
		r.cursor++
		looks--
		if r.redo && m.takeBack(f, r, number) || !r.redo && m.cancelVertex(f, r, number) {
			left--
		}
	}
	if r.state == rota.WorkflowRunning && !r.passing() {
		m.flows.passing.Delete(f.seq)
		if r.redo {
			r.redo, r.from, r.cursor, f.redo = false, 0, 0, nil
			m.finishFlow(f, r) // what ran already may have been all
		}
	}
	return left, looks
}

// cancelVertex ends a vertex of a workflow that is ending, and says whether there
// was anything to end. What is leased runs to its end where the workflow failed.
func (m *Machine) cancelVertex(f *flow, r *workflowRow, number uint32) bool {
	v := f.rows[number]
	var j *jobRow
	switch {
	case v.over():
		return false
	case v.state == vertexBlocked:
		j = m.makeJob(f, r, number)
	default:
		if j = m.jobs.get(v.spec.ID); j.state.Leased() && r.ending == rota.WorkflowFailed {
			return false
		}
		j = m.jobs.edit(v.spec.ID)
	}
	m.expel(j, rota.Cancelled, r.why())
	return true
}

// takeBack makes a vertex Blocked again that a retry runs again, and says whether it
// is one. Its parents come first, as their numbers are smaller.
func (m *Machine) takeBack(f *flow, r *workflowRow, number uint32) bool {
	v := f.rows[number]
	if !v.lost() || f.redo != nil && !f.redo[number] {
		return false
	}
	v = m.editVertex(f, number)
	*r.count(v.state)--
	r.blocked++
	m.queues.edit(v.spec.Queue).blocked++
	v.state, v.reason, v.finished, v.finishedAt = vertexBlocked, rota.ReasonNone, rota.Moment{}, 0
	v.worker, v.attempt, v.assigned, v.assignedAt = "", 0, rota.Moment{}, 0
	if t := m.tombs.get(v.spec.ID); t != nil {
		m.dropTomb(t.id, t.seq)
	}
	for _, c := range f.children[number] {
		f.lost[c]--
	}
	m.addWork(f, r, number)
	return true
}

// lapses is when an upload is given up, 0 for never.
func (r *workflowRow) lapses() int64 {
	if r.state != rota.WorkflowOpen || r.leaving {
		return 0
	}
	return int64(r.touched + rota.UploadLapses)
}

// endures says whether a workflow is over, and kept until its date.
func (r *workflowRow) endures() bool { return r.state.Terminal() && !r.leaving }

// noteOver puts a workflow that is over among those that leave by their dates, and by
// their ends where new ones need the room; by is -1 for one that does not endure any more.
func (m *Machine) noteOver(r *workflowRow, by int64) {
	id, due, end := string(r.id), int64(r.due), int64(r.finished.Clock)
	if by > 0 {
		m.timers.ended.set(id, 0, due)
		m.timers.oldest.set(id, 0, end)
	} else {
		m.timers.ended.set(id, due, 0)
		m.timers.oldest.set(id, end, 0)
	}
	m.flows.over.add(r, by)
}

// leave forgets a workflow that is over, or whose upload is given up: at once for
// whoever asks, its rows over the next entries; r is editable.
func (m *Machine) leave(r *workflowRow) {
	m.timers.upload.set(string(r.id), r.lapses(), 0)
	m.flows.kept.add(r, -1)
	if r.endures() {
		m.noteOver(r, -1)
	} else {
		m.freeKinds(m.flows.byID[r.id])
	}
	delete(m.flows.byID, r.id)
	r.leaving, r.cursor = true, 0
	m.flows.leaving.Set(r.seq, r.id)
}

// dropSome drops vertices of a workflow that is leaving, and the row after the last.
func (m *Machine) dropSome(r *workflowRow, left int) int {
	for ; r.cursor < r.added && left > 0; left-- {
		key := vertexKey(r.id, r.cursor)
		m.flows.attempts -= len(m.vertices.get(key).past.list())
		m.vertices.drop(key)
		r.cursor++
	}
	if left == 0 {
		return 0
	}
	m.flows.all.add(r, -1)
	m.flows.leaving.Delete(r.seq)
	m.workflows.drop(r.id)
	return left - 1
}

func (m *Machine) fireUpload(id string) { m.leave(m.workflows.edit(rota.WorkflowID(id))) }
func (m *Machine) fireEnded(id string)  { m.leave(m.workflows.edit(rota.WorkflowID(id))) }
