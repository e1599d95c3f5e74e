package fsm

import (
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/rotasched/rota"
)

// emit adds an event of this entry; its id is the same on every node. One about
// a live job names the event before it (SPEC §12.1). Whoever has the job's row at
// hand calls emitFor, which spares looking for it.
func (m *Machine) emit(e rota.Event) {
	if e.Job != "" {
		if j := m.jobs.get(e.Job); j != nil {
			m.emitFor(j, &e)
			return
		}
	}
	m.announce(&e)
}

// emitFor adds an event about a job. It becomes the parent of the next one where
// the entry changes the row anyhow; else, as with a renewal, it only names its
// parent: a copy of the row for every renewal was refused.
func (m *Machine) emitFor(j *jobRow, e *rota.Event) {
	e.Parent = j.lastEvent()
	if j.workflow != "" {
		_, e.Node, _ = rota.SplitNodeJobID(j.spec.ID)
		e.Run = string(j.workflow)
	}
	id := m.announce(e)
	if j.gen == m.ledger.gen && !m.mute {
		j.setLastEvent(id)
	}
}

func (m *Machine) announce(e *rota.Event) rota.EventID {
	if m.mute || planted.untold(e.Kind) {
		return rota.EventID{}
	}
	e.ID = rota.EventID{Incarnation: m.head.incarnation, Index: m.at, Seq: uint32(len(m.events))}
	e.Clock, e.Date = m.head.clock, m.head.date()
	m.events = append(m.events, *e)
	return e.ID
}

// The payloads are JSON made by hand: the same bytes on every node, and no more
// than one allocation where every job passes.

// placing tells of a decision for a worker: jobAssigned.
func (m *Machine) placing(d *rota.Decision, worker rota.WorkerID) string {
	b := d.Reasoning.AppendJSON(append(m.scratch[:0], `{"reasoning":`...), worker)
	name := `,"score":`
	if d.Score.IsDouble() { // nothing is computed with doubles here (SPEC §2.2): its bits are told
		name = `,"score_bits":`
	}
	b = strconv.AppendInt(append(b, name...), int64(d.Score), 10)
	b = strconv.AppendInt(append(b, `,"rank":`...), int64(d.Rank), 10)
	b = strconv.AppendUint(append(b, `,"height":`...), uint64(d.Height), 10)
	m.scratch = append(b, '}')
	return m.payloads.keep(m.scratch)
}

// done tells of an output: jobCompleted.
func (m *Machine) done(digest []byte) string {
	b := append(m.scratch[:0], `{"output_digest":"`...)
	b = hex.AppendEncode(b, digest)
	m.scratch = append(b, `"}`...)
	return m.payloads.keep(m.scratch)
}

// dueAt tells when a job is QUEUED again: jobRetryScheduled.
func dueAt(due rota.Moment) string {
	return fmt.Sprintf(`{"due_ms":%d,"due_at":"%s","due_clock_ms":%d}`, due.Date, due.Date, due.Clock)
}

// progressed tells how far an attempt is: jobProgress.
func progressed(percent int32) string {
	return `{"progress":` + strconv.FormatInt(int64(percent), 10) + `}`
}
