package rota

import "slices"

// WorkerSpec is what a worker says of itself when it registers.
type WorkerSpec struct {
	ID WorkerID `json:"id"`
	// Queues it serves; they need not exist yet.
	Queues []QueueName `json:"queues"`
	// Slots run at once, Prefetch more wait at the worker.
	Slots    int32 `json:"slots"`
	Prefetch int32 `json:"prefetch"`
	// Region and Zone say where it is.
	Region string `json:"region,omitempty"`
	Zone   string `json:"zone,omitempty"`
	// Capabilities are matched against a job's Requires.
	Capabilities []string `json:"capabilities,omitempty"`
	// CPUMilli, MemoryBytes and IOBytesPerS are what it has; 0 is none to give.
	CPUMilli    int64 `json:"cpu_milli,omitempty"`
	MemoryBytes int64 `json:"memory_bytes,omitempty"`
	IOBytesPerS int64 `json:"io_bytes_per_s,omitempty"`
	// Stake that it declares, in millionths of a unit. It is shown and counts for
	// nothing: a stake counts where an attestation signs it (SPEC §6.5).
	Stake int64 `json:"stake,omitempty"`
	// Limits are what it offers at most, by name, such as depth or width.
	Limits map[string]int64 `json:"limits,omitempty"`
	// Types are the job types that it handles, at most MaxTypesHandled; none stands for
	// every type (SPEC §16.2).
	Types []JobType `json:"types,omitempty"`
}

// Handles reports whether the worker takes jobs of a type. Types must be sorted, as the
// cluster keeps them.
func (w *WorkerSpec) Handles(typ JobType) bool {
	if len(w.Types) == 0 {
		return true
	}
	_, handled := slices.BinarySearch(w.Types, typ)
	return handled
}

// Attestation is a key holder's word that a worker may serve a cluster until a
// date, with a stake: Ed25519 over (cluster id, worker id, expiry, stake) (SPEC §6.5).
type Attestation struct {
	Cluster ClusterID `json:"cluster_id"`
	Worker  WorkerID  `json:"worker"`
	Expires Date      `json:"expires_ms"`
	// Stake in millionths of a unit, 0 to MaxFee; 0 for none.
	Stake int64 `json:"stake,omitempty"`
	// Key is the public key, 32 bytes; Signature 64.
	Key       Hex `json:"key"`
	Signature Hex `json:"signature"`
}

// TypeUntil is a job type that a worker gets none of until a moment, in queues whose
// policy heeds that, and why: PROVIDER_FAIL in a row, DECLINED or LEASE_EXPIRED.
type TypeUntil struct {
	Type  JobType `json:"type"`
	Until Moment  `json:"until"`
	Cause Reason  `json:"cause"`
}

// UnitsUsed is what a worker took of a queue's units_per_period, in the period
// that began at a moment and ends at another.
type UnitsUsed struct {
	Queue QueueName `json:"queue"`
	Since Moment    `json:"since"`
	Until Moment    `json:"until"`
	Used  int64     `json:"used"`
}

// WorkerLink is what a worker says of its connection to a node (SPEC §16.7).
type WorkerLink struct {
	// Connection numbers it, larger than those before; 0 where the worker numbers none.
	Connection uint64
	// Grace says that the worker believes in a lease no longer than its grace after a beat
	// that was heard.
	Grace bool
}

// Worker is everything that is known of a worker at one index.
type Worker struct {
	WorkerSpec
	Status  WorkerStatus `json:"status"`
	Session Session      `json:"session"`
	// StatusSince is when the status was entered.
	StatusSince Moment `json:"status_since"`
	// SilentSince is the last sign of an UNREACHABLE worker (SPEC §3.10).
	SilentSince Moment `json:"silent_since"`
	// DisconnectedSince is when the cluster took its stream for broken; zero while it
	// stands (SPEC §16.7).
	DisconnectedSince Moment `json:"disconnected_since"`
	// Open leases, and what they take.
	Open          int32 `json:"open_leases"`
	CPUMilliTaken int64 `json:"cpu_milli_taken,omitempty"`
	MemoryTaken   int64 `json:"memory_bytes_taken,omitempty"`
	IOTaken       int64 `json:"io_bytes_per_s_taken,omitempty"`
	// Health in permille at this moment (SPEC §6.2).
	Health int32 `json:"health"`
	// Load is Idle, Busy or Overloaded: shown, not stored (SPEC §6.3).
	Load string `json:"load"`
	// AttestedStake is what its attestation signs, in millionths of a unit; 0 where none
	// holds. What counts of it for min_stake is what Slashed leaves (SPEC §6.5).
	AttestedStake int64 `json:"attested_stake,omitempty"`
	// Slashed is what was taken off the attested stake for good; InvalidProofs counts why.
	Slashed       int64 `json:"slashed,omitempty"`
	InvalidProofs int32 `json:"invalid_proofs,omitempty"`
	// JailedUntil and AttestedUntil; 0 where not.
	JailedUntil   Moment `json:"jailed_until"`
	AttestedUntil Date   `json:"attested_until_ms"`
	// Cooling and Denied types, those that still last.
	Cooling []TypeUntil `json:"cooling,omitempty"`
	Denied  []TypeUntil `json:"denied,omitempty"`
	// Units used in the present period.
	Units []UnitsUsed `json:"units,omitempty"`
	// Counts since registration.
	Assigned  uint64 `json:"assigned_total"`
	Completed uint64 `json:"completed_total"`
	Failed    uint64 `json:"failed_total"`
	// Leases are the open ones; filled by `worker show` only.
	Leases []Lease `json:"leases,omitempty"`
}

// StakeLeft is what counts for min_stake: the attested stake without what was slashed.
func (w *Worker) StakeLeft() int64 { return max(0, w.AttestedStake-w.Slashed) }

// LeaseVerb is what a worker does with its lease.
type LeaseVerb uint8

// The verbs of SPEC §2.7, §8 and §9.5.
const (
	VerbAck LeaseVerb = iota + 1
	VerbRenew
	VerbComplete
	VerbFail
	VerbDecline
	VerbProgress
)

var leaseVerbNames = []string{"", "ACK", "RENEW", "COMPLETE", "FAIL", "DECLINE", "PROGRESS"}

// String names the verb in capitals.
func (v LeaseVerb) String() string { return nameOf(leaseVerbNames, int(v)) }

// LeaseCommand is one verb on one lease by its worker. Every one is idempotent
// (SPEC §2.7): ack, complete, fail and decline by lease id, renew by ordinal.
type LeaseCommand struct {
	Verb  LeaseVerb
	Lease LeaseID
	// Job is the lease's job: what comes late for an ended lease is answered by it.
	Job     JobID
	Worker  WorkerID
	Session Session
	// Ordinal of a renewal, from 1.
	Ordinal int32
	// Output and OutputDigest (32 bytes, SHA-256 of the output unless the
	// handler gives another) of a completion.
	Output       []byte
	OutputDigest []byte
	// Meta is what a completion says beside its output, within the bounds of labels.
	Meta map[string]string
	// Error of a failure, note of a progress report.
	Text string
	// Progress 0…100.
	Progress int32
	// NoRetry of a failure makes the job DEAD at once.
	NoRetry bool
	// TimedOut of a failure says that max_runtime ended the attempt (SPEC §20.2).
	TimedOut bool
}

// LeaseAnswer is the outcome of a LeaseCommand.
type LeaseAnswer struct {
	// Err is nil, or Stale when the lease is not (or no longer) the caller's.
	Err *Error
	// Deadline, on the cluster clock alone, and Renewals after a renewal or an ack.
	Deadline Clock
	Renewals int32
	// JobState after the command.
	JobState JobState
	// Index of the entry that decided it.
	Index Index
}

// Notice is what a node tells a connected worker. Exactly one field is set.
type Notice struct {
	// Assigned is a new lease, or one given back on reconnecting.
	Assigned *Assignment
	// Ended says that a lease is over for a reason that the worker did not bring about.
	Ended *LeaseEnd
	// Revoked asks to stop and confirm by declining (SPEC §8.5).
	Revoked *LeaseEnd
	// Draining says that an operator drains the worker.
	Draining bool
}

// LeaseEnd names a lease that is over, or shall be, and why.
type LeaseEnd struct {
	Lease  LeaseID
	Job    JobID
	Reason Reason
}
