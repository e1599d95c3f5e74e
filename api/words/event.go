package words

import (
	"strings"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/internal/access"
)

// eventKinds has no text for the zero kind, which no event has.
var eventKinds = newEnum("event kind", rota.EventKind.String)

// EventIDToWire returns the text of an id, empty for the zero id.
func EventIDToWire(id rota.EventID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

// EventToWire converts an event for consumers.
func EventToWire(e *rota.ServedEvent) *rotav1.ServedEvent {
	return &rotav1.ServedEvent{
		EventId: EventIDToWire(e.ID), Kind: eventKinds.text(e.Kind), RunId: clean(e.Run), NodeId: clean(e.Node),
		ParentEventId: EventIDToWire(e.Parent), LogicalTime: int64(e.Clock), DateMs: int64(e.Date), Job: string(e.Job),
		Queue: string(e.Queue), Tenant: string(e.Tenant), Worker: string(e.Worker), Session: uint64(e.Session),
		LeaseId: leaseIDToWire(&e.Lease), Attempt: e.Attempt, Reason: reasons.text(e.Reason),
		Status: workerStatuses.text(e.Status), DeadlineMs: int64(e.Deadline.Date),
		DeadlineClockMs: int64(e.Deadline.Clock), PolicyDecisionId: e.Epoch,
		CapabilityCheckResult: clean(e.Check), Payload: clean(e.Payload), PayloadHash: e.PayloadHash,
		ErrorData:      clean(e.Text),
		PriorStateHash: digestToWire(e.Prior), PostStateHash: digestToWire(e.Post),
		Actor: clean(string(e.Actor)), Via: clean(e.Via), RequestId: clean(e.Request), Type: string(e.Type),
	}
}

// EventFromWire is the inverse of EventToWire. A kind, reason or status of a newer node that this binary does not know
// is rejected by name.
func EventFromWire(w *rotav1.ServedEvent) (rota.ServedEvent, error) {
	e := rota.ServedEvent{Event: rota.Event{
		Run: w.GetRunId(), Node: w.GetNodeId(), Clock: rota.Clock(w.GetLogicalTime()), Date: rota.Date(w.GetDateMs()),
		Job: rota.JobID(w.GetJob()), Queue: rota.QueueName(w.GetQueue()), Tenant: rota.TenantID(w.GetTenant()),
		Worker: rota.WorkerID(w.GetWorker()), Session: rota.Session(w.GetSession()), Attempt: w.GetAttempt(),
		Deadline: moment(w.GetDeadlineMs(), w.GetDeadlineClockMs()), Epoch: w.GetPolicyDecisionId(),
		Check:   w.GetCapabilityCheckResult(),
		Payload: w.GetPayload(), Text: w.GetErrorData(),
		Actor: rota.Principal(w.GetActor()), Via: w.GetVia(), Request: w.GetRequestId(),
		Type: rota.JobType(w.GetType()),
	}, PayloadHash: w.GetPayloadHash()}
	var err error
	if e.ID, err = rota.ParseEventID(w.GetEventId()); err != nil {
		return e, err
	}
	if e.Parent, err = rota.ParseEventID(w.GetParentEventId()); err != nil {
		return e, err
	}
	if e.Kind, err = eventKinds.value(w.GetKind()); err != nil {
		return e, err
	}
	if e.Lease, err = LeaseIDFromWire(w.GetLeaseId()); err != nil {
		return e, err
	}
	if e.Reason, err = reasons.value(w.GetReason()); err != nil {
		return e, err
	}
	if e.Status, err = workerStatuses.value(w.GetStatus()); err != nil {
		return e, err
	}
	if e.Prior, err = digestFromWire(w.GetPriorStateHash()); err != nil {
		return e, err
	}
	e.Post, err = digestFromWire(w.GetPostStateHash())
	return e, err
}

// digestToWire writes a digest, "" for the zero digest, which is hidden from its reader.
func digestToWire(d rota.Digest) string {
	if d == (rota.Digest{}) {
		return ""
	}
	return d.String()
}

// These are the words for where to begin.
const (
	fromOldest = "oldest"
	fromLatest = "latest"
)

// TailToWire converts a filter; TailFromWire reads it back.
func TailToWire(f *rota.EventFilter) *rotav1.TailRequest {
	w := &rotav1.TailRequest{From: EventIDToWire(f.After), Follow: f.Follow, Job: string(f.Job), Queue: string(f.Queue),
		Type:   string(f.Type),
		Tenant: string(f.Tenant), Worker: string(f.Worker), Workflow: string(f.Workflow), Actor: string(f.Actor)}
	if f.Latest {
		w.From = fromLatest
	}
	for _, k := range f.Kinds {
		w.Kinds = append(w.Kinds, k.String())
	}
	return w
}

// TailFromWire reads a filter; invalid parts are rejected by name.
func TailFromWire(w *rotav1.TailRequest) (rota.EventFilter, error) {
	f := rota.EventFilter{Follow: w.GetFollow(), Job: rota.JobID(w.GetJob()), Queue: rota.QueueName(w.GetQueue()),
		Type:   rota.JobType(w.GetType()),
		Tenant: rota.TenantID(w.GetTenant()), Worker: rota.WorkerID(w.GetWorker()),
		Workflow: rota.WorkflowID(w.GetWorkflow()), Actor: rota.Principal(w.GetActor())}
	var err error
	switch w.GetFrom() {
	case fromOldest:
	case fromLatest:
		f.Latest = true
	default:
		f.After, err = rota.ParseEventID(w.GetFrom())
	}
	if err != nil {
		return f, err
	}
	if f.Job != "" {
		if err := rota.CheckJobRef("job", f.Job); err != nil {
			return f, err
		}
	}
	for _, id := range []struct{ field, value string }{{"queue", w.GetQueue()}, {"type", w.GetType()},
		{"tenant", w.GetTenant()}, {"worker", w.GetWorker()},
		{"workflow", w.GetWorkflow()}} {
		if id.value != "" {
			if err := rota.CheckID(id.field, id.value); err != nil {
				return f, err
			}
		}
	}
	if f.Actor != "" {
		if err := access.CheckPrincipal(f.Actor); err != nil {
			return f, err
		}
	}
	if len(w.GetKinds()) > len(eventKinds.texts) {
		return f,
			rota.Refusef(rota.KindInvalid, "kinds", "too many kinds: got %d, maximum %d", len(w.GetKinds()),
				len(eventKinds.texts)-1)
	}
	for _, name := range w.GetKinds() {
		k, err := eventKinds.value(name)
		if err != nil || k == rota.EventNone {
			return f, rota.Refusef(rota.KindInvalid, "kind", "unknown event kind %q: use one of %s", shown(name),
				strings.Join(eventKinds.texts[1:], ", "))
		}
		f.Kinds = append(f.Kinds, k)
	}
	return f, nil
}
