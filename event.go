package rota

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// EventID is incarnation.index.seq: the same on every node (SPEC §12.1).
type EventID struct {
	Incarnation uint64
	Index       Index
	Seq         uint32
}

// String shows the three numbers, dotted.
func (id EventID) String() string { return fmt.Sprintf("%d.%d.%d", id.Incarnation, id.Index, id.Seq) }

// MarshalText implements encoding.TextMarshaler.
func (id EventID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (id *EventID) UnmarshalText(text []byte) error {
	v, err := ParseEventID(string(text))
	*id = v
	return err
}

// ParseEventID reads incarnation.index.seq; the empty text is the zero id.
func ParseEventID(text string) (EventID, error) {
	if text == "" {
		return EventID{}, nil
	}
	bad := Refusef(KindInvalid, "event_id", "invalid event id %q: use INCARNATION.INDEX.SEQ, such as 1.4711.0",
		shorten(text))
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return EventID{}, bad
	}
	var v [3]uint64
	for i, p := range parts {
		bits := 64
		if i == 2 {
			bits = 32
		}
		n, err := strconv.ParseUint(p, 10, bits)
		if err != nil || strconv.FormatUint(n, 10) != p {
			return EventID{}, bad
		}
		v[i] = n
	}
	return EventID{Incarnation: v[0], Index: Index(v[1]), Seq: uint32(v[2])}, nil
}

// IsZero reports whether the id names no event.
func (id EventID) IsZero() bool { return id == EventID{} }

// Compare orders events as they happened.
func (id EventID) Compare(b EventID) int {
	return cmp.Or(cmp.Compare(id.Incarnation, b.Incarnation), cmp.Compare(id.Index, b.Index),
		cmp.Compare(id.Seq, b.Seq))
}

// EventKind is the kind of an event (SPEC §12.2).
type EventKind uint8

// The kinds of SPEC §12.2. EventNodeChanged is about membership.
const (
	EventNone EventKind = iota
	EventJobEnqueued
	EventJobAssigned
	EventJobRunning
	EventJobPromoted
	EventJobProgress
	EventJobRetryScheduled
	EventJobCompleted
	EventJobDead
	EventJobExpired
	EventJobCancelled
	EventLeaseAcked
	EventLeaseRenewed
	EventLeaseExpired
	EventLeaseCancelled
	EventLeaseDeclined
	EventAssignmentDropped
	EventWorkerHeld
	EventProviderRegistered
	EventProviderStatusChanged
	EventProviderSlashed
	EventDomainIsolated
	EventDomainRecovered
	EventModeChanged
	EventQueueChanged
	EventTenantChanged
	EventWorkflowStarted
	EventWorkflowFinished
	EventDrained
	EventEntryRefused
	EventLeadershipBegan
	EventLeaseRevoked
	EventNodeChanged
	EventRulesChanged
	EventStateDiffers
	EventJobChanged
	EventJobDelayed
	EventWorkerDisconnected
	EventJobDeleted
	EventAuthChanged
	EventAuthReset
	EventWorkflowCancelled
	EventClusterChanged
	EventQueueDeleted
	EventTenantDeleted
	EventWorkerDeleted
	EventBackupStored
	EventJobMerged
	EventGateWaiting
	EventGateSignalled
	EventKeyRuleChanged
	EventKeyBlocked
	EventKeyPassed
	EventScheduleChanged
	EventScheduleFired
	EventScheduleSkipped
	EventScheduleMissed
	EventPlanStarted
	EventPlanFinished
	EventWorkflowGrown
	EventBatchOpened
	EventBatchSealed
	EventBatchFinished
	EventBatchWaits
	EventWebhookChanged
	EventSnapshotRead
	EventJobBlocked
	EventJobIsolated
	EventJobCleared
	EventKeyPaused
	EventKeyResumed
	EventKeyOpened
	EventKeyClosed
	EventBudgetChanged
	EventBudgetWarned
	EventBudgetSpent
	EventBudgetGranted
	EventBudgetReset

	// EventLast is the newest kind.
	EventLast = EventBudgetReset
)

var eventKindNames = []string{"none", "jobEnqueued", "jobAssigned", "jobRunning", "jobPromoted", "jobProgress",
	"jobRetryScheduled", "jobCompleted", "jobDead", "jobExpired", "jobCancelled", "leaseAcked", "leaseRenewed",
	"leaseExpired", "leaseCancelled", "leaseDeclined", "assignmentDropped", "workerHeld", "providerRegistered",
	"providerStatusChanged", "providerSlashed", "domainIsolated", "domainRecovered", "modeChanged", "queueChanged",
	"tenantChanged", "workflowStarted", "workflowFinished", "drained", "entryRefused", "leadershipBegan",
	"leaseRevoked", "nodeChanged", "rulesChanged", "stateDiffers", "jobChanged", "jobDelayed", "workerDisconnected",
	"jobDeleted", "authChanged", "authReset",
	"workflowCancelled", "clusterChanged", "queueDeleted", "tenantDeleted", "workerDeleted",
	"backupStored", "jobMerged", "gateWaiting", "gateSignalled",
	"keyRuleChanged", "keyBlocked", "keyPassed", "scheduleChanged", "scheduleFired", "scheduleSkipped",
	"scheduleMissed", "planStarted", "planFinished", "workflowGrown",
	"batchOpened", "batchSealed", "batchFinished", "batchWaits",
	"webhookChanged", "snapshotRead", "jobBlocked", "jobIsolated", "jobCleared",
	"keyPaused", "keyResumed", "keyOpened", "keyClosed",
	"budgetChanged", "budgetWarned", "budgetSpent", "budgetGranted", "budgetReset"}

// String names the kind as SPEC §12.2 does.
func (k EventKind) String() string { return nameOf(eventKindNames, int(k)) }

// MarshalText implements encoding.TextMarshaler.
func (k EventKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *EventKind) UnmarshalText(text []byte) error {
	v, err := valueOf(eventKindNames, "event kind", text)
	*k = EventKind(v)
	return err
}

// Event is one effect of a log entry (SPEC §12.1). Fields that do not belong to the kind are zero.
type Event struct {
	ID   EventID   `json:"event_id"`
	Kind EventKind `json:"kind"`
	// Run and Node are the workflow and its node that the job belongs to.
	Run  string `json:"run_id,omitempty"`
	Node string `json:"node_id,omitempty"`
	// Parent is the previous event about the same job.
	Parent EventID   `json:"parent_event_id,omitzero"`
	Clock  Clock     `json:"logical_time"`
	Date   Date      `json:"date_ms"`
	Job    JobID     `json:"job,omitempty"`
	Queue  QueueName `json:"queue,omitempty"`
	Tenant TenantID  `json:"tenant,omitempty"`
	// Type is the type of the job, set while the job's row exists.
	Type     JobType      `json:"type,omitempty"`
	Worker   WorkerID     `json:"worker,omitempty"`
	Session  Session      `json:"session,omitempty"`
	Lease    LeaseID      `json:"lease_id,omitzero"`
	Attempt  int32        `json:"attempt,omitempty"`
	Reason   Reason       `json:"reason,omitempty"`
	Status   WorkerStatus `json:"status,omitempty"`
	Deadline Moment       `json:"deadline"`
	// Epoch is the policy decision: the round's epoch.
	Epoch uint64 `json:"policy_decision_id,omitempty"`
	// Check is the result of an assignment's re-check: FIT, or the rule that
	// failed (SPEC §6.1).
	Check string `json:"capability_check_result,omitempty"`
	// Payload is data specific to the kind: a JSON object, such as the reasoning of an assignment or the penalty of a
	// slash.
	Payload string `json:"payload,omitempty,raw"`
	// Text describes the failure, such as a handler's error.
	Text string `json:"error_data,omitempty"`
	// Actor is the principal that requested the operation behind the event; none if the leader acted by itself. Via is
	// the node and the interface through which the call came, Request is the call's id.
	Actor   Principal `json:"actor,omitempty"`
	Via     string    `json:"via,omitempty"`
	Request string    `json:"request_id,omitempty"`
}

// ServedEvent is an event as sent to readers, with the hashes that are pure functions of the event and its entry.
type ServedEvent struct {
	Event
	// PayloadHash is SHA-256 of Payload; Prior and Post are the state's digests before and after the entry, zero for
	// readers without the right to read everything.
	PayloadHash Hex    `json:"payload_hash,omitempty"`
	Prior       Digest `json:"prior_state_hash,omitzero"`
	Post        Digest `json:"post_state_hash,omitzero"`
}

// EventFilter selects events; zero fields select all.
type EventFilter struct {
	// After is the last event seen; the zero id starts at the oldest retained event.
	After EventID
	Kinds []EventKind
	Job   JobID
	// Queue, Type, Tenant, Worker and Workflow select the events that name them.
	Queue    QueueName
	Type     JobType
	Tenant   TenantID
	Worker   WorkerID
	Workflow WorkflowID
	// Actor selects events of operations requested by this principal, directly or through a browser session of its own.
	Actor Principal
	// Latest starts after the newest event; it excludes After.
	Latest bool
	// Follow waits for new events.
	Follow bool
}

// All reports whether the filter matches every event.
func (f *EventFilter) All() bool {
	return len(f.Kinds) == 0 && f.Job == "" && f.Queue == "" && f.Type == "" && f.Tenant == "" && f.Worker == "" &&
		f.Workflow == "" && f.Actor == ""
}

// Wants reports whether the filter matches an event.
func (f *EventFilter) Wants(e *Event) bool {
	return (len(f.Kinds) == 0 || slices.Contains(f.Kinds, e.Kind)) && (f.Job == "" || f.Job == e.Job) &&
		(f.Queue == "" || f.Queue == e.Queue) && (f.Type == "" || f.Type == e.Type) &&
		(f.Tenant == "" || f.Tenant == e.Tenant) &&
		(f.Worker == "" || f.Worker == e.Worker) && (f.Workflow == "" || string(f.Workflow) == e.Run) &&
		(f.Actor == "" || f.Actor == e.Actor || f.Actor == e.Actor.Owner())
}
