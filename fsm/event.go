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
func (jn *journal) emit(e rota.Event) {
	if e.Job != "" {
		if j := jn.m.jobs.get(e.Job); j != nil {
			jn.emitFor(j, &e)
			return
		}
	}
	jn.announce(&e)
}

// emitFor adds an event about a job. It becomes the parent of the next one where
// the entry changes the row anyhow; else, as with a renewal, it only names its
// parent: a copy of the row for every renewal was refused.
func (jn *journal) emitFor(j *jobRow, e *rota.Event) {
	e.Parent = j.lastEvent()
	if j.workflow != "" {
		_, e.Node, _ = rota.SplitNodeJobID(j.spec.ID)
		e.Run = string(j.workflow)
	}
	id := jn.announce(e)
	if j.gen == jn.m.ledger.gen && !jn.mute {
		j.setLastEvent(id)
	}
}

func (jn *journal) announce(e *rota.Event) rota.EventID {
	if jn.mute || planted.untold(e.Kind) {
		return rota.EventID{}
	}
	e.ID = rota.EventID{Incarnation: jn.m.head.incarnation, Index: jn.m.at, Seq: uint32(len(jn.events))}
	e.Clock, e.Date = jn.m.head.clock, jn.m.head.date()
	jn.events = append(jn.events, *e)
	return e.ID
}

// The payloads are JSON made by hand: the same bytes on every node, and no more
// than one allocation where every job passes.

// placing tells of a decision for a worker: jobAssigned.
func (jn *journal) placing(d *rota.Decision, worker rota.WorkerID) string {
	b := d.Reasoning.AppendJSON(append(jn.scratch[:0], `{"reasoning":`...), worker)
	name := `,"score":`
	if d.Score.IsDouble() { // nothing is computed with doubles here (SPEC §2.2): its bits are told
		name = `,"score_bits":`
	}
	b = strconv.AppendInt(append(b, name...), int64(d.Score), 10)
	b = strconv.AppendInt(append(b, `,"rank":`...), int64(d.Rank), 10)
	b = strconv.AppendUint(append(b, `,"height":`...), uint64(d.Height), 10)
	jn.scratch = append(b, '}')
	return jn.payloads.keep(jn.scratch)
}

// done tells of an output: jobCompleted.
func (jn *journal) done(digest []byte) string {
	b := append(jn.scratch[:0], `{"output_digest":"`...)
	b = hex.AppendEncode(b, digest)
	jn.scratch = append(b, `"}`...)
	return jn.payloads.keep(jn.scratch)
}

// dueAt tells when a job is QUEUED again: jobRetryScheduled.
func dueAt(due rota.Moment) string {
	return fmt.Sprintf(`{"due_ms":%d,"due_at":"%s","due_clock_ms":%d}`, due.Date, due.Date, due.Clock)
}

// progressed tells how far an attempt is: jobProgress.
func progressed(percent int32) string {
	return `{"progress":` + strconv.FormatInt(int64(percent), 10) + `}`
}
