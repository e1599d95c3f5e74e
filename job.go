package rota

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/rotasched/rota/internal/jsonparts"
	"github.com/rotasched/rota/internal/millis"
)

// Blob is bytes in readable form: JSON has text as a string, and anything that is not UTF-8 as {"base64":"…"}. It
// accepts both, and any other object, list, number or boolean as its own JSON text without blanks. An object whose only
// key is base64 always means bytes: to pass that object itself, pass its text as a string.
type Blob []byte

// MarshalJSON implements json.Marshaler.
func (b Blob) MarshalJSON() ([]byte, error) {
	if utf8.Valid(b) {
		return json.Marshal(string(b))
	}
	return json.Marshal(struct {
		Base64 []byte `json:"base64"`
	}{b})
}

// UnmarshalJSON implements json.Unmarshaler.
func (b *Blob) UnmarshalJSON(text []byte) error {
	if simple, ok := jsonparts.Text(text); ok {
		*b = append(Blob{}, simple...)
		return nil
	}
	var s string
	if len(text) > 0 && (text[0] == '"' || text[0] == 'n') && json.Unmarshal(text, &s) == nil {
		*b = Blob(s)
		return nil
	}
	var inside []byte
	others, times := false, 0
	jsonparts.Members(text, func(name, value []byte) {
		if jsonparts.Name(name) == "base64" {
			inside = value
			times++
		} else {
			others = true
		}
	})
	if inside != nil && !others {
		if times > 1 {
			return Refusef(KindInvalid, "payload", "payload: got base64 twice; remove one")
		}
		if err := json.Unmarshal(inside, (*[]byte)(b)); err != nil || *b == nil {
			return Refusef(KindInvalid, "payload",
				`payload: {"base64":…} does not hold base64; to send this object as it is, send its text as a string`)
		}
		return nil
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		return err
	}
	*b = compact.Bytes()
	return nil
}

// Hex is bytes shown as lowercase hex, such as a SHA-256 digest.
type Hex []byte

// String shows the hex.
func (h Hex) String() string { return hex.EncodeToString(h) }

// MarshalText implements encoding.TextMarshaler.
func (h Hex) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(h)), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *Hex) UnmarshalText(text []byte) error {
	v, err := hex.DecodeString(string(text))
	if err != nil {
		return Refusef(KindInvalid, "digest", "%q is not hexadecimal", shorten(string(text)))
	}
	*h = v
	return nil
}

// RetryPolicy is the retry policy of a single job (SPEC §20.4). Zero fields mean the queue's values.
type RetryPolicy struct {
	// Attempts is the number of attempts that the job has, 1 to 1,000.
	Attempts int64 `json:"attempts,omitempty"`
	// Base is the wait between the first and the second attempt, Cap the longest wait.
	Base time.Duration `json:"base_ms,omitempty"`
	Cap  time.Duration `json:"cap_ms,omitempty"`
	// FactorPermille is the factor by which the wait grows with each attempt, 1,000 to 1,000,000.
	FactorPermille int64 `json:"factor_permille,omitempty"`
	// JitterPermille is the maximum random change of a wait, longer or shorter, 1 to 1,000; -1 means none.
	JitterPermille int64 `json:"jitter_permille,omitempty"`
}

// Over returns a queue's policy as it applies to a job with this retry policy.
func (r RetryPolicy) Over(p *QueuePolicy) *QueuePolicy {
	if r == (RetryPolicy{}) {
		return p
	}
	own := *p
	for _, set := range []struct {
		is int64
		to *int64
	}{{r.Attempts, &own.AttemptMax}, {millis.Of(r.Base), &own.BackoffBaseMs}, {millis.Of(r.Cap), &own.BackoffCapMs},
		{r.FactorPermille, &own.BackoffFactorPermille}, {r.JitterPermille, &own.BackoffJitterPermille}} {
		if set.is != 0 {
			*set.to = max(0, set.is)
		}
	}
	return &own
}

// JobSpec is the definition of a job, given at submission. Only a JobChange changes it afterwards. CheckShape checks
// its ranges (SPEC §4.2).
//
// Durations are stored in whole milliseconds; the client library rounds up.
type JobSpec struct {
	// ID is the idempotency key; the client library sets one where it is empty.
	ID JobID `json:"id"`
	// Queue is the job's queue; empty means DefaultQueue.
	Queue QueueName `json:"queue"`
	// Type names the handler.
	Type JobType `json:"type"`
	// Tenant is the submitting tenant; empty means DefaultTenant.
	Tenant TenantID `json:"tenant,omitempty"`
	// Priority is 0 (critical) to 10 (background). Zero means priority 0; NewJobSpec sets DefaultPriority.
	Priority int32 `json:"priority"`
	// Fee is in millionths of a unit, for the market ranking: 0…MaxFee.
	Fee int64 `json:"fee,omitempty"`
	// SizeBytes is the declared size of the work; 0 means the payload's length.
	SizeBytes int64 `json:"size_bytes,omitempty"`
	// Payload is passed to the handler unchanged, at most payload_max_bytes.
	Payload Blob `json:"payload,omitempty"`
	// Delay delays the job by this time on the cluster clock, from submission.
	Delay time.Duration `json:"delay_ms,omitempty"`
	// NotBefore delays the job until a date.
	NotBefore time.Time `json:"not_before_ms,omitempty"`
	// TTL overrides the queue's ttl_abs, from submission; 0 means the queue's value.
	TTL time.Duration `json:"ttl_ms,omitempty"`
	// StartBy is the time after submission or the last retry within which the job must be leased, or it expires; 0
	// means no limit.
	StartBy time.Duration `json:"start_by_ms,omitempty"`
	// MaxRuntime overrides the queue's max_runtime; 0 means the queue's value.
	MaxRuntime time.Duration `json:"max_runtime_ms,omitempty"`
	// CPUMilli, MemoryBytes and IOBytesPerS (disk and network, read and written per second) are reserved at the worker
	// during the lease.
	CPUMilli    int64 `json:"cpu_milli,omitempty"`
	MemoryBytes int64 `json:"memory_bytes,omitempty"`
	IOBytesPerS int64 `json:"io_bytes_per_s,omitempty"`
	// Requires lists capabilities that the worker must have.
	Requires []string `json:"requires,omitempty"`
	// RegionsAllow (empty: all) and RegionsDeny filter workers by region.
	RegionsAllow []string `json:"regions_allow,omitempty"`
	RegionsDeny  []string `json:"regions_deny,omitempty"`
	// Zone is the zone that the affinity strategy prefers.
	Zone string `json:"zone,omitempty"`
	// Domain is the failure domain (SPEC §4.8); part of the lane.
	Domain string `json:"domain,omitempty"`
	// Worker pins the job to one worker.
	Worker WorkerID `json:"worker,omitempty"`
	// ExpectedDigest, 32 bytes or none: another output digest is PROOF_INVALID.
	ExpectedDigest Hex `json:"expected_digest,omitempty"`
	// Simulate is how long the built-in handler waits.
	Simulate time.Duration `json:"simulate_ms,omitempty"`
	// Units count against the worker's units_per_period; 0 counts as 1.
	Units int64 `json:"units,omitempty"`
	// Labels are the submitter's own, at most MaxLabels.
	Labels map[string]string `json:"labels,omitempty"`
	// Limits are what a worker must offer at least, by name, such as depth or width (SPEC §6.1).
	Limits map[string]int64 `json:"limits,omitempty"`
	// Expected is how long the job should take, used in queues whose estimate is `user`, to order and backfill jobs
	// (SPEC §26.1). The adaptive ranking uses the type's newest value (SPEC §5.3). 0 is none.
	Expected time.Duration `json:"expected_ms,omitempty"`
	// RetryOnInvalidProof requests another run if a verifier rejects the proof after the job is COMPLETED (SPEC §9.5).
	RetryOnInvalidProof bool `json:"retry_on_invalid_proof,omitempty"`
	// DataKeys name the data that the work reads, at most MaxDataKeys; affinity prefers workers that hold it (SPEC
	// §7.6).
	DataKeys []string `json:"data_keys,omitempty"`
	// Retry overrides the queue's retry policy.
	Retry RetryPolicy `json:"retry,omitzero"`
	// Unique requires that no other job with the same unique key exists; nil requires nothing (SPEC §18).
	Unique *Unique `json:"unique,omitempty"`
	// Keys are resources shared with other jobs, as name:value with distinct names, at most MaxKeys (SPEC §19). Key
	// rules limit jobs by them.
	Keys []string `json:"keys,omitempty"`
	// Costs are how much the job is expected to use of what its keys' rules limit by unit, at most MaxCosts (SPEC §30).
	Costs Costs `json:"costs,omitempty"`
	// Batch is the batch that the job belongs to; "" is none (SPEC §24).
	Batch BatchID `json:"batch,omitempty"`
	// Headers are passed to the worker unchanged, such as trace context (SPEC §13.16). At most MaxHeaders, of
	// MaxHeadersBytes in total. No filter selects by them, and submissions that differ only in them are equal.
	Headers map[string]string `json:"headers,omitempty"`
	// Minted reports that the client library generated ID and submits it for the first time, so that no archive must be
	// searched for it (SPEC §9.4). It is not part of the job.
	Minted bool `json:"-"`
}

// NewJobSpec starts a spec with the default priority and queue. A workflow's node is
// started by NewNodeSpec.
func NewJobSpec(typ JobType, payload []byte) JobSpec {
	return JobSpec{Queue: DefaultQueue, Type: typ, Priority: DefaultPriority, Payload: payload}
}

// Attempt is one leased execution, as `job show` prints it.
type Attempt struct {
	Number int32 `json:"attempt"`
	// Life is the life of the job that the attempt belongs to: the number of retries before it.
	Life     int32    `json:"life,omitempty"`
	Worker   WorkerID `json:"worker"`
	Lease    LeaseID  `json:"lease_id"`
	Token    Token    `json:"token"`
	Started  Moment   `json:"started"`
	Acked    Moment   `json:"acked"`
	Ended    Moment   `json:"ended"`
	Renewals int32    `json:"renewals,omitempty"`
	// End is why it ended; none while it is open.
	End   Reason `json:"end,omitempty"`
	Error string `json:"error,omitempty"`
	// Decision is how the worker was chosen.
	Decision Decision `json:"decision"`
	// Log reports whether the attempt's log was kept (SPEC §22.2).
	Log bool `json:"log,omitempty"`
}

// Job is all data about a job at one index.
type Job struct {
	JobSpec
	State JobState `json:"state"`
	// Attempt is the number of the current or next attempt.
	Attempt int32 `json:"attempt"`
	// Submitted, Enqueued (first became QUEUED), FirstLease, Finished and Due (of a DELAYED job) are times in the life
	// of the job.
	Submitted  Moment `json:"submitted"`
	Enqueued   Moment `json:"enqueued"`
	FirstLease Moment `json:"first_lease"`
	Finished   Moment `json:"finished"`
	Due        Moment `json:"due"`
	// Expires is when a live job expires: the earliest of its times to live and its deadline to start.
	Expires Moment `json:"expires"`
	// Life counts the retries (SPEC §16.6). Retried is the time of the last retry, from which times to live count.
	Life    int32  `json:"life,omitempty"`
	Retried Moment `json:"retried"`
	// Changes is the number of changes to the job in this life (SPEC §21.2).
	Changes int32 `json:"changes,omitempty"`
	// Reason is why the job is terminal, or why its last attempt ended.
	Reason Reason `json:"reason,omitempty"`
	Error  string `json:"error,omitempty"`
	// Fingerprint is equal for dead jobs that failed in the same way (SPEC §20.5).
	Fingerprint Hex `json:"fingerprint,omitempty"`
	// Lease is the open lease; nil if there is none.
	Lease *Lease `json:"lease,omitempty"`
	// Attempts are the newest 12 of all lives, oldest first.
	Attempts []Attempt `json:"attempts,omitempty"`
	// Progress is 0…100 with a note, as reported by the handler (SPEC §8.7).
	Progress     int32  `json:"progress,omitempty"`
	ProgressNote string `json:"progress_note,omitempty"`
	Output       Blob   `json:"output,omitempty"`
	OutputDigest Hex    `json:"output_digest,omitempty"`
	// Meta is the metadata that the completion reported with its output.
	Meta map[string]string `json:"meta,omitempty"`
	// Spent is what the attempts of the job have reported that they used, by cost (SPEC §30).
	Spent Costs `json:"spent,omitempty"`
	// UniqueHolder is the job that holds this job's unique key, usually itself, if it is in the same queue (SPEC
	// §18.1).
	UniqueHolder JobID `json:"unique_holder,omitempty"`
	// MergedInto is the job that a submission of this id was merged into; the other fields describe that job (SPEC
	// §18.2).
	MergedInto JobID `json:"merged_into,omitempty"`
	// Tier is the job's tier in an adaptive queue. Preempted counts the preemptions by critical jobs.
	Tier      int32 `json:"tier,omitempty"`
	Preempted int32 `json:"preempted,omitempty"`
	// WorkerLosses counts the attempts of this life that ended because their worker was lost, while the job is live.
	// Isolated jobs therefore run alone on a worker (SPEC §9.7).
	WorkerLosses int32 `json:"worker_losses,omitempty"`
	Isolated     bool  `json:"isolated,omitempty"`
	// RecordDropped reports that retention has dropped payload, output and attempts.
	RecordDropped bool `json:"record_dropped,omitempty"`
	// Archived reports that the record was read from a node's archive.
	Archived bool `json:"archived,omitempty"`
}

// RetryLife returns the life after which a retry of the job begins a new one: the current life if the job has ended,
// otherwise the previous one, as the retry has then been made already.
func (j *Job) RetryLife() int32 {
	if j.State.Terminal() {
		return j.Life
	}
	return max(j.Life, 1) - 1
}

// Lease is an open lease (SPEC §8).
type Lease struct {
	ID       LeaseID    `json:"id"`
	Token    Token      `json:"token"`
	Job      JobID      `json:"job"`
	Worker   WorkerID   `json:"worker"`
	Session  Session    `json:"session"`
	Attempt  int32      `json:"attempt"`
	State    LeaseState `json:"state"`
	Started  Moment     `json:"started"`
	AckBy    Moment     `json:"ack_by"`
	Acked    Moment     `json:"acked"`
	RenewBy  Moment     `json:"renew_by"`
	Deadline Moment     `json:"deadline"`
	Renewals int32      `json:"renewals"`
	// Revoked is the reason of a revoked lease (SPEC §8.5). It is not renewable, and ends when the worker confirms, at
	// its deadline, or by silence.
	Revoked Reason `json:"revoked,omitempty"`
	// Decision is how the worker was chosen.
	Decision Decision `json:"decision"`
}

// Decision is the recorded reasoning of an assignment (SPEC §7.7).
type Decision struct {
	Epoch uint64 `json:"epoch"`
	// Height is the applied index that the round was computed on.
	Height Index `json:"height"`
	// Score is the number calculated by the ranking. Rank is the position in the draw, from 0.
	Score     Score     `json:"score"`
	Rank      int32     `json:"rank"`
	Reasoning Reasoning `json:"reasoning"`
	// Seed is the seed of the round, 32 bytes (SPEC §7.1).
	Seed Hex `json:"seed,omitempty"`
}

// Assignment is a lease with its job, as sent to a worker.
type Assignment struct {
	Lease Lease
	Spec  JobSpec
	// RenewEvery is the queue's renewal window α·T_lease: renew the lease after this time. LeaseFor is T_lease itself.
	RenewEvery time.Duration
	LeaseFor   time.Duration
	// RenewalsMax is the maximum number of renewals; −1 means no limit.
	RenewalsMax int32
	// MaxRuntime is the attempt's timeout, from Lease.Started; 0 is none
	// (SPEC §20.2).
	MaxRuntime time.Duration
	// Grace is how long the lease continues after its worker's stream breaks; 0 means as long as for a silent worker
	// (SPEC §16.7).
	Grace time.Duration
}

// TimesOut returns the moment at which the attempt times out; 0 if it has no max_runtime.
func (a *Assignment) TimesOut() Clock {
	if a.MaxRuntime == 0 {
		return 0
	}
	return a.Lease.Started.Clock + Clock(a.MaxRuntime.Milliseconds())
}
