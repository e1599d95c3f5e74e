package fsm

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/sched"
)

// journal collects the events of the entry that is being applied.
type journal struct {
	s      *state
	events []rota.Event
	spare  []rota.Event
	// mute drops events: what no entry changes has none. scratch is room for encoding.
	mute    bool
	scratch []byte
	// payloads are texts of events.
	payloads entry.Texts
	// caller is whose operation is being applied, nobody while the leader acts by itself.
	caller access.Caller
	// ifMatch is the version that the operation's object must have, "" for any.
	ifMatch string
}

// matches refuses an operation whose object has another version than it asks for; have is "" if the
// object does not exist. Verbs call it only once they know that they would change something, so
// that a repetition of a change is no conflict.
func (jn *journal) matches(what, have string) error { return access.Matches(jn.ifMatch, what, have) }

// conditional refuses a malformed condition, and any condition on an operation that compares nothing.
func conditional(op *fsmpb.Op) error {
	if op.GetIfMatch() == "" {
		return nil
	}
	switch op.GetOp().(type) {
	case *fsmpb.Op_SetQueue, *fsmpb.Op_DeleteQueue, *fsmpb.Op_SetTenant, *fsmpb.Op_DeleteTenant, *fsmpb.Op_SetCluster, *fsmpb.Op_SetKeyRule,
		*fsmpb.Op_DeleteKeyRule, *fsmpb.Op_SetSchedule, *fsmpb.Op_PauseSchedule, *fsmpb.Op_DeleteSchedule,
		*fsmpb.Op_SetWebhook, *fsmpb.Op_PauseWebhook, *fsmpb.Op_DeleteWebhook,
		*fsmpb.Op_SetRole, *fsmpb.Op_DeleteRole, *fsmpb.Op_SetIssuer, *fsmpb.Op_DeleteIssuer:
		return access.CheckVersion(op.GetIfMatch())
	default:
		return rota.Refusef(rota.KindInvalid, "if_match", "the operation takes no if_match: leave it out")
	}
}

// payload is an event's own data in JSON; what it is made of always has a form.
func payload(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("fsm: a payload has no JSON: %v", err))
	}
	return string(text)
}

// emit adds an event of this entry; its id is the same on every node. One about
// a live job names the event before it (SPEC §12.1). Whoever has the job's row at
// hand calls emitFor, which spares looking for it.
func (jn *journal) emit(e rota.Event) {
	if e.Job != "" {
		if j := jn.s.jobs.get(e.Job); j != nil {
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
	e.Queue, e.Tenant, e.Type = j.spec.Queue, j.spec.Tenant, j.spec.Type // by which it is read and selected
	if j.workflow != "" {
		_, e.Node, _ = rota.SplitNodeJobID(j.spec.ID)
		e.Run = string(j.workflow)
	}
	id := jn.announce(e)
	if j.gen() == jn.s.ledger.gen && !jn.mute {
		j.setLastEvent(id)
	}
}

func (jn *journal) announce(e *rota.Event) rota.EventID {
	if jn.mute || plantedGround.omits(e.Kind) {
		return rota.EventID{}
	}
	e.ID = rota.EventID{Incarnation: jn.s.head.incarnation, Index: jn.s.at, Seq: uint32(len(jn.events))}
	e.Clock, e.Date = jn.s.head.clock, jn.s.head.date()
	if e.Actor == "" {
		e.Actor, e.Via, e.Request = jn.caller.Actor, jn.caller.Via, jn.caller.Request
	}
	jn.events = append(jn.events, *e)
	return e.ID
}

// next returns the number of the event that comes next, of all ever.
func (jn *journal) next() uint64 { return jn.s.head.events + uint64(len(jn.events)) + 1 }

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
	return jn.payloads.Keep(jn.scratch)
}

// done tells of an output: jobCompleted.
func (jn *journal) done(digest []byte) string {
	b := append(jn.scratch[:0], `{"output_digest":"`...)
	b = hex.AppendEncode(b, digest)
	jn.scratch = append(b, `"}`...)
	return jn.payloads.Keep(jn.scratch)
}

// dueAt returns when a job is QUEUED again: jobRetryScheduled.
func dueAt(due rota.Moment) string {
	return fmt.Sprintf(`{"due_ms":%d,"due_at":"%s","due_clock_ms":%d}`, due.Date, due.Date, due.Clock)
}

// progressed returns how far an attempt is: jobProgress.
func progressed(percent int32) string {
	return `{"progress":` + strconv.FormatInt(int64(percent), 10) + `}`
}

// snapshotRead is the payload of that event.
type snapshotRead struct {
	Node  rota.NodeID `json:"node"`
	Index rota.Index  `json:"index"`
}

// readSnapshot tells that its caller is about to get a node's state. What the leader saves by
// itself is storedBackup's.
func (jn *journal) readSnapshot(op *fsmpb.ReadSnapshot) *fsmpb.Outcome {
	index, node := rota.Index(op.GetIndex()), rota.NodeID(op.GetNode())
	if err := rota.CheckID("node", node); err != nil {
		return entry.Refused(err)
	}
	switch {
	case jn.caller.Actor == "":
		return entry.Refused(rota.Refusef(rota.KindInvalid, "actor", "a read of a snapshot has no actor: it is a caller's"))
	case index == 0 || index >= jn.s.at:
		return entry.Refused(rota.Refusef(rota.KindInvalid, "index", "a snapshot of index %d is read, this is entry %d: an earlier one is wanted", index, jn.s.at))
	}
	jn.emit(rota.Event{Kind: rota.EventSnapshotRead, Payload: payload(snapshotRead{node, index})})
	return &fsmpb.Outcome{}
}

// settleChain encodes the entry's events, counts them, and lengthens the chain by
// them (SPEC §12.1); an entry without events leaves all as it is. The head of the
// chain is part of the header, so nodes whose events differed would differ in
// their digest too.
func (jn *journal) settleChain() []byte {
	if len(jn.events) == 0 {
		return nil
	}
	h := &jn.s.head
	if jn.events[0].ID.Incarnation != h.incarnation { // the entry that founds the cluster
		for i := range jn.events {
			jn.events[i].ID.Incarnation = h.incarnation
		}
	}
	if jn.s.ledger.unlogged {
		h.events += uint64(len(jn.events))
		return nil
	}
	jn.scratch = AppendEvents(jn.scratch[:0], h.incarnation, jn.events)
	h.chain = NextChain(h.chain, jn.s.at, jn.scratch)
	h.events += uint64(len(jn.events))
	return slices.Clone(jn.scratch)
}

// NextChain lengthens a chain by the entry at an index, given its events' bytes:
// H(previous, index, bytes) as in SPEC §7.1. The bytes are hashed where they lie.
func NextChain(previous sched.Hash, index rota.Index, events []byte) sched.Hash {
	var head [4 + 32 + 4 + 8 + 4]byte
	binary.BigEndian.PutUint32(head[0:], 32)
	copy(head[4:], previous[:])
	binary.BigEndian.PutUint32(head[36:], 8)
	binary.BigEndian.PutUint64(head[40:], uint64(index))
	binary.BigEndian.PutUint32(head[48:], uint32(len(events)))
	s := sha256.New()
	s.Write(head[:])
	s.Write(events)
	var next sched.Hash
	s.Sum(next[:0])
	return next
}

// owner is whose what the operation at hand makes is: its actor, or the parent of a session.
func (jn *journal) owner() rota.Principal { return jn.caller.Actor.Owner() }

// owned is the caller of the operation at hand as what is made keeps it.
func (jn *journal) owned() access.Caller {
	c := jn.caller
	c.Actor = jn.owner()
	return c
}

// callerOf is who asked for an operation; nobody where the leader acts by itself.
func callerOf(op *fsmpb.Op) access.Caller {
	return access.Caller{Actor: rota.Principal(op.GetActor()), Via: op.GetVia(), Request: op.GetRequest()}
}
