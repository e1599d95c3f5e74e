package state

import (
	"bytes"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
	"github.com/zeebo/xxh3"
)

// HashBytes returns the digest of a canonical form, 128 bits of xxh3.
func HashBytes(b []byte) rota.Digest {
	h := xxh3.Hash128(b)
	return rota.Digest{Hi: h.Hi, Lo: h.Lo}
}

// WorkerRow is one registered worker.
type WorkerRow struct {
	RowMeta
	Spec *rota.WorkerSpec
	// SecretHash is the SHA-256 of the worker's secret (SPEC §6.4).
	SecretHash [32]byte
	// By is the principal that registered it and under whose grants it works; "nobody" once that credential is no longer
	// valid, and "" if there was no caller.
	By     rota.Principal
	Status rota.WorkerStatus
	// Before is the status to return to from UNREACHABLE and JAILED: ACTIVE or DRAINING. For a RETIRED worker it is
	// SUSPENDED if the worker was suspended when it retired.
	Before rota.WorkerStatus
	// Dismissed reports that an operator retired it: nothing with its secret is accepted while its id is known.
	Dismissed bool
	Session   rota.Session
	Since     rota.Moment
	// SilentSince is the last sign of life; set only while UNREACHABLE.
	SilentSince rota.Moment
	// Connection numbers its newest connection, 0 if it sends no numbers. grace reports that it supports SPEC §16.7.
	// disconnected is when its stream was considered broken.
	Connection   uint64
	Grace        bool
	Disconnected rota.Moment
	// Polls reports that it accepts leases only as it offers (SPEC §13.17): free more until a clock time, both 0 at
	// rest. poll is the newest known poll.
	Polls       bool
	Poll        uint64
	Free        int32
	OffersUntil rota.Clock
	// Open, cpu, memory and io are what its leases use. Invariants I3, I4.
	Open            int32
	CPU, Memory, IO int64
	// Health is in permille at healthAt; since then it grows by 1 per second (SPEC §6.2).
	Health   int32
	HealthAt rota.Clock
	// Slashed is permanently deducted from the attested stake; invalidProofs counts the reasons.
	Slashed       int64
	InvalidProofs int32
	// JailedUntil is when JAILED ends.
	JailedUntil rota.Clock
	// Failing counts consecutive failures by type, for the types that failed last, oldest first.
	Failing []Streak
	// AttestedUntil is the expiry of its attestation, 0 for none; lapsed reports that a sweep reached it. attestedStake
	// is the stake in the last attestation.
	AttestedUntil rota.Date
	AttestedStake int64
	Lapsed        bool
	// Cooling and denied types, oldest first; expired ones are removed at the next sweep.
	Cooling []rota.TypeUntil
	Denied  []rota.TypeUntil
	// Units that it used in periods that are not over, by queue name.
	Units []rota.UnitsUsed
	// Executed are the types that it completed last, oldest first (see executes).
	Executed []rota.JobType
	// Held are the data keys of the jobs that it completed last, oldest first: it probably still has that data (SPEC
	// §7.6).
	Held      []string
	Assigned  uint64
	Completed uint64
	Failed    uint64
	// SinceTurn counts the leases received since its last turn of the oldest, plus the rest from that turn (SPEC
	// §7.10).
	SinceTurn uint64

	// Grants are the tenants that by may work for in its queues; derived.
	Grants *sched.Grants
	// Leases are the ids of the open ones; derived, shared by all copies of the row.
	Leases map[string]struct{}
	// ReputationDue, attestDue and forgetDue are derived: the worker's due times in the timers of reputation, of
	// attestations, and of workers that leave the state.
	ReputationDue rota.Clock
	AttestDue     rota.Date
	ForgetDue     int64
}

// Canonical appends the canonical form for digests and snapshots.
func (r *WorkerRow) Canonical(e *Encoder) {
	s := r.Spec
	e.Str(string(s.ID))
	e.Uint(uint64(len(s.Queues)))
	for _, q := range s.Queues {
		e.Str(string(q))
	}
	e.Int(int64(s.Slots))
	e.Int(int64(s.Prefetch))
	e.Str(s.Region)
	e.Str(s.Zone)
	e.strs(s.Capabilities)
	e.Int(s.CPUMilli)
	e.Int(s.MemoryBytes)
	e.Int(s.IOBytesPerS)
	e.Int(s.Stake)
	encodeLimits(e, s.Limits)
	e.Uint(uint64(len(s.Types)))
	for _, typ := range s.Types {
		e.Str(string(typ))
	}
	e.B = append(e.B, r.SecretHash[:]...)
	e.Str(string(r.By))
	e.Uint(uint64(r.Status))
	e.Uint(uint64(r.Before))
	e.Bool(r.Dismissed)
	e.Uint(uint64(r.Session))
	e.Moment(r.Since)
	e.Moment(r.SilentSince)
	e.Uint(r.Connection)
	e.Bool(r.Grace)
	e.Moment(r.Disconnected)
	e.Bool(r.Polls)
	e.Uint(r.Poll)
	e.Int(int64(r.Free))
	e.Int(int64(r.OffersUntil))
	e.Int(int64(r.Open))
	e.Int(r.CPU)
	e.Int(r.Memory)
	e.Int(r.IO)
	e.Int(int64(r.Health))
	e.Int(int64(r.HealthAt))
	e.Int(r.Slashed)
	e.Int(int64(r.InvalidProofs))
	e.Int(int64(r.JailedUntil))
	e.Uint(uint64(len(r.Failing)))
	for _, s := range r.Failing {
		e.Str(string(s.Typ))
		e.Int(s.N)
	}
	e.Int(int64(r.AttestedUntil))
	e.Int(r.AttestedStake)
	e.Bool(r.Lapsed)
	encodeTypesUntil(e, r.Cooling)
	encodeTypesUntil(e, r.Denied)
	e.Uint(uint64(len(r.Units)))
	for _, u := range r.Units {
		e.Str(string(u.Queue))
		e.Moment(u.Since)
		e.Int(int64(u.Until.Clock))
		e.Int(u.Used)
	}
	e.Uint(uint64(len(r.Executed)))
	for _, t := range r.Executed {
		e.Str(string(t))
	}
	e.strs(r.Held)
	e.Uint(r.Assigned)
	e.Uint(r.Completed)
	e.Uint(r.Failed)
	e.Uint(r.SinceTurn)
}

func encodeTypesUntil(e *Encoder, list []rota.TypeUntil) {
	e.Uint(uint64(len(list)))
	for _, t := range list {
		e.Str(string(t.Type))
		e.Int(int64(t.Until.Clock))
		e.Uint(uint64(t.Cause))
	}
}

func decodeTypesUntil(d *Decoder) (list []rota.TypeUntil) {
	for range d.Count(limits.MaxTypesPerWorker) {
		list = append(list, rota.TypeUntil{Type: rota.JobType(d.Str()), Until: rota.Moment{Clock: rota.Clock(d.Int())},
			Cause: rota.Reason(d.Enum(uint64(rota.ReasonLast)))})
	}
	return list
}

// DecodeWorker reads what Canonical wrote.
func DecodeWorker(d *Decoder) *WorkerRow {
	s := &rota.WorkerSpec{ID: rota.WorkerID(d.Str())}
	for _, q := range d.strs() {
		s.Queues = append(s.Queues, rota.QueueName(q))
	}
	s.Slots = int32(d.Int())
	s.Prefetch = int32(d.Int())
	s.Region = d.Str()
	s.Zone = d.Str()
	s.Capabilities = d.strs()
	s.CPUMilli = d.Int()
	s.MemoryBytes = d.Int()
	s.IOBytesPerS = d.Int()
	s.Stake = d.Int()
	s.Limits = decodeLimits(d)
	for range d.Count(rota.MaxTypesHandled) {
		s.Types = append(s.Types, rota.JobType(d.Str()))
	}
	r := &WorkerRow{Spec: s, Leases: make(map[string]struct{})}
	copy(r.SecretHash[:], d.raw(32))
	r.By = rota.Principal(d.Str())
	r.Status = rota.WorkerStatus(d.Enum(uint64(rota.WorkerUnreachable)))
	r.Before = rota.WorkerStatus(d.Enum(uint64(rota.WorkerUnreachable)))
	r.Dismissed = d.Bool()
	r.Session = rota.Session(d.Uint())
	r.Since = d.Moment()
	r.SilentSince = d.Moment()
	r.Connection = d.Uint()
	r.Grace = d.Bool()
	r.Disconnected = d.Moment()
	r.Polls = d.Bool()
	r.Poll = d.Uint()
	r.Free = int32(d.Int())
	r.OffersUntil = rota.Clock(d.Int())
	r.Open = int32(d.Int())
	r.CPU = d.Int()
	r.Memory = d.Int()
	r.IO = d.Int()
	r.Health = int32(d.Int())
	r.HealthAt = rota.Clock(d.Int())
	r.Slashed = d.Int()
	r.InvalidProofs = int32(d.Int())
	r.JailedUntil = rota.Clock(d.Int())
	for range d.Count(limits.MaxTypesPerWorker) {
		r.Failing = append(r.Failing, Streak{rota.JobType(d.Str()), d.Int()})
	}
	r.AttestedUntil = rota.Date(d.Int())
	r.AttestedStake = d.Int()
	r.Lapsed = d.Bool()
	r.Cooling = decodeTypesUntil(d)
	r.Denied = decodeTypesUntil(d)
	for range d.Count(rota.MaxQueuesPerWorker) {
		r.Units = append(r.Units, rota.UnitsUsed{Queue: rota.QueueName(d.Str()), Since: d.Moment(),
			Until: rota.Moment{Clock: rota.Clock(d.Int())}, Used: d.Int()})
	}
	for range d.Count(limits.MaxTypesPerWorker) {
		r.Executed = append(r.Executed, rota.JobType(d.Str()))
	}
	if r.Held = d.strs(); len(r.Held) > limits.MaxDataHeld {
		d.Fail()
	}
	r.Assigned = d.Uint()
	r.Completed = d.Uint()
	r.Failed = d.Uint()
	r.SinceTurn = d.Uint()
	return r
}

// QueueRow is one queue: its policy, its counters, its turn among queues.
type QueueRow struct {
	RowMeta
	Name   rota.QueueName
	Policy rota.QueuePolicy
	// Counts by state. Invariant I4: equal to the job rows.
	Blocked, Delayed, Queued, Assigned, Running int64
	// Totals since the cluster began.
	Submitted, Placed, Completed, Dead, Expired, Cancelled uint64
	// Turn is the count of assignments that SPEC §7.2 orders queues by; unlike `placed` it is raised.
	Turn uint64
	// SinceInterleave counts assignments since the last interleaved one (SPEC §5.1).
	SinceInterleave uint64
	// Expected are the times that its owner set for types, sorted by type, each once; a stored list never changes.
	Expected []ExpectedTime
	// DrainTo is the queue that its jobs move to before it is deleted, "" for none; drainFrom is where the next step
	// continues.
	DrainTo   rota.QueueName
	DrainFrom rota.JobID
	// By is the principal that created it, "" for the cluster itself.
	By rota.Principal
}

// SaidPolicy is a policy and its cached encoding.
type SaidPolicy struct {
	policy rota.QueuePolicy
	text   []byte
}

// encodePolicy writes a queue's policy. The queue's row changes with each of its jobs, the policy hardly ever.
func encodePolicy(e *Encoder, p *rota.QueuePolicy) {
	if e.Said != nil && e.Said.text != nil && e.Said.policy == *p {
		e.B = append(e.B, e.Said.text...)
		return
	}
	from := len(e.B)
	e.Str(p.Preset)
	e.values = p.AppendValues(e.values[:0])
	values := e.values
	e.Uint(uint64(len(values)))
	for _, v := range values {
		e.Int(v)
	}
	if e.Said != nil {
		e.Said.policy, e.Said.text = *p, append(e.Said.text[:0], e.B[from:]...)
	}
}

func encodeExpected(e *Encoder, list []ExpectedTime) {
	e.Uint(uint64(len(list)))
	for _, x := range list {
		e.Str(string(x.Typ))
		e.Int(x.Ms)
	}
}

// ETag returns the version of a queue's policy and its expected times.
func (r *QueueRow) ETag() string {
	return EtagOf(func(e *Encoder) {
		encodePolicy(e, &r.Policy)
		encodeExpected(e, r.Expected)
		e.Str(string(r.DrainTo))
	})
}

// Canonical appends the canonical form for digests and snapshots.
func (r *QueueRow) Canonical(e *Encoder) {
	e.Str(string(r.Name))
	encodePolicy(e, &r.Policy)
	for _, v := range []int64{r.Blocked, r.Delayed, r.Queued, r.Assigned, r.Running} {
		e.Int(v)
	}
	for _, v := range []uint64{r.Submitted, r.Placed, r.Completed, r.Dead, r.Expired, r.Cancelled, r.Turn,
		r.SinceInterleave} {
		e.Uint(v)
	}
	encodeExpected(e, r.Expected)
	e.Str(string(r.DrainTo))
	e.Str(string(r.DrainFrom))
	e.Str(string(r.By))
}

// DecodeQueue decodes a row that Canonical encoded.
func DecodeQueue(d *Decoder) *QueueRow {
	r := &QueueRow{Name: rota.QueueName(d.Str())}
	preset := d.Str()
	n := d.Uint()
	if n > 1000 {
		d.Fail()
		return r
	}
	values := make([]int64, n)
	for i := range values {
		values[i] = d.Int()
	}
	var err error
	if r.Policy, err = rota.PolicyFromValues(preset, values); err != nil && d.Err == nil {
		d.Err = err
	}
	for _, p := range []*int64{&r.Blocked, &r.Delayed, &r.Queued, &r.Assigned, &r.Running} {
		*p = d.Int()
	}
	for _, p := range []*uint64{&r.Submitted, &r.Placed, &r.Completed, &r.Dead, &r.Expired, &r.Cancelled, &r.Turn,
		&r.SinceInterleave} {
		*p = d.Uint()
	}
	for range d.Count(limits.MaxExpectedTypes) {
		r.Expected = append(r.Expected, ExpectedTime{rota.JobType(d.Str()), d.Int()})
	}
	r.DrainTo, r.DrainFrom = rota.QueueName(d.Str()), rota.JobID(d.Str())
	r.By = rota.Principal(d.Str())
	return r
}

// Pending returns the number of pending jobs: BLOCKED, DELAYED and QUEUED.
func (r *QueueRow) Pending() int64 { return r.Blocked + r.Delayed + r.Queued }

// TombRow is the tombstone of a terminal job (SPEC §9.4).
type TombRow struct {
	ID     rota.JobID
	Queue  rota.QueueName
	Typ    rota.JobType
	Tenant rota.TenantID
	State  rota.JobState
	Reason rota.Reason
	// Attempt is the number of the last attempt; lease is the last lease and worker its worker. They determine the
	// reply to late messages.
	Attempt      int32
	Lease        rota.LeaseID
	Worker       rota.WorkerID
	OutputDigest string
	Submitted    rota.Moment
	Finished     rota.Moment
	// Due is the date on which it is dropped, by the queue's gc_horizon when the job ended.
	Due rota.Date
	// Seq numbers terminal jobs in log order. At the cap the oldest are dropped first.
	Seq uint64
	// Number is the seq of the live job whose life ended.
	Number uint64
	// Content is the hash of the spec as first submitted (SPEC §16.5).
	Content rota.Digest
	// Life counts the retries; retried is when the last one was, 0 for never (SPEC §16.6).
	Life    int32
	Retried rota.Moment
	// FreeAt is until when the worker of its last lease may still believe in a lease that was cancelled; otherwise 0.
	// No retry starts before it (SPEC §3.11).
	FreeAt rota.Clock
	// Fingerprint groups a DEAD job with those of a similar failure (SPEC §20.5); otherwise "".
	Fingerprint string
	// Unique is the key that a completed job is unique by (SPEC §18.1).
	Unique UniqueKey
	// Batch is the number of the batch that counts the job, 0 for none.
	Batch uint64
	// Logged reports that the log of its last lease was kept (SPEC §22.2).
	Logged bool
	// Earlier are earlier attempts that no verb of their worker ended and whose log was not kept before the job's end:
	// a node may still provide one (SPEC §22.4). Nil for most.
	Earlier []Unlogged
}

// Unlogged is an attempt of an ended job whose log a node may have: its worker did not end it.
type Unlogged struct {
	Lease   rota.LeaseID
	Worker  rota.WorkerID
	Attempt int32
	// Logged reports that the log was kept since.
	Logged bool
}

func (r *TombRow) canonical(e *Encoder) {
	e.Str(string(r.ID))
	e.Str(string(r.Queue))
	e.Str(string(r.Typ))
	e.Str(string(r.Tenant))
	e.Uint(uint64(r.State))
	e.Uint(uint64(r.Reason))
	e.Int(int64(r.Attempt))
	e.B = append(e.B, r.Lease[:]...)
	e.Str(string(r.Worker))
	e.Str(r.OutputDigest)
	e.Moment(r.Submitted)
	e.Moment(r.Finished)
	e.Int(int64(r.Due - r.Finished.Date))
	e.Uint(r.Seq)
	e.Uint(r.Number)
	e.digest(r.Content)
	e.Int(int64(r.Life))
	e.Moment(r.Retried)
	e.Int(int64(r.FreeAt))
	e.Str(r.Fingerprint)
	if r.Unique == (UniqueKey{}) {
		e.Str("") // for most
	} else {
		e.bytes(r.Unique[:])
	}
	e.Uint(r.Batch)
	e.Bool(r.Logged)
	e.Uint(uint64(len(r.Earlier)))
	for i := range r.Earlier {
		a := &r.Earlier[i]
		e.B = append(e.B, a.Lease[:]...)
		e.Str(string(a.Worker))
		e.Int(int64(a.Attempt))
		e.Bool(a.Logged)
	}
}

// DecodeTomb reads what Canonical wrote.
func DecodeTomb(d *Decoder) *TombRow {
	r := &TombRow{}
	r.ID = rota.JobID(d.Str())
	r.Queue = rota.QueueName(d.Str())
	r.Typ = rota.JobType(d.Str())
	r.Tenant = rota.TenantID(d.Str())
	r.State = rota.JobState(d.Enum(uint64(rota.JobCancelled)))
	r.Reason = rota.Reason(d.Enum(uint64(rota.ReasonLast)))
	r.Attempt = int32(d.Int())
	r.Lease = d.leaseID()
	r.Worker = rota.WorkerID(d.Str())
	r.OutputDigest = d.Str()
	r.Submitted = d.Moment()
	r.Finished = d.Moment()
	r.Due = r.Finished.Date + rota.Date(d.Int())
	r.Seq = d.Uint()
	r.Number = d.Uint()
	r.Content = d.digest()
	r.Life = int32(d.Int())
	r.Retried = d.Moment()
	r.FreeAt = rota.Clock(d.Int())
	if r.Fingerprint = d.Str(); (len(r.Fingerprint) == FingerprintSize) != (r.State == rota.JobDead) {
		d.Fail()
	}
	key := d.Str()
	if copy(r.Unique[:], key); key != "" && len(key) != len(r.Unique) {
		d.Fail()
	}
	r.Batch = d.Uint()
	r.Logged = d.Bool()
	for range d.Count(limits.MaxAttemptsKept - 1) {
		r.Earlier = append(r.Earlier, Unlogged{d.leaseID(), rota.WorkerID(d.Str()), int32(d.Int()), d.Bool()})
	}
	return r
}

// Record is a complete terminal job on its way to an archive, outside the digest (SPEC §2.5). It never changes.
type Record struct {
	// Seq numbers the end; ended is the tombstone as the job's end left it.
	Seq        uint64
	Ended      Tomb
	Spec       *KeptSpec
	Enqueued   rota.Moment
	FirstLease rota.Moment
	Err        string
	Attempts   []rota.Attempt
	Progress   int32
	Note       string
	Output     []byte
	Meta       map[string]string
	Spent      rota.Costs
}

// Bytes returns what a record counts toward RecordBytesCap: about its size on the heap, and a pure function of what a
// snapshot contains.
func (r *Record) Bytes() int64 {
	s := r.Spec
	n := len(s.own) + len(r.Output) + len(r.Err) + len(r.Note) + len(s.ExpectedDigest) + 400
	for i := range r.Attempts {
		n += 160 + len(r.Attempts[i].Error)
	}
	for _, list := range [...][]string{s.Requires, s.RegionsAllow, s.RegionsDeny, s.DataKeys, s.Keys} {
		for _, text := range list {
			n += 16 + len(text)
		}
	}
	return int64(n + (len(s.Labels)+len(s.Limits)+len(s.Costs)+len(r.Meta)+len(r.Spent))*(32+rota.MaxLabelBytes))
}

// EncodeRecord appends a record without its tombstone.
func EncodeRecord(e *Encoder, r *Record) {
	EncodeSpec(e, r.Spec)
	e.Moment(r.Enqueued)
	e.Moment(r.FirstLease)
	e.Str(r.Err)
	EncodeAttempts(e, r.Attempts)
	e.Int(int64(r.Progress))
	e.Str(r.Note)
	e.bytes(r.Output)
	encodePairs(e, r.Meta)
	if len(r.Spent) > 0 { // never under rules version 1
		encodeLimits(e, r.Spent)
	}
}

// DecodeRecord reads what EncodeRecord appended.
func DecodeRecord(d *Decoder) *Record {
	return &Record{Spec: decodeSpec(d), Enqueued: d.Moment(), FirstLease: d.Moment(), Err: d.Str(),
		Attempts: DecodeAttempts(d), Progress: int32(d.Int()), Note: d.Str(), Output: d.bytes(), Meta: decodePairs(d), Spent: decodeSpent(d)}
}

// AttemptBy returns the attempt of a lease that may still provide a log, nil if the tombstone has none.
func (r *TombRow) AttemptBy(lease []byte, worker rota.WorkerID) *Unlogged {
	last := Unlogged{r.Lease, r.Worker, r.Attempt, r.Logged}
	for _, a := range append(r.Earlier, last) {
		if bytes.Equal(a.Lease[:], lease) && a.Worker == worker {
			return &a
		}
	}
	return nil
}

// HasLog reports whether, according to the tombstone, the log of a lease that ended with the job or before it was kept.
func (r *TombRow) HasLog(lease rota.LeaseID) bool {
	return r.Logged && r.Lease == lease || slices.ContainsFunc(r.Earlier,
		func(a Unlogged) bool { return a.Logged && a.Lease == lease })
}

// Keep returns the bytes of a tombstone, stored in `in` if it is not nil. e belongs to the caller and is overwritten.
func (r *TombRow) Keep(e *Encoder, in *entry.Texts) Tomb {
	e.B = e.B[:0]
	r.canonical(e)
	if in == nil {
		return Tomb(e.B)
	}
	return Tomb(in.Keep(e.B))
}
