package rota

import "fmt"

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

// EventKind says what happened (SPEC §12.2).
type EventKind uint8

// The kinds of SPEC §12.2; EventNodeJoined tells of membership.
const (
	EventNone EventKind = iota
	JobEnqueued
	JobAssigned
	JobRunning
	JobPromoted
	JobProgress
	JobRetryScheduled
	JobCompleted
	JobDead
	JobExpired
	JobCancelled
	LeaseAcked
	LeaseRenewedEvent
	LeaseExpiredEvent
	LeaseCancelledEvent
	LeaseDeclinedEvent
	AssignmentDropped
	WorkerHeld
	ProviderRegistered
	ProviderStatusChanged
	ProviderSlashed
	DomainIsolated
	DomainRecovered
	ModeChanged
	QueueChanged
	TenantChanged
	WorkflowStarted
	WorkflowFinished
	Drained
	EntryRefused
	LeadershipBegan
	LeaseRevoked
	NodeChanged
)

var eventKindNames = []string{"none", "jobEnqueued", "jobAssigned", "jobRunning", "jobPromoted", "jobProgress",
	"jobRetryScheduled", "jobCompleted", "jobDead", "jobExpired", "jobCancelled", "leaseAcked", "leaseRenewed",
	"leaseExpired", "leaseCancelled", "leaseDeclined", "assignmentDropped", "workerHeld", "providerRegistered",
	"providerStatusChanged", "providerSlashed", "domainIsolated", "domainRecovered", "modeChanged", "queueChanged",
	"tenantChanged", "workflowStarted", "workflowFinished", "drained", "entryRefused", "leadershipBegan",
	"leaseRevoked", "nodeChanged"}

// String names the kind as SPEC §12.2 does.
func (k EventKind) String() string { return nameOf(eventKindNames, int(k)) }

// MarshalText implements encoding.TextMarshaler.
func (k EventKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Event is one thing that an entry made happen. Fields that do not belong to
// the kind are zero.
type Event struct {
	ID       EventID      `json:"event_id"`
	Kind     EventKind    `json:"kind"`
	Clock    Clock        `json:"logical_time"`
	Date     Date         `json:"date_ms"`
	Job      JobID        `json:"job,omitempty"`
	Queue    QueueName    `json:"queue,omitempty"`
	Tenant   TenantID     `json:"tenant,omitempty"`
	Worker   WorkerID     `json:"worker,omitempty"`
	Session  Session      `json:"session,omitempty"`
	Lease    LeaseID      `json:"lease_id,omitzero"`
	Attempt  int32        `json:"attempt,omitempty"`
	Reason   Reason       `json:"reason,omitempty"`
	Status   WorkerStatus `json:"status,omitempty"`
	Deadline Clock        `json:"deadline_ms,omitempty"`
	// Epoch is the policy decision: the round's epoch.
	Epoch uint64 `json:"policy_decision_id,omitempty"`
	// Text is the kind's own data, such as why an assignment was dropped.
	Text string `json:"error_data,omitempty"`
}
