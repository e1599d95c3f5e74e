package rota

import (
	"crypto/ed25519"
	"encoding/binary"
	"slices"
	"time"
)

// WorkerSpec is the registration of a worker.
type WorkerSpec struct {
	ID WorkerID `json:"id"`
	// Queues are the queues that it serves; they need not exist yet.
	Queues []QueueName `json:"queues"`
	// Slots is the number of jobs that run at once; Prefetch is how many more wait at the worker.
	Slots    int32 `json:"slots"`
	Prefetch int32 `json:"prefetch"`
	// Region and Zone are where it runs.
	Region string `json:"region,omitempty"`
	Zone   string `json:"zone,omitempty"`
	// Capabilities are matched against a job's Requires.
	Capabilities []string `json:"capabilities,omitempty"`
	// CPUMilli, MemoryBytes and IOBytesPerS are the resources that it offers; 0 means none.
	CPUMilli    int64 `json:"cpu_milli,omitempty"`
	MemoryBytes int64 `json:"memory_bytes,omitempty"`
	IOBytesPerS int64 `json:"io_bytes_per_s,omitempty"`
	// Stake is the stake that it declares, in millionths of a unit (SPEC §6.5). Only a stake signed by an attestation
	// counts.
	Stake int64 `json:"stake,omitempty"`
	// Limits are the maximum values that it offers, by name, such as depth or width.
	Limits map[string]int64 `json:"limits,omitempty"`
	// Types are the job types that it handles, at most MaxTypesHandled; empty means every type (SPEC §16.2).
	Types []JobType `json:"types,omitempty"`
}

// Handles reports whether the worker accepts jobs of a type. Types must be sorted, as the cluster keeps them.
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

// TypeUntil is a job type of which a worker gets no jobs until a moment, if the queue's policy says so. The reason is
// PROVIDER_FAIL in a row, DECLINED or LEASE_EXPIRED.
type TypeUntil struct {
	Type  JobType `json:"type"`
	Until Moment  `json:"until"`
	Cause Reason  `json:"cause"`
}

// UnitsUsed is how much of a queue's units_per_period a worker has used in a period.
type UnitsUsed struct {
	Queue QueueName `json:"queue"`
	Since Moment    `json:"since"`
	Until Moment    `json:"until"`
	Used  int64     `json:"used"`
}

// Worker is all data about a worker at one index.
type Worker struct {
	WorkerSpec
	Status  WorkerStatus `json:"status"`
	Session Session      `json:"session"`
	// StatusSince is when the status was entered.
	StatusSince Moment `json:"status_since"`
	// SilentSince is when an UNREACHABLE worker was last heard from (SPEC §3.10).
	SilentSince Moment `json:"silent_since"`
	// DisconnectedSince is when the cluster considered its stream broken; zero while the stream is open (SPEC §16.7).
	DisconnectedSince Moment `json:"disconnected_since"`
	// Polls reports that the worker requests leases over plain HTTP and gets only as many as it offers; Offered is how
	// many more it accepts now (SPEC §13.17).
	Polls   bool  `json:"polls,omitempty"`
	Offered int32 `json:"offered,omitempty"`
	// Open is the number of open leases; the Taken fields are what they use.
	Open          int32 `json:"open_leases"`
	CPUMilliTaken int64 `json:"cpu_milli_taken,omitempty"`
	MemoryTaken   int64 `json:"memory_bytes_taken,omitempty"`
	IOTaken       int64 `json:"io_bytes_per_s_taken,omitempty"`
	// Health is in permille, at this moment (SPEC §6.2).
	Health int32 `json:"health"`
	// Load is Idle, Busy or Overloaded: displayed, not stored (SPEC §6.3).
	Load string `json:"load"`
	// AttestedStake is the stake signed by its attestation, in millionths of a unit; 0 without a valid one (SPEC §6.5).
	// For min_stake, AttestedStake minus Slashed counts.
	AttestedStake int64 `json:"attested_stake,omitempty"`
	// Slashed is the part of the attested stake that was removed for good, by InvalidProofs invalid proofs.
	Slashed       int64 `json:"slashed,omitempty"`
	InvalidProofs int32 `json:"invalid_proofs,omitempty"`
	// JailedUntil and AttestedUntil are 0 if the worker is not jailed or attested.
	JailedUntil   Moment `json:"jailed_until"`
	AttestedUntil Date   `json:"attested_until_ms"`
	// Cooling and Denied are the types that are still cooling or denied.
	Cooling []TypeUntil `json:"cooling,omitempty"`
	Denied  []TypeUntil `json:"denied,omitempty"`
	// Units are those used in the current period.
	Units []UnitsUsed `json:"units,omitempty"`
	// Counts since registration.
	Assigned  uint64 `json:"assigned_total"`
	Completed uint64 `json:"completed_total"`
	Failed    uint64 `json:"failed_total"`
	// Leases are the open leases; set by `worker show` only.
	Leases []Lease `json:"leases,omitempty"`
}

// StakeLeft returns the stake that counts for min_stake: the attested stake minus the slashed part.
func (w *Worker) StakeLeft() int64 { return max(0, w.AttestedStake-w.Slashed) }

// LeaseVerb is an operation of a worker on its lease.
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

// attestationDomain ensures that a signature over an attestation is not valid for anything else that the same key
// signs.
const attestationDomain = "rota|attestation|1"

// Attest returns a key holder's signed statement that a worker may serve a cluster until a date, with a stake in
// millionths of a unit (SPEC §6.5). The key is an Ed25519 private key of 64 bytes.
func Attest(key ed25519.PrivateKey, cluster ClusterID, worker WorkerID, expires Date,
	stake int64) (Attestation, error) {
	if len(key) != ed25519.PrivateKeySize {
		return Attestation{}, Refusef(KindInvalid, "key", "key: got %d bytes, want the %d of an Ed25519 private key",
			len(key),
			ed25519.PrivateKeySize)
	}
	if err := CheckID("cluster_id", cluster); err != nil {
		return Attestation{}, err
	}
	if err := CheckID("worker", worker); err != nil {
		return Attestation{}, err
	}
	if expires <= 0 || expires > maxExpiry {
		return Attestation{}, OutOfRange("expires_ms", int64(expires), 1, int64(maxExpiry))
	}
	if stake < 0 || stake > MaxFee {
		return Attestation{}, OutOfRange("stake", stake, 0, MaxFee)
	}
	a := Attestation{Cluster: cluster, Worker: worker, Expires: expires, Stake: stake,
		Key: Hex(key.Public().(ed25519.PublicKey))}
	a.Signature = ed25519.Sign(key, a.message())
	return a, nil
}

// maxExpiry keeps dates far from overflow, like those of jobs.
const maxExpiry Date = 1 << 46

// message returns the signed bytes: the domain, then each part after its length, so that no two attestations have the
// same bytes.
func (a *Attestation) message() []byte {
	b := []byte(attestationDomain)
	for _, part := range []string{string(a.Cluster), string(a.Worker)} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(part)))
		b = append(b, part...)
	}
	b = binary.BigEndian.AppendUint64(b, uint64(a.Expires))
	return binary.BigEndian.AppendUint64(b, uint64(a.Stake))
}

// CheckShape rejects an attestation whose fields are malformed, independently of its signer.
func (a *Attestation) CheckShape() error {
	switch {
	case len(a.Key) != ed25519.PublicKeySize:
		return Refusef(KindInvalid, "attestation.key", "attestation.key: got %d bytes, want %d", len(a.Key),
			ed25519.PublicKeySize)
	case len(a.Signature) != ed25519.SignatureSize:
		return Refusef(KindInvalid, "attestation.signature", "attestation.signature: got %d bytes, want %d",
			len(a.Signature), ed25519.SignatureSize)
	case !ValidID(string(a.Cluster)):
		return CheckID("attestation.cluster_id", a.Cluster)
	case !ValidID(string(a.Worker)):
		return CheckID("attestation.worker", a.Worker)
	case a.Expires <= 0 || a.Expires > maxExpiry:
		return OutOfRange("attestation.expires_ms", int64(a.Expires), 1, int64(maxExpiry))
	case a.Stake < 0 || a.Stake > MaxFee:
		return OutOfRange("attestation.stake", a.Stake, 0, MaxFee)
	}
	return nil
}

// Verify returns an error if an attestation does not allow a worker to serve a cluster at a date, given the keys in the
// cluster's configuration. Kind Invalid: it is malformed. Kind Denied: it is for another cluster or worker, expired,
// signed by an unknown key, or has a wrong signature; the text says which.
func (a *Attestation) Verify(keys []ed25519.PublicKey, cluster ClusterID, worker WorkerID, now Date) error {
	if err := a.CheckShape(); err != nil {
		return err
	}
	switch {
	case a.Cluster != cluster:
		return Refusef(KindDenied, "attestation.cluster_id",
			"the attestation is for cluster %q, and this cluster is %q", a.Cluster,
			cluster)
	case a.Worker != worker:
		return Refusef(KindDenied, "attestation.worker", "the attestation is for worker %q, and this worker is %q",
			a.Worker, worker)
	}
	known := false
	for _, k := range keys {
		known = known || k.Equal(ed25519.PublicKey(a.Key))
	}
	switch {
	case !known:
		return Refusef(KindDenied, "attestation.key",
			"the attestation is signed by key %s, which the cluster's configuration "+
				"does not name", a.Key)
	case !ed25519.Verify(ed25519.PublicKey(a.Key), a.message(), a.Signature):
		return Refusef(KindDenied, "attestation.signature",
			"the attestation's signature is wrong: it was changed after it was signed")
	case a.Expires <= now:
		return Refusef(KindDenied, "attestation.expires_ms",
			"the attestation expired at %s, and it is %s now: create a new one",
			dateText(a.Expires), dateText(now))
	}
	return nil
}

func dateText(d Date) string { return time.UnixMilli(int64(d)).UTC().Format(time.RFC3339) }
