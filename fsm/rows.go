package fsm

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
)

// The tags of the tables: the first byte of what a row's hash is made of, and
// the record kind in snapshots. Append only.
const (
	tagHeader byte = iota + 1
	tagJob
	tagLease
	tagWorker
	tagQueue
	tagTomb
	tagNode
	tagRecord
	tagHold
	tagTenant
	tagLimiter
	tagDomain
	tagType
	tagWorkflow
	tagVertex
	tagDeleted
	tagRole
	tagToken
	tagBlock
	tagIssuer
	tagSpent
	tagBackup
	tagUnique
	tagMerged
	tagKeyRule
	tagKeyCount
	tagSchedule
	tagPlan
	tagBatch
	tagWebhook
	tagEstimate
	tagTZData
)

func encodePairs(e *encoder, pairs map[string]string) {
	e.uint(uint64(len(pairs)))
	if len(pairs) == 0 {
		return
	}
	for _, k := range slices.Sorted(maps.Keys(pairs)) {
		e.str(k)
		e.str(pairs[k])
	}
}

func decodePairs(d *decoder) map[string]string {
	n := d.count(rota.MaxLabels)
	if n == 0 {
		return nil
	}
	pairs := make(map[string]string, n)
	for range n {
		k := d.str()
		pairs[k] = d.str()
	}
	return pairs
}

func encodeLimits(e *encoder, limits map[string]int64) {
	e.uint(uint64(len(limits)))
	if len(limits) == 0 {
		return
	}
	for _, k := range slices.Sorted(maps.Keys(limits)) {
		e.str(k)
		e.int(limits[k])
	}
}

func decodeLimits(d *decoder) map[string]int64 {
	n := d.uint()
	if n > rota.MaxLimits {
		d.fail()
	}
	if n == 0 || d.err != nil {
		return nil
	}
	limits := make(map[string]int64, n)
	for range n {
		k := d.str()
		limits[k] = d.int()
	}
	return limits
}

func encodeAttempts(e *encoder, attempts []rota.Attempt) {
	e.uint(uint64(len(attempts)))
	for i := range attempts {
		a := &attempts[i]
		e.int(int64(a.Number))
		e.int(int64(a.Life))
		e.str(string(a.Worker))
		e.b = append(e.b, a.Lease[:]...)
		e.token(a.Token)
		e.moment(a.Started)
		e.moment(a.Acked)
		e.moment(a.Ended)
		e.int(int64(a.Renewals))
		e.uint(uint64(a.End))
		e.str(a.Error)
		encodeDecision(e, &a.Decision)
		e.bool(a.Log)
	}
}

func encodeDecision(e *encoder, x *rota.Decision) {
	e.uint(x.Epoch)
	e.uint(uint64(x.Height))
	e.int(int64(x.Score))
	e.int(int64(x.Rank))
	e.uint(uint64(x.Reasoning.Rule))
	e.int(x.Reasoning.N)
	e.int(x.Reasoning.Of)
	e.bytes(x.Seed)
}

func decodeDecision(d *decoder) rota.Decision {
	return rota.Decision{Epoch: d.uint(), Height: rota.Index(d.uint()), Score: rota.Score(d.int()), Rank: int32(d.int()),
		Reasoning: rota.Reasoning{Rule: rota.ReasoningRule(d.uint()), N: d.int(), Of: d.int()}, Seed: d.bytes()}
}

func decodeAttempts(d *decoder) []rota.Attempt {
	n := d.uint()
	if n > limits.MaxAttemptsKept {
		d.fail()
		return nil
	}
	var attempts []rota.Attempt
	for range n {
		attempts = append(attempts, rota.Attempt{Number: int32(d.int()), Life: int32(d.int()), Worker: rota.WorkerID(d.str()),
			Lease: d.leaseID(), Token: d.token(), Started: d.moment(), Acked: d.moment(),
			Ended: d.moment(), Renewals: int32(d.int()), End: rota.Reason(d.enum(uint64(rota.ReasonLast))), Error: d.str(),
			Decision: decodeDecision(d), Log: d.bool()})
	}
	return attempts
}

// leaseRow is one open lease; an ended one leaves the table. What is to come of it
// (AckBy, RenewBy, Deadline) has no date here: words tells it.
type leaseRow struct {
	rowMeta
	rota.Lease
	queue  rota.QueueName
	tenant rota.TenantID
	// cpu, memory and io are what it takes from its worker; domain and typ are its job's.
	cpu, memory, io int64
	domain          string
	typ             rota.JobType
	// endsBy is when the attempt times out: start + max_runtime; 0 for never.
	endsBy rota.Clock
	// silentSince is the last sign that its session can have given, once a
	// takeover ended that session; 0 while the session lives.
	silentSince rota.Clock
	// grace is how long it outlives its worker's broken stream in ms, 0 for as long as its
	// silence (SPEC §16.7).
	grace int64
	// index is that of the entry that opened it.
	index rota.Index
	// ended is what is kept of its job once that has ended without it, nil while the job lives (SPEC §8.8).
	ended *endedJob
	// key is the id as a string, by which the row is found.
	key string
	// due is derived: where the lease stands in the timers.
	due rota.Clock
	// implied says that its completion acknowledges it, in the operation that is
	// being applied; such a lease is over at the end of it.
	implied bool
}

// maxRuntime is the attempt's timeout in ms, 0 for none.
func (r *leaseRow) maxRuntime() int64 {
	if r.endsBy == 0 {
		return 0
	}
	return int64(r.endsBy - r.Started.Clock)
}

func (r *leaseRow) canonical(e *encoder) {
	e.b = append(e.b, r.ID[:]...)
	e.token(r.Token)
	e.str(string(r.Job))
	e.str(string(r.Worker))
	e.uint(uint64(r.Session))
	e.int(int64(r.Attempt))
	e.uint(uint64(r.State))
	e.moment(r.Started)
	e.int(int64(r.AckBy.Clock))
	e.moment(r.Acked)
	e.int(int64(r.RenewBy.Clock))
	e.int(int64(r.Deadline.Clock))
	e.int(int64(r.Renewals))
	e.uint(uint64(r.Revoked))
	encodeDecision(e, &r.Decision)
	e.str(string(r.queue))
	e.str(string(r.tenant))
	e.int(r.cpu)
	e.int(r.memory)
	e.int(r.io)
	e.str(r.domain)
	e.str(string(r.typ))
	e.int(int64(r.endsBy))
	e.int(int64(r.silentSince))
	e.int(r.grace)
	e.uint(uint64(r.index))
	r.canonicalEnded(e)
}

// takes is what the lease takes of its worker.
func (r *leaseRow) takes() sched.Load { return sched.Load{CPU: r.cpu, Memory: r.memory, IO: r.io} }

func decodeLease(d *decoder) *leaseRow {
	r := &leaseRow{}
	r.ID = d.leaseID()
	r.key = string(r.ID[:])
	r.Token = d.token()
	r.Job = rota.JobID(d.str())
	r.Worker = rota.WorkerID(d.str())
	r.Session = rota.Session(d.uint())
	r.Attempt = int32(d.int())
	r.State = rota.LeaseState(d.enum(uint64(rota.LeaseRenewed)))
	r.Started = d.moment()
	r.AckBy.Clock = rota.Clock(d.int())
	r.Acked = d.moment()
	r.RenewBy.Clock = rota.Clock(d.int())
	r.Deadline.Clock = rota.Clock(d.int())
	r.Renewals = int32(d.int())
	r.Revoked = rota.Reason(d.enum(uint64(rota.ReasonLast)))
	r.Decision = decodeDecision(d)
	r.queue = rota.QueueName(d.str())
	r.tenant = rota.TenantID(d.str())
	r.cpu = d.int()
	r.memory = d.int()
	r.io = d.int()
	r.domain = d.str()
	r.typ = rota.JobType(d.str())
	r.endsBy = rota.Clock(d.int())
	r.silentSince = rota.Clock(d.int())
	r.grace = d.int()
	r.index = rota.Index(d.uint())
	r.decodeEnded(d)
	return r
}

// streak counts a worker's failures in a row of a type, in queues that cool workers
// down (SPEC §16.1).
type streak struct {
	typ rota.JobType
	n   int64
}

func (r *jobRow) TreeKey() rota.JobID { return r.spec.ID }

func (r *leaseRow) TreeKey() string { return r.key }

func (r *workerRow) TreeKey() rota.WorkerID { return r.spec.ID }

func (r *queueRow) TreeKey() rota.QueueName { return r.name }

func (r *nodeRow) TreeKey() rota.NodeID { return r.id }

func (r *holdRow) TreeKey() rota.JobID { return r.job }

func (r *tenantRow) TreeKey() rota.TenantID { return r.id }

func (r *limiterRow) TreeKey() string { return r.key }

func (r *domainRow) TreeKey() string { return r.key }

func (r *typeRow) TreeKey() rota.JobType { return r.typ }

func (r *workflowRow) TreeKey() rota.WorkflowID { return r.id }

func (r *vertexRow) TreeKey() string { return r.key }

func (r *roleRow) TreeKey() roleName { return roleName(r.Name) }

func (r *tokenRow) TreeKey() tokenID { return tokenID(r.ID) }

func (r *blockRow) TreeKey() blockKey { return r.key }

func (r *issuerRow) TreeKey() string { return r.URL }

func (r *spentRow) TreeKey() string { return string(r.hash[:]) }

func (r *deletedRow) TreeKey() string { return deletedKey(r.to) }

// expectedTime is how long jobs of a type should take, as the owner of their queue says.
type expectedTime struct {
	typ rota.JobType
	ms  int64
}

func compareExpected(x expectedTime, typ rota.JobType) int { return cmp.Compare(x.typ, typ) }

// openLeases lists a worker's lease ids in their order; what ends a lease changes the set.
func (r *workerRow) openLeases() []string { return slices.Sorted(maps.Keys(r.leases)) }

// deletedRow is a range of numbers of ended jobs that were deleted (SPEC §21.3): no archive
// shows them again. Ranges neither overlap nor touch.
type deletedRow struct {
	rowMeta
	from, to uint64
}

// deletedKey orders ranges by their last number.
func deletedKey(to uint64) string { return string(binary.BigEndian.AppendUint64(nil, to)) }

func (r *deletedRow) canonical(e *encoder) {
	e.uint(r.from)
	e.uint(r.to)
}

// What the tally counts is of these owners; what a row says besides it stands for by a hash.

func (r *jobRow) owner() (rota.QueueName, rota.TenantID) { return r.spec.Queue, r.spec.Tenant }
func (r *jobRow) besides() int64                         { return r.spec.bytes() }

func (r *vertexRow) owner() (rota.QueueName, rota.TenantID) { return r.spec.Queue, r.spec.Tenant }
func (r *vertexRow) besides() int64                         { return int64(r.shapeBytes) }

func (r *workflowRow) owner() (rota.QueueName, rota.TenantID) { return r.queue, r.tenant }
func (r *workflowRow) besides() int64                         { return 0 }

func (r *workerRow) owner() (rota.QueueName, rota.TenantID) { return "", "" }
func (r *workerRow) besides() int64                         { return 0 }

func (r *queueRow) owner() (rota.QueueName, rota.TenantID) { return r.name, "" }
func (r *queueRow) besides() int64                         { return 0 }

func (r *tenantRow) owner() (rota.QueueName, rota.TenantID) { return "", r.id }
func (r *tenantRow) besides() int64                         { return 0 }

// endedJob is what a lease keeps of its job once that has ended.
type endedJob struct {
	// spec has the id, the queue, the tenant, the type and the keys, and nothing else.
	spec rota.JobSpec
	// unique is the key that the job held while it ran, zero where it held none.
	unique uniqueKey
	// alone reports that it ran alone on its worker, which takes no other lease until this one ends (SPEC §9.7).
	alone bool
}

func (r *leaseRow) canonicalEnded(e *encoder) {
	if r.ended != nil { // never under rules version 1
		e.strs(r.ended.spec.Keys)
		e.b = append(e.b, r.ended.unique[:]...)
		e.bool(r.ended.alone)
	}
}

func (r *leaseRow) decodeEnded(d *decoder) {
	if len(d.b) == 0 {
		return
	}
	r.ended = &endedJob{spec: rota.JobSpec{ID: r.Job, Queue: r.queue, Tenant: r.tenant, Type: r.typ, Keys: d.strs()}}
	copy(r.ended.unique[:], d.raw(uint64(len(r.ended.unique))))
	r.ended.alone = d.bool()
	if len(r.ended.spec.Keys) > rota.MaxKeys || r.Revoked == rota.ReasonNone {
		d.fail()
	}
}
