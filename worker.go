package rota

import "slices"

// WorkerSpec is what a worker registers with.
type WorkerSpec struct {
	ID WorkerID `json:"id"`
	// Queues it serves; they need not exist yet.
	Queues []QueueName `json:"queues"`
	// Slots run at once, Prefetch more wait at the worker.
	Slots    int32 `json:"slots"`
	Prefetch int32 `json:"prefetch"`
	// Region and Zone are where it runs.
	Region string `json:"region,omitempty"`
	Zone   string `json:"zone,omitempty"`
	// Capabilities are matched against a job's Requires.
	Capabilities []string `json:"capabilities,omitempty"`
	// CPUMilli, MemoryBytes and IOBytesPerS are what it offers; 0 is none.
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

// Attestation is a key holder's signed statement that a worker may serve a cluster until a date, with a stake: Ed25519
// over (cluster id, worker id, expiry, stake) (SPEC §6.5).
type Attestation struct {
	Cluster ClusterID `json:"cluster_id"`
	Worker  WorkerID  `json:"worker"`
	Expires Date      `json:"expires_ms"`
	// Stake is in millionths of a unit, 0 to MaxFee; 0 is none.
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
	// Polls says that it takes leases only as it offers, over plain HTTP; Offered is how many more
	// it takes now (SPEC §13.17).
	Polls   bool  `json:"polls,omitempty"`
	Offered int32 `json:"offered,omitempty"`
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
