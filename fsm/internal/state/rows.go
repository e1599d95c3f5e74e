package state

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
)

// The tags of the tables: the first byte of a row's hash input, and the record kind in snapshots. Append only.
const (
	TagHeader byte = iota + 1
	TagJob
	TagLease
	TagWorker
	TagQueue
	TagTomb
	TagNode
	TagRecord
	TagHold
	TagTenant
	TagLimiter
	TagDomain
	TagType
	TagWorkflow
	TagVertex
	TagDeleted
	TagRole
	TagToken
	TagBlock
	TagIssuer
	TagSpent
	TagBackup
	TagUnique
	TagMerged
	TagKeyRule
	TagKeyCount
	TagSchedule
	TagPlan
	TagBatch
	TagWebhook
	TagEstimate
	TagTZData
	TagKeyCharge
	TagBudget
	TagAccount
)

func encodePairs(e *Encoder, pairs map[string]string) {
	e.Uint(uint64(len(pairs)))
	if len(pairs) == 0 {
		return
	}
	for _, k := range slices.Sorted(maps.Keys(pairs)) {
		e.Str(k)
		e.Str(pairs[k])
	}
}

func decodePairs(d *Decoder) map[string]string {
	n := d.Count(rota.MaxLabels)
	if n == 0 {
		return nil
	}
	pairs := make(map[string]string, n)
	for range n {
		k := d.Str()
		pairs[k] = d.Str()
	}
	return pairs
}

func encodeLimits(e *Encoder, limits map[string]int64) {
	e.Uint(uint64(len(limits)))
	if len(limits) == 0 {
		return
	}
	for _, k := range rota.Costs(limits).Names() {
		e.Str(k)
		e.Int(limits[k])
	}
}

func decodeLimits(d *Decoder) map[string]int64 {
	n := d.Uint()
	if n > rota.MaxLimits {
		d.Fail()
	}
	if n == 0 || d.Err != nil {
		return nil
	}
	limits := make(map[string]int64, n)
	for range n {
		k := d.Str()
		limits[k] = d.Int()
	}
	return limits
}

// decodeSpent reads the spent costs at the end of a row, where they are written only if there are any.
func decodeSpent(d *Decoder) rota.Costs {
	if len(d.B) == 0 {
		return nil
	}
	costs := decodeLimits(d)
	if len(costs) == 0 {
		d.Fail()
	}
	return costs
}

// AddCosts returns the sum of two costs, in a new map unless one is empty. An amount beyond the greatest stays there, and
// beyond MaxCosts names those of b that are new are left out.
func AddCosts(a, b rota.Costs) rota.Costs {
	if len(a) == 0 {
		return b
	}
	if len(b) == 0 {
		return a
	}
	sum := maps.Clone(a)
	for _, name := range b.Names() {
		if _, known := sum[name]; known || len(sum) < rota.MaxCosts {
			sum[name] = min(sum[name]+b[name], rota.MaxCost)
		}
	}
	return sum
}

// EncodeAttempts appends the attempts of a job, oldest first.
func EncodeAttempts(e *Encoder, attempts []rota.Attempt) {
	e.Uint(uint64(len(attempts)))
	for i := range attempts {
		a := &attempts[i]
		e.Int(int64(a.Number))
		e.Int(int64(a.Life))
		e.Str(string(a.Worker))
		e.B = append(e.B, a.Lease[:]...)
		e.token(a.Token)
		e.Moment(a.Started)
		e.Moment(a.Acked)
		e.Moment(a.Ended)
		e.Int(int64(a.Renewals))
		e.Uint(uint64(a.End))
		e.Str(a.Error)
		encodeDecision(e, &a.Decision)
		e.Bool(a.Log)
	}
}

func encodeDecision(e *Encoder, x *rota.Decision) {
	e.Uint(x.Epoch)
	e.Uint(uint64(x.Height))
	e.Int(int64(x.Score))
	e.Int(int64(x.Rank))
	e.Uint(uint64(x.Reasoning.Rule))
	e.Int(x.Reasoning.N)
	e.Int(x.Reasoning.Of)
	e.bytes(x.Seed)
}

func decodeDecision(d *Decoder) rota.Decision {
	return rota.Decision{Epoch: d.Uint(), Height: rota.Index(d.Uint()), Score: rota.Score(d.Int()),
		Rank:      int32(d.Int()),
		Reasoning: rota.Reasoning{Rule: rota.ReasoningRule(d.Uint()), N: d.Int(), Of: d.Int()}, Seed: d.bytes()}
}

// DecodeAttempts reads what EncodeAttempts appended.
func DecodeAttempts(d *Decoder) []rota.Attempt {
	n := d.Uint()
	if n > limits.MaxAttemptsKept {
		d.Fail()
		return nil
	}
	var attempts []rota.Attempt
	for range n {
		attempts = append(attempts, rota.Attempt{Number: int32(d.Int()), Life: int32(d.Int()),
			Worker: rota.WorkerID(d.Str()),
			Lease:  d.leaseID(), Token: d.token(), Started: d.Moment(), Acked: d.Moment(),
			Ended: d.Moment(), Renewals: int32(d.Int()), End: rota.Reason(d.Enum(uint64(rota.ReasonLast))),
			Error: d.Str(), Decision: decodeDecision(d), Log: d.Bool()})
	}
	return attempts
}

// LeaseRow is one open lease; an ended one leaves the table. Future times (AckBy, RenewBy, Deadline) have no date here:
// Words adds it.
type LeaseRow struct {
	RowMeta
	rota.Lease
	Queue  rota.QueueName
	Tenant rota.TenantID
	// CPU, memory and io are what it uses of its worker; domain and typ are its job's.
	CPU, Memory, IO int64
	Domain          string
	Typ             rota.JobType
	// EndsBy is when the attempt times out: start + max_runtime; 0 means never.
	EndsBy rota.Clock
	// SilentSince is the latest possible sign of life of its session, set once a takeover ended that session; 0 while
	// the session lives.
	SilentSince rota.Clock
	// Grace is how long it outlives its worker's broken stream, in ms; 0 for as long as its silence (SPEC §16.7).
	Grace int64
	// Index is the index of the entry that opened it.
	Index rota.Index
	// Spent is the total that the attempt has reported (SPEC §30.1); it never changes, but is replaced.
	Spent rota.Costs
	// Ended holds the data kept of a job that ended before the lease; nil while the job lives (SPEC §8.8).
	Ended *EndedJob
	// Key is the id as a string, the key of the row.
	Key string
	// Due is derived: the lease's due time in the timers.
	Due rota.Clock
	// Implied reports that the operation being applied shows that its handler began: it completes or fails a lease that
	// was not acknowledged. Such a lease ends with that operation.
	Implied bool
}

// MaxRuntime returns the attempt's timeout in ms, 0 for none.
func (r *LeaseRow) MaxRuntime() int64 {
	if r.EndsBy == 0 {
		return 0
	}
	return int64(r.EndsBy - r.Started.Clock)
}

// Used returns what an attempt that ends has used of a cost: what it reported, or else its estimate, or nothing if its
// handler never began: it was not acknowledged, and did not fail.
func (r *LeaseRow) Used(unit string, estimate int64) int64 {
	used, reported := r.Spent[unit]
	switch {
	case reported:
		return used
	case r.Acked.IsZero() && !r.Implied:
		return 0
	}
	return estimate
}

// Canonical appends the canonical form for digests and snapshots.
func (r *LeaseRow) Canonical(e *Encoder) {
	e.B = append(e.B, r.ID[:]...)
	e.token(r.Token)
	e.Str(string(r.Job))
	e.Str(string(r.Worker))
	e.Uint(uint64(r.Session))
	e.Int(int64(r.Attempt))
	e.Uint(uint64(r.State))
	e.Moment(r.Started)
	e.Int(int64(r.AckBy.Clock))
	e.Moment(r.Acked)
	e.Int(int64(r.RenewBy.Clock))
	e.Int(int64(r.Deadline.Clock))
	e.Int(int64(r.Renewals))
	e.Uint(uint64(r.Revoked))
	encodeDecision(e, &r.Decision)
	e.Str(string(r.Queue))
	e.Str(string(r.Tenant))
	e.Int(r.CPU)
	e.Int(r.Memory)
	e.Int(r.IO)
	e.Str(r.Domain)
	e.Str(string(r.Typ))
	e.Int(int64(r.EndsBy))
	e.Int(int64(r.SilentSince))
	e.Int(r.Grace)
	e.Uint(uint64(r.Index))
	estimated := r.Ended != nil && len(r.Ended.Spec.Costs) > 0
	if r.Ended != nil || len(r.Spent) > 0 { // never under rules version 1
		e.flags(r.Ended != nil, len(r.Spent) > 0, estimated)
		r.canonicalEnded(e)
		if len(r.Spent) > 0 {
			encodeLimits(e, r.Spent)
		}
		if estimated {
			encodeLimits(e, r.Ended.Spec.Costs)
		}
	}
}

// Takes returns what the lease uses of its worker.
func (r *LeaseRow) Takes() sched.Load { return sched.Load{CPU: r.CPU, Memory: r.Memory, IO: r.IO} }

// DecodeLease reads what Canonical wrote.
func DecodeLease(d *Decoder) *LeaseRow {
	r := &LeaseRow{}
	r.ID = d.leaseID()
	r.Key = string(r.ID[:])
	r.Token = d.token()
	r.Job = rota.JobID(d.Str())
	r.Worker = rota.WorkerID(d.Str())
	r.Session = rota.Session(d.Uint())
	r.Attempt = int32(d.Int())
	r.State = rota.LeaseState(d.Enum(uint64(rota.LeaseRenewed)))
	r.Started = d.Moment()
	r.AckBy.Clock = rota.Clock(d.Int())
	r.Acked = d.Moment()
	r.RenewBy.Clock = rota.Clock(d.Int())
	r.Deadline.Clock = rota.Clock(d.Int())
	r.Renewals = int32(d.Int())
	r.Revoked = rota.Reason(d.Enum(uint64(rota.ReasonLast)))
	r.Decision = decodeDecision(d)
	r.Queue = rota.QueueName(d.Str())
	r.Tenant = rota.TenantID(d.Str())
	r.CPU = d.Int()
	r.Memory = d.Int()
	r.IO = d.Int()
	r.Domain = d.Str()
	r.Typ = rota.JobType(d.Str())
	r.EndsBy = rota.Clock(d.Int())
	r.SilentSince = rota.Clock(d.Int())
	r.Grace = d.Int()
	r.Index = rota.Index(d.Uint())
	if len(d.B) > 0 {
		var set [3]bool
		if d.flags(set[:]); set[0] {
			r.decodeEnded(d)
		}
		if set[1] {
			r.Spent = decodeSpent(d)
		}
		switch {
		case set[2] && r.Ended == nil:
			d.Fail()
		case set[2]:
			r.Ended.Spec.Costs = decodeSpent(d)
		}
		if !set[0] && len(r.Spent) == 0 {
			d.Fail()
		}
	}
	return r
}

// Streak counts a worker's consecutive failures of a type, in queues that cool workers down (SPEC §16.1).
type Streak struct {
	Typ rota.JobType
	N   int64
}

// TreeKey returns the row's key in its table.
func (r *JobRow) TreeKey() rota.JobID { return r.Spec.ID }

// TreeKey returns the row's key in its table.
func (r *LeaseRow) TreeKey() string { return r.Key }

// TreeKey returns the row's key in its table.
func (r *WorkerRow) TreeKey() rota.WorkerID { return r.Spec.ID }

// TreeKey returns the row's key in its table.
func (r *QueueRow) TreeKey() rota.QueueName { return r.Name }

// TreeKey returns the row's key in its table.
func (r *NodeRow) TreeKey() rota.NodeID { return r.ID }

// TreeKey returns the row's key in its table.
func (r *HoldRow) TreeKey() rota.JobID { return r.Job }

// TreeKey returns the row's key in its table.
func (r *TenantRow) TreeKey() rota.TenantID { return r.ID }

// TreeKey returns the row's key in its table.
func (r *LimiterRow) TreeKey() string { return r.Key }

// TreeKey returns the row's key in its table.
func (r *DomainRow) TreeKey() string { return r.Key }

// TreeKey returns the row's key in its table.
func (r *TypeRow) TreeKey() rota.JobType { return r.Typ }

// TreeKey returns the row's key in its table.
func (r *WorkflowRow) TreeKey() rota.WorkflowID { return r.ID }

// TreeKey returns the row's key in its table.
func (r *VertexRow) TreeKey() string { return r.Key }

// TreeKey returns the row's key in its table.
func (r *RoleRow) TreeKey() RoleName { return RoleName(r.Name) }

// TreeKey returns the row's key in its table.
func (r *TokenRow) TreeKey() TokenID { return TokenID(r.ID) }

// TreeKey returns the row's key in its table.
func (r *BlockRow) TreeKey() BlockKey { return r.Key }

// TreeKey returns the row's key in its table.
func (r *IssuerRow) TreeKey() string { return r.URL }

// TreeKey returns the row's key in its table.
func (r *SpentRow) TreeKey() string { return string(r.Hash[:]) }

// TreeKey returns the row's key in its table.
func (r *DeletedRow) TreeKey() string { return DeletedKey(r.To) }

// ExpectedTime is how long jobs of a type should take according to the owner of their queue.
type ExpectedTime struct {
	Typ rota.JobType
	Ms  int64
}

// CompareExpected orders expected times by job type, for binary search.
func CompareExpected(x ExpectedTime, typ rota.JobType) int { return cmp.Compare(x.Typ, typ) }

// OpenLeases returns a worker's lease ids, sorted. Ending a lease changes the set.
func (r *WorkerRow) OpenLeases() []string { return slices.Sorted(maps.Keys(r.Leases)) }

// DeletedRow is a range of numbers of ended jobs that were deleted (SPEC §21.3): no archive shows them again. Ranges
// neither overlap nor touch.
type DeletedRow struct {
	RowMeta
	From, To uint64
}

// DeletedKey returns a key that orders ranges by their last number.
func DeletedKey(to uint64) string { return string(binary.BigEndian.AppendUint64(nil, to)) }

// Canonical appends the canonical form for digests and snapshots.
func (r *DeletedRow) Canonical(e *Encoder) {
	e.Uint(r.From)
	e.Uint(r.To)
}

// The owners that the tally counts rows for, and the size of the data that rows store as a hash.

func (r *JobRow) owner() (rota.QueueName, rota.TenantID) { return r.Spec.Queue, r.Spec.Tenant }

// Besides returns the size of the data that the row stores as a hash.
func (r *JobRow) Besides() int64 { return r.Spec.Bytes() }

func (r *VertexRow) owner() (rota.QueueName, rota.TenantID) { return r.Spec.Queue, r.Spec.Tenant }

// Besides returns the size of the data that the row stores as a hash.
func (r *VertexRow) Besides() int64 { return int64(r.ShapeBytes) }

func (r *WorkflowRow) owner() (rota.QueueName, rota.TenantID) { return r.Queue, r.Tenant }

// Besides returns the size of the data that the row stores as a hash.
func (r *WorkflowRow) Besides() int64 { return 0 }

func (r *WorkerRow) owner() (rota.QueueName, rota.TenantID) { return "", "" }

// Besides returns the size of the data that the row stores as a hash.
func (r *WorkerRow) Besides() int64 { return 0 }

func (r *QueueRow) owner() (rota.QueueName, rota.TenantID) { return r.Name, "" }

// Besides returns the size of the data that the row stores as a hash.
func (r *QueueRow) Besides() int64 { return 0 }

func (r *TenantRow) owner() (rota.QueueName, rota.TenantID) { return "", r.ID }

// Besides returns the size of the data that the row stores as a hash.
func (r *TenantRow) Besides() int64 { return 0 }

// EndedJob is what a lease keeps of its job once the job has ended.
type EndedJob struct {
	// Spec holds only the id, the queue, the tenant, the type, the keys and the costs.
	Spec rota.JobSpec
	// Unique is the key that the job held while it ran, zero if none.
	Unique UniqueKey
	// Alone reports that it ran alone on its worker, which accepts no other lease until this one ends (SPEC §9.7).
	Alone bool
}

func (r *LeaseRow) canonicalEnded(e *Encoder) {
	if r.Ended != nil {
		e.strs(r.Ended.Spec.Keys)
		e.B = append(e.B, r.Ended.Unique[:]...)
		e.Bool(r.Ended.Alone)
	}
}

func (r *LeaseRow) decodeEnded(d *Decoder) {
	r.Ended = &EndedJob{Spec: rota.JobSpec{ID: r.Job, Queue: r.Queue, Tenant: r.Tenant, Type: r.Typ, Keys: d.strs()}}
	copy(r.Ended.Unique[:], d.raw(uint64(len(r.Ended.Unique))))
	r.Ended.Alone = d.Bool()
	if len(r.Ended.Spec.Keys) > rota.MaxKeys || r.Revoked == rota.ReasonNone {
		d.Fail()
	}
}
