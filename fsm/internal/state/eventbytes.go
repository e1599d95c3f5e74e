package state

import (
	"encoding/binary"

	"github.com/rotasched/rota"
)

// The non-zero fields of an event, in the order in which they are written. Append only.
const (
	eventRun = 1 << iota
	eventNode
	eventParent
	eventClock
	eventDate
	eventJob
	eventQueue
	eventTenant
	eventWorker
	eventSession
	eventLease
	eventAttempt
	eventReason
	eventStatus
	eventDeadline
	eventEpoch
	eventCheck
	eventPayload
	eventText
	eventActor
	eventVia
	eventRequest
	eventType
	eventFields
)

// AppendEvents encodes all events of one entry: the incarnation, then each event in turn. It omits index and place, as
// they follow from the position of the bytes. The chain is calculated over these bytes, and nodes store and exchange
// them; an event has exactly one encoding. Clocks are written as the difference to the previous event, caller and type
// only if they differ from it, deadlines relative to the clock, the parent as how far back it is.
func AppendEvents(b []byte, incarnation uint64, events []rota.Event) []byte {
	e := Encoder{B: binary.AppendUvarint(b, incarnation)}
	before := &rota.Event{}
	for i := range events {
		e.event(&events[i], before)
		before = &events[i]
	}
	return e.B
}

// eventMask returns the bits of the fields of an event to write; fields equal to those of the previous event are
// omitted.
func eventMask(v, before *rota.Event) uint64 {
	var mask uint64
	if v.Run != "" {
		mask |= eventRun
	}
	if v.Node != "" {
		mask |= eventNode
	}
	if (v.Parent != rota.EventID{}) {
		mask |= eventParent
	}
	if v.Clock != before.Clock {
		mask |= eventClock
	}
	if v.Date != before.Date {
		mask |= eventDate
	}
	if v.Job != "" {
		mask |= eventJob
	}
	if v.Queue != "" {
		mask |= eventQueue
	}
	if v.Tenant != "" {
		mask |= eventTenant
	}
	if v.Worker != "" {
		mask |= eventWorker
	}
	if v.Session != 0 {
		mask |= eventSession
	}
	if (v.Lease != rota.LeaseID{}) {
		mask |= eventLease
	}
	if v.Attempt != 0 {
		mask |= eventAttempt
	}
	if v.Reason != 0 {
		mask |= eventReason
	}
	if v.Status != 0 {
		mask |= eventStatus
	}
	if !v.Deadline.IsZero() {
		mask |= eventDeadline
	}
	if v.Epoch != 0 {
		mask |= eventEpoch
	}
	if v.Check != "" {
		mask |= eventCheck
	}
	if v.Payload != "" {
		mask |= eventPayload
	}
	if v.Text != "" {
		mask |= eventText
	}
	if v.Actor != before.Actor {
		mask |= eventActor
	}
	if v.Via != before.Via {
		mask |= eventVia
	}
	if v.Request != before.Request {
		mask |= eventRequest
	}
	if v.Type != before.Type {
		mask |= eventType
	}
	return mask
}

func (e *Encoder) event(v, before *rota.Event) {
	mask := eventMask(v, before)
	e.Uint(uint64(v.Kind))
	e.Uint(mask)
	text := func(bit uint64, s string) {
		if mask&bit != 0 {
			e.Str(s)
		}
	}
	text(eventRun, v.Run)
	text(eventNode, v.Node)
	if mask&eventParent != 0 {
		e.Uint(v.ID.Incarnation - v.Parent.Incarnation)
		e.Uint(uint64(v.ID.Index - v.Parent.Index))
		e.Uint(uint64(v.Parent.Seq))
	}
	if mask&eventClock != 0 {
		e.Int(int64(v.Clock - before.Clock))
	}
	if mask&eventDate != 0 {
		e.Int(int64(v.Date - before.Date))
	}
	text(eventJob, string(v.Job))
	text(eventQueue, string(v.Queue))
	text(eventTenant, string(v.Tenant))
	text(eventWorker, string(v.Worker))
	if mask&eventSession != 0 {
		e.Uint(uint64(v.Session))
	}
	if mask&eventLease != 0 {
		e.B = append(e.B, v.Lease[:]...)
	}
	e.eventNumbers(v, mask)
	text(eventCheck, v.Check)
	text(eventPayload, v.Payload)
	text(eventText, v.Text)
	text(eventActor, string(v.Actor))
	text(eventVia, v.Via)
	text(eventRequest, v.Request)
	text(eventType, string(v.Type))
}

func (e *Encoder) eventNumbers(v *rota.Event, mask uint64) {
	if mask&eventAttempt != 0 {
		e.Int(int64(v.Attempt))
	}
	if mask&eventReason != 0 {
		e.Uint(uint64(v.Reason))
	}
	if mask&eventStatus != 0 {
		e.Uint(uint64(v.Status))
	}
	if mask&eventDeadline != 0 {
		e.Int(int64(v.Deadline.Clock - v.Clock))
	}
	if mask&eventEpoch != 0 {
		e.Uint(v.Epoch)
	}
}

// DecodeEvents reads the events of the entry at an index. It rejects bytes that AppendEvents does not write. It accepts
// kinds, reasons and statuses that this binary does not know, as a newer binary may have written them.
func DecodeEvents(index rota.Index, b []byte) ([]rota.Event, error) {
	d := eventDecoder{Decoder: Decoder{B: b}, whole: string(b)}
	incarnation := d.Uint()
	var events []rota.Event
	before := &rota.Event{}
	for d.Err == nil && len(d.B) > 0 {
		if events == nil {
			events = make([]rota.Event, 0, 1+len(b)/minEventBytes)
		}
		v := rota.Event{ID: rota.EventID{Incarnation: incarnation, Index: index, Seq: uint32(len(events))}}
		d.event(&v, before)
		events = append(events, v)
		before = &events[len(events)-1]
	}
	if d.Err != nil {
		return nil, d.Err
	}
	return events, nil
}

// minEventBytes is slightly more than the length of the shortest common event.
const minEventBytes = 48

// eventDecoder reads texts as substrings of one string: an entry has thousands.
type eventDecoder struct {
	Decoder
	whole string
}

func (d *eventDecoder) text() string {
	n := d.Uint()
	at := len(d.whole) - len(d.B)
	if d.raw(n); d.Err != nil {
		return ""
	}
	return d.whole[at : at+int(n)]
}

func (d *eventDecoder) event(v, before *rota.Event) {
	v.Kind = rota.EventKind(d.Enum(255))
	mask := d.Enum(eventFields - 1)
	v.Clock, v.Date, v.Actor, v.Via, v.Request, v.Type = before.Clock, before.Date, before.Actor, before.Via, before.Request, before.Type
	for bit := uint64(1); bit < eventFields && d.Err == nil; bit <<= 1 {
		if mask&bit != 0 {
			d.field(bit, v)
		}
	}
	if again := eventMask(v, before); d.Err == nil && again != mask {
		d.Fail() // a zero field was written
	}
}

func (d *eventDecoder) field(bit uint64, v *rota.Event) {
	switch bit {
	case eventRun:
		v.Run = d.text()
	case eventNode:
		v.Node = d.text()
	case eventParent:
		v.Parent = rota.EventID{Incarnation: v.ID.Incarnation - d.Uint(), Index: v.ID.Index - rota.Index(d.Uint()),
			Seq: uint32(d.Enum(1<<32 - 1))}
	case eventClock:
		v.Clock += rota.Clock(d.Int())
	case eventDate:
		v.Date += rota.Date(d.Int())
	case eventJob:
		v.Job = rota.JobID(d.text())
	case eventQueue:
		v.Queue = rota.QueueName(d.text())
	case eventTenant:
		v.Tenant = rota.TenantID(d.text())
	case eventWorker:
		v.Worker = rota.WorkerID(d.text())
	case eventSession:
		v.Session = rota.Session(d.Uint())
	case eventLease:
		v.Lease = d.leaseID()
	case eventAttempt:
		v.Attempt = int32(d.Int())
	case eventReason:
		v.Reason = rota.Reason(d.Enum(255))
	case eventStatus:
		v.Status = rota.WorkerStatus(d.Enum(255))
	case eventDeadline:
		v.Deadline = rota.Moment{Clock: v.Clock, Date: v.Date}.At(v.Clock + rota.Clock(d.Int()))
	case eventEpoch:
		v.Epoch = d.Uint()
	case eventCheck:
		v.Check = d.text()
	case eventPayload:
		v.Payload = d.text()
	case eventText:
		v.Text = d.text()
	case eventActor:
		v.Actor = rota.Principal(d.text())
	case eventVia:
		v.Via = d.text()
	case eventRequest:
		v.Request = d.text()
	case eventType:
		v.Type = rota.JobType(d.text())
	}
}
