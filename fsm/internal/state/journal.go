package state

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
	"github.com/rotasched/rota/internal/jsonparts"
	"github.com/rotasched/rota/sched"
)

// journal collects the events of the entry that is being applied.
type journal struct {
	S      *State
	Events []rota.Event
	Spare  []rota.Event
	// Mute drops events, as changes outside entries have none. scratch is a buffer for encoding.
	Mute    bool
	Scratch []byte
	// payloads holds the texts of events.
	payloads entry.Texts
	// Caller is the caller of the operation in progress, empty while the leader acts by itself.
	Caller access.Caller
	// IfMatch is the required version of the operation's object, "" for any.
	IfMatch string
}

// Matches refuses an operation whose object does not have the required version; have is "" if the object does not
// exist. Verbs call it only once they know that they would change something, so that repeating a change is not a
// conflict.
func (jn *journal) Matches(what, have string) error { return access.Matches(jn.IfMatch, what, have) }

// Conditional refuses a malformed condition, and any condition on an operation that does not compare versions.
func Conditional(op *fsmpb.Op) error {
	if op.GetIfMatch() == "" {
		return nil
	}
	switch op.GetOp().(type) {
	case *fsmpb.Op_SetQueue, *fsmpb.Op_DeleteQueue, *fsmpb.Op_SetTenant, *fsmpb.Op_DeleteTenant, *fsmpb.Op_SetCluster,
		*fsmpb.Op_SetKeyRule,
		*fsmpb.Op_DeleteKeyRule, *fsmpb.Op_SetBudget, *fsmpb.Op_DeleteBudget, *fsmpb.Op_SetSchedule, *fsmpb.Op_PauseSchedule, *fsmpb.Op_DeleteSchedule,
		*fsmpb.Op_SetWebhook, *fsmpb.Op_PauseWebhook, *fsmpb.Op_DeleteWebhook,
		*fsmpb.Op_SetRole, *fsmpb.Op_DeleteRole, *fsmpb.Op_SetIssuer, *fsmpb.Op_DeleteIssuer:
		return access.CheckVersion(op.GetIfMatch())
	default:
		return rota.Refusef(rota.KindInvalid, "if_match", "the operation does not accept if_match: omit it")
	}
}

// Payload returns an event's own data as JSON; its values can always be encoded.
func Payload(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("fsm: a payload has no JSON: %v", err))
	}
	return string(text)
}

// Emit adds an event of this entry; its id is the same on every node. An event about a live job names the previous
// event of that job (SPEC §12.1). Callers that have the job's row call EmitFor instead, which avoids the lookup.
func (jn *journal) Emit(e rota.Event) {
	if e.Job != "" {
		if j := jn.S.JobTable.Get(e.Job); j != nil {
			jn.EmitFor(j, &e)
			return
		}
	}
	jn.Announce(&e)
}

// EmitFor adds an event about a job. If the entry changes the row anyway, the event becomes the parent of the job's
// next event. Otherwise, as with a renewal, it only names its parent: copying the row for every renewal was rejected.
func (jn *journal) EmitFor(j *JobRow, e *rota.Event) {
	e.Parent = j.LastEvent()
	e.Queue, e.Tenant, e.Type = j.Spec.Queue, j.Spec.Tenant, j.Spec.Type // readers select events by these
	if j.Workflow != "" {
		_, e.Node, _ = rota.SplitNodeJobID(j.Spec.ID)
		e.Run = string(j.Workflow)
	}
	id := jn.Announce(e)
	if j.Gen() == jn.S.Ledger.Gen && !jn.Mute {
		j.setLastEvent(id)
	}
}

func (jn *journal) Announce(e *rota.Event) rota.EventID {
	if jn.Mute || Planted.omits(e.Kind) {
		return rota.EventID{}
	}
	e.ID = rota.EventID{Incarnation: jn.S.Header.Incarnation, Index: jn.S.At, Seq: uint32(len(jn.Events))}
	e.Clock, e.Date = jn.S.Header.Clock, jn.S.Header.Date()
	if e.Actor == "" {
		e.Actor, e.Via, e.Request = jn.Caller.Actor, jn.Caller.Via, jn.Caller.Request
	}
	jn.Events = append(jn.Events, *e)
	return e.ID
}

// Next returns the number of the next event, counted over all events ever.
func (jn *journal) Next() uint64 { return jn.S.Header.Events + uint64(len(jn.Events)) + 1 }

// The payloads are hand-written JSON: the same bytes on every node, and at most one allocation on the path that every
// job takes.

// Placing returns the payload of jobAssigned: a decision for a worker.
func (jn *journal) Placing(d *rota.Decision, worker rota.WorkerID) string {
	b := d.Reasoning.AppendJSON(append(jn.Scratch[:0], `{"reasoning":`...), worker)
	name := `,"score":`
	if d.Score.IsDouble() { // nothing is computed with doubles here (SPEC §2.2): the payload carries its bits
		name = `,"score_bits":`
	}
	b = strconv.AppendInt(append(b, name...), int64(d.Score), 10)
	b = strconv.AppendInt(append(b, `,"rank":`...), int64(d.Rank), 10)
	b = strconv.AppendUint(append(b, `,"height":`...), uint64(d.Height), 10)
	jn.Scratch = append(b, '}')
	return jn.payloads.Keep(jn.Scratch)
}

// Done returns the payload of jobCompleted: an output's digest, and what the attempt has spent.
func (jn *journal) Done(digest []byte, spent rota.Costs) string {
	b := append(jn.Scratch[:0], `{"output_digest":"`...)
	b = append(hex.AppendEncode(b, digest), '"')
	if len(spent) > 0 {
		b = spent.AppendJSON(append(b, `,"spent":`...))
	}
	jn.Scratch = append(b, '}')
	return jn.payloads.Keep(jn.Scratch)
}

// Spent returns the payload of any other event that ends an attempt: what the attempt has spent, "" for nothing.
func Spent(spent rota.Costs) string {
	if len(spent) == 0 {
		return ""
	}
	return string(append(spent.AppendJSON([]byte(`{"spent":`)), '}'))
}

// SpentIn is the inverse of Done and Spent: what an attempt has spent, by the payload of the event that ends it.
func SpentIn(payload string) (spent rota.Costs) {
	jsonparts.Members([]byte(payload), func(member, value []byte) {
		if jsonparts.Name(member) == "spent" {
			_ = spent.UnmarshalJSON(value) // it is what AppendJSON wrote
		}
	})
	return spent
}

// DueAt returns the payload of jobRetryScheduled: when the job is QUEUED again.
func DueAt(due rota.Moment) string {
	return fmt.Sprintf(`{"due_ms":%d,"due_at":"%s","due_clock_ms":%d}`, due.Date, due.Date, due.Clock)
}

// Progressed returns the payload of jobProgress: the progress of an attempt.
func Progressed(percent int32) string {
	return `{"progress":` + strconv.FormatInt(int64(percent), 10) + `}`
}

// snapshotRead is the payload of that event.
type snapshotRead struct {
	Node  rota.NodeID `json:"node"`
	Index rota.Index  `json:"index"`
}

// ReadSnapshot records that its caller is about to get a node's state. storedBackup records what the leader saves by
// itself.
func (jn *journal) ReadSnapshot(op *fsmpb.ReadSnapshot) *fsmpb.Outcome {
	index, node := rota.Index(op.GetIndex()), rota.NodeID(op.GetNode())
	if err := rota.CheckID("node", node); err != nil {
		return entry.Refused(err)
	}
	switch {
	case jn.Caller.Actor == "":
		return entry.Refused(rota.Refusef(rota.KindInvalid, "actor",
			"a read of a snapshot has no actor: it is a caller's"))
	case index == 0 || index >= jn.S.At:
		return entry.Refused(rota.Refusef(rota.KindInvalid, "index",
			"index: got a snapshot of index %d in entry %d; it must be earlier", index, jn.S.At))
	}
	jn.Emit(rota.Event{Kind: rota.EventSnapshotRead, Payload: Payload(snapshotRead{node, index})})
	return &fsmpb.Outcome{}
}

// SettleChain encodes the entry's events, counts them, and extends the chain by them (SPEC §12.1). An entry without
// events changes nothing. The head of the chain is part of the header, so nodes with different events also have
// different digests.
func (jn *journal) SettleChain() []byte {
	if len(jn.Events) == 0 {
		return nil
	}
	h := &jn.S.Header
	if jn.Events[0].ID.Incarnation != h.Incarnation { // in the entry that founds the cluster
		for i := range jn.Events {
			jn.Events[i].ID.Incarnation = h.Incarnation
		}
	}
	if jn.S.Ledger.Unlogged {
		h.Events += uint64(len(jn.Events))
		return nil
	}
	jn.Scratch = AppendEvents(jn.Scratch[:0], h.Incarnation, jn.Events)
	h.Chain = NextChain(h.Chain, jn.S.At, jn.Scratch)
	h.Events += uint64(len(jn.Events))
	return slices.Clone(jn.Scratch)
}

// NextChain extends a chain by the entry at an index, given its events' bytes: H(previous, index, bytes) as in SPEC
// §7.1. It hashes the bytes in place.
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

// Owner returns the owner of what the operation in progress creates: its actor, or the parent of a session.
func (jn *journal) Owner() rota.Principal { return jn.Caller.Actor.Owner() }

// Owned returns the caller of the operation in progress in the form that created objects store.
func (jn *journal) Owned() access.Caller {
	c := jn.Caller
	c.Actor = jn.Owner()
	return c
}

// CallerOf returns the caller of an operation, empty if the leader acts by itself.
func CallerOf(op *fsmpb.Op) access.Caller {
	return access.Caller{Actor: rota.Principal(op.GetActor()), Via: op.GetVia(), Request: op.GetRequest()}
}
