package fsm

import (
	"maps"
	"slices"

	"github.com/rotasched/rota"
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
	tagMeter
	tagDomain
	tagType
)

// jobRow is one live job.
type jobRow struct {
	rowMeta
	// spec never changes; specHash stands for it in the row's canonical bytes.
	spec     *rota.JobSpec
	specHash rota.Digest

	state    rota.JobState
	attempt  int32
	declines int32
	// seq numbers submissions: log order.
	seq        uint64
	submitted  rota.Clock
	enqueued   rota.Clock
	firstLease rota.Clock
	// due is when a DELAYED job wakes, on the cluster clock; dueDate when that
	// has passed and a date is still to come.
	due           rota.Clock
	dueDate       rota.Date
	submittedDate rota.Date
	// expireAbs and expireRel are the moments of SPEC §9.3, 0 for never.
	expireAbs rota.Clock
	expireRel rota.Clock
	// lease is the open lease's id. Invariant I1: set exactly when state.Leased().
	lease      rota.LeaseID
	lastReason rota.Reason
	lastError  string
	progress   int32
	note       string
	progressAt rota.Clock
	// attempts are those that ended, the newest MaxAttemptsKept.
	attempts []rota.Attempt
	// queuedAt is since when it waits to be placed, for SPEC §7.8: the clock at which
	// it last became QUEUED, or at which a hold of it ended without effect.
	queuedAt rota.Clock
	// tier is where it stands in an adaptive queue, since tierAt, in log order by
	// tierSeq (SPEC §10.2); all 0 until it is first QUEUED.
	tier    int32
	tierAt  rota.Clock
	tierSeq uint64
	// preempted counts how often it gave way (SPEC §7.9).
	preempted int32
	// lastEvent is the newest event about it, the parent of the next (SPEC §12.1).
	lastEvent rota.EventID
	// prior numbers the end of its life before a retry, 0 for none: by it the record
	// of that life is found.
	prior uint64

	// class and item are derived: rebuilt on restore, no part of the encoding.
	class sched.ClassID
	item  *sched.Item
}

func (r *jobRow) canonical(e *encoder) {
	e.str(string(r.spec.ID))
	e.digest(r.specHash)
	e.uint(uint64(r.state))
	e.int(int64(r.attempt))
	e.int(int64(r.declines))
	e.uint(r.seq)
	e.int(int64(r.submitted))
	e.int(int64(r.enqueued))
	e.int(int64(r.firstLease))
	e.int(int64(r.due))
	e.int(int64(r.dueDate))
	e.int(int64(r.submittedDate))
	e.int(int64(r.expireAbs))
	e.int(int64(r.expireRel))
	e.b = append(e.b, r.lease[:]...)
	e.uint(uint64(r.lastReason))
	e.str(r.lastError)
	e.int(int64(r.progress))
	e.str(r.note)
	e.int(int64(r.progressAt))
	encodeAttempts(e, r.attempts)
	e.int(int64(r.queuedAt))
	e.int(int64(r.tier))
	e.int(int64(r.tierAt))
	e.uint(r.tierSeq)
	e.int(int64(r.preempted))
	e.eventID(r.lastEvent)
	e.uint(r.prior)
}

func decodeJob(d *decoder) *jobRow {
	r := &jobRow{spec: decodeSpec(d)}
	r.specHash = hashSpec(&encoder{b: make([]byte, 0, 256+len(r.spec.Payload))}, r.spec)
	if d.str() != string(r.spec.ID) || d.digest() != r.specHash {
		d.fail()
	}
	r.state = rota.JobState(d.enum(uint64(rota.Running)))
	r.attempt = int32(d.int())
	r.declines = int32(d.int())
	r.seq = d.uint()
	r.submitted = rota.Clock(d.int())
	r.enqueued = rota.Clock(d.int())
	r.firstLease = rota.Clock(d.int())
	r.due = rota.Clock(d.int())
	r.dueDate = rota.Date(d.int())
	r.submittedDate = rota.Date(d.int())
	r.expireAbs = rota.Clock(d.int())
	r.expireRel = rota.Clock(d.int())
	r.lease = d.leaseID()
	r.lastReason = rota.Reason(d.enum(uint64(rota.ProofRejected)))
	r.lastError = d.str()
	r.progress = int32(d.int())
	r.note = d.str()
	r.progressAt = rota.Clock(d.int())
	r.attempts = decodeAttempts(d)
	r.queuedAt = rota.Clock(d.int())
	r.tier = int32(d.int())
	r.tierAt = rota.Clock(d.int())
	r.tierSeq = d.uint()
	r.preempted = int32(d.int())
	r.lastEvent = d.eventID()
	r.prior = d.uint()
	return r
}

func encodeSpec(e *encoder, s *rota.JobSpec) {
	e.str(string(s.ID))
	e.str(string(s.Queue))
	e.str(string(s.Type))
	e.str(string(s.Tenant))
	e.int(int64(s.Priority))
	e.int(s.Fee)
	e.int(s.SizeBytes)
	e.bytes(s.Payload)
	e.int(s.DelayMs)
	e.int(int64(s.NotBefore))
	e.int(s.TTLMs)
	e.int(s.MaxRuntimeMs)
	e.int(s.CPUMilli)
	e.int(s.MemoryBytes)
	e.strs(s.Requires)
	e.strs(s.RegionsAllow)
	e.strs(s.RegionsDeny)
	e.str(s.Zone)
	e.str(s.Domain)
	e.str(string(s.Worker))
	e.bytes(s.ExpectedDigest)
	e.int(s.SimulateMs)
	e.int(s.Units)
	e.uint(uint64(len(s.Labels)))
	if len(s.Labels) > 0 {
		for _, k := range slices.Sorted(maps.Keys(s.Labels)) {
			e.str(k)
			e.str(s.Labels[k])
		}
	}
	encodeLimits(e, s.Limits)
	e.int(s.ExpectedMs)
	e.bool(s.RetryOnInvalidProof)
	e.strs(s.DataKeys)
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

func decodeSpec(d *decoder) *rota.JobSpec {
	s := &rota.JobSpec{}
	s.ID = rota.JobID(d.str())
	s.Queue = rota.QueueName(d.str())
	s.Type = rota.JobType(d.str())
	s.Tenant = rota.TenantID(d.str())
	s.Priority = int32(d.int())
	s.Fee = d.int()
	s.SizeBytes = d.int()
	s.Payload = d.bytes()
	s.DelayMs = d.int()
	s.NotBefore = rota.Date(d.int())
	s.TTLMs = d.int()
	s.MaxRuntimeMs = d.int()
	s.CPUMilli = d.int()
	s.MemoryBytes = d.int()
	s.Requires = d.strs()
	s.RegionsAllow = d.strs()
	s.RegionsDeny = d.strs()
	s.Zone = d.str()
	s.Domain = d.str()
	s.Worker = rota.WorkerID(d.str())
	s.ExpectedDigest = d.bytes()
	s.SimulateMs = d.int()
	s.Units = d.int()
	if n := d.uint(); n > 0 && n <= rota.MaxLabels {
		s.Labels = make(map[string]string, n)
		for range n {
			k := d.str()
			s.Labels[k] = d.str()
		}
	} else if n > rota.MaxLabels {
		d.fail()
	}
	s.Limits = decodeLimits(d)
	s.ExpectedMs = d.int()
	s.RetryOnInvalidProof = d.bool()
	s.DataKeys = d.strs()
	return s
}

// hashSpec stands for a spec in its job's row; e is the caller's, to write over.
func hashSpec(e *encoder, s *rota.JobSpec) rota.Digest {
	e.b = e.b[:0]
	encodeSpec(e, s)
	return hashBytes(e.b)
}

func encodeAttempts(e *encoder, attempts []rota.Attempt) {
	e.uint(uint64(len(attempts)))
	for i := range attempts {
		a := &attempts[i]
		e.int(int64(a.Number))
		e.str(string(a.Worker))
		e.b = append(e.b, a.Lease[:]...)
		e.token(a.Token)
		e.int(int64(a.Started))
		e.int(int64(a.Acked))
		e.int(int64(a.Ended))
		e.int(int64(a.Renewals))
		e.uint(uint64(a.End))
		e.str(a.Error)
		encodeDecision(e, &a.Decision)
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
	if n > rota.MaxAttemptsKept {
		d.fail()
		return nil
	}
	var attempts []rota.Attempt
	for range n {
		attempts = append(attempts, rota.Attempt{Number: int32(d.int()), Worker: rota.WorkerID(d.str()),
			Lease: d.leaseID(), Token: d.token(), Started: rota.Clock(d.int()), Acked: rota.Clock(d.int()),
			Ended: rota.Clock(d.int()), Renewals: int32(d.int()), End: rota.Reason(d.enum(uint64(rota.ProofRejected))), Error: d.str(),
			Decision: decodeDecision(d)})
	}
	return attempts
}

// leaseRow is one open lease; an ended one leaves the table.
type leaseRow struct {
	rowMeta
	rota.Lease
	queue  rota.QueueName
	tenant rota.TenantID
	// cpu and memory are what it takes from its worker; domain and typ are its job's.
	cpu, memory int64
	domain      string
	typ         rota.JobType
	// endsBy bounds all renewals: start + max_runtime; 0 without bound.
	endsBy rota.Clock
	// silentSince is the last sign that its session can have given, once a
	// takeover ended that session; 0 while the session lives.
	silentSince rota.Clock

	// due is derived: where the lease stands in the timers.
	due rota.Clock
	// implied says that its completion acknowledges it, in the operation that is
	// being applied; such a lease is over at the end of it.
	implied bool
}

func (r *leaseRow) canonical(e *encoder) {
	e.b = append(e.b, r.ID[:]...)
	e.token(r.Token)
	e.str(string(r.Job))
	e.str(string(r.Worker))
	e.uint(uint64(r.Session))
	e.int(int64(r.Attempt))
	e.uint(uint64(r.State))
	e.int(int64(r.Started))
	e.int(int64(r.AckBy))
	e.int(int64(r.Acked))
	e.int(int64(r.RenewBy))
	e.int(int64(r.Deadline))
	e.int(int64(r.Renewals))
	e.uint(uint64(r.Revoked))
	encodeDecision(e, &r.Decision)
	e.str(string(r.queue))
	e.str(string(r.tenant))
	e.int(r.cpu)
	e.int(r.memory)
	e.str(r.domain)
	e.str(string(r.typ))
	e.int(int64(r.endsBy))
	e.int(int64(r.silentSince))
}

func decodeLease(d *decoder) *leaseRow {
	r := &leaseRow{}
	r.ID = d.leaseID()
	r.Token = d.token()
	r.Job = rota.JobID(d.str())
	r.Worker = rota.WorkerID(d.str())
	r.Session = rota.Session(d.uint())
	r.Attempt = int32(d.int())
	r.State = rota.LeaseState(d.enum(uint64(rota.LeaseRenewed)))
	r.Started = rota.Clock(d.int())
	r.AckBy = rota.Clock(d.int())
	r.Acked = rota.Clock(d.int())
	r.RenewBy = rota.Clock(d.int())
	r.Deadline = rota.Clock(d.int())
	r.Renewals = int32(d.int())
	r.Revoked = rota.Reason(d.enum(uint64(rota.ProofRejected)))
	r.Decision = decodeDecision(d)
	r.queue = rota.QueueName(d.str())
	r.tenant = rota.TenantID(d.str())
	r.cpu = d.int()
	r.memory = d.int()
	r.domain = d.str()
	r.typ = rota.JobType(d.str())
	r.endsBy = rota.Clock(d.int())
	r.silentSince = rota.Clock(d.int())
	return r
}
