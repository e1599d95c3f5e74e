package fsm

import (
	"bytes"

	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/entry"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/sched"
	"github.com/zeebo/xxh3"
)

func hashBytes(b []byte) rota.Digest {
	h := xxh3.Hash128(b)
	return rota.Digest{Hi: h.Hi, Lo: h.Lo}
}

// workerRow is one registered worker.
type workerRow struct {
	rowMeta
	spec *rota.WorkerSpec
	// secretHash is SHA-256 of the worker's secret (SPEC §6.4).
	secretHash [32]byte
	// by is who registered it, by whose grants it works; nobody once that credential counts
	// no more, and "" where no caller was.
	by     rota.Principal
	status rota.WorkerStatus
	// before is the status to go back to from UNREACHABLE and JAILED, ACTIVE or
	// DRAINING; and SUSPENDED of a RETIRED worker that was so when it retired.
	before rota.WorkerStatus
	// dismissed says that an operator retired it: nothing with its secret is taken while its id is known.
	dismissed bool
	session   rota.Session
	since     rota.Moment
	// silentSince is the last sign; only while UNREACHABLE.
	silentSince rota.Moment
	// connection numbers its newest connection, 0 where it numbers none; grace says that
	// it keeps SPEC §16.7; disconnected is since when its stream is taken for broken.
	connection   uint64
	grace        bool
	disconnected rota.Moment
	// polls says that it takes leases only as it offers (SPEC §13.17): free more until a moment of
	// the clock, 0 of both at rest. poll is the newest poll that was heard of.
	polls       bool
	poll        uint64
	free        int32
	offersUntil rota.Clock
	// open, cpu, memory and io are what its leases take. Invariants I3, I4.
	open            int32
	cpu, memory, io int64
	// health is permille at healthAt; it grows by 1 a second since (SPEC §6.2).
	health   int32
	healthAt rota.Clock
	// slashed is off the attested stake for good; invalidProofs counts why.
	slashed       int64
	invalidProofs int32
	// jailedUntil ends JAILED.
	jailedUntil rota.Clock
	// failing counts failures in a row by type, of the types that failed last, oldest
	// first.
	failing []streak
	// attestedUntil is the expiry of its attestation, 0 for none; lapsed says that a
	// sweep saw it pass. attestedStake is what the last one signed.
	attestedUntil rota.Date
	attestedStake int64
	lapsed        bool
	// cooling and denied types, oldest first; what is over leaves at the next sweep.
	cooling []rota.TypeUntil
	denied  []rota.TypeUntil
	// units it used in periods that are not over, by queue name.
	units []rota.UnitsUsed
	// executed are the types that it completed last, oldest first (see executes).
	executed []rota.JobType
	// held are the data keys of the jobs that it completed last, oldest first: it is
	// likely to have that data at hand still (SPEC §7.6).
	held      []string
	assigned  uint64
	completed uint64
	failed    uint64
	// sinceTurn counts the leases received since its last turn of the oldest, and
	// what that turn left over (SPEC §7.10).
	sinceTurn uint64

	// grants are the tenants that by may work for in its queues; derived.
	grants *sched.Grants
	// leases are the open ones' ids; derived, shared by all copies of the row.
	leases map[string]struct{}
	// reputationDue, attestDue and forgetDue are derived: where the worker stands in the
	// timers of reputation, of attestations, and of those that leave the state.
	reputationDue rota.Clock
	attestDue     rota.Date
	forgetDue     int64
}

func (r *workerRow) canonical(e *encoder) {
	s := r.spec
	e.str(string(s.ID))
	e.uint(uint64(len(s.Queues)))
	for _, q := range s.Queues {
		e.str(string(q))
	}
	e.int(int64(s.Slots))
	e.int(int64(s.Prefetch))
	e.str(s.Region)
	e.str(s.Zone)
	e.strs(s.Capabilities)
	e.int(s.CPUMilli)
	e.int(s.MemoryBytes)
	e.int(s.IOBytesPerS)
	e.int(s.Stake)
	encodeLimits(e, s.Limits)
	e.uint(uint64(len(s.Types)))
	for _, typ := range s.Types {
		e.str(string(typ))
	}
	e.b = append(e.b, r.secretHash[:]...)
	e.str(string(r.by))
	e.uint(uint64(r.status))
	e.uint(uint64(r.before))
	e.bool(r.dismissed)
	e.uint(uint64(r.session))
	e.moment(r.since)
	e.moment(r.silentSince)
	e.uint(r.connection)
	e.bool(r.grace)
	e.moment(r.disconnected)
	e.bool(r.polls)
	e.uint(r.poll)
	e.int(int64(r.free))
	e.int(int64(r.offersUntil))
	e.int(int64(r.open))
	e.int(r.cpu)
	e.int(r.memory)
	e.int(r.io)
	e.int(int64(r.health))
	e.int(int64(r.healthAt))
	e.int(r.slashed)
	e.int(int64(r.invalidProofs))
	e.int(int64(r.jailedUntil))
	e.uint(uint64(len(r.failing)))
	for _, s := range r.failing {
		e.str(string(s.typ))
		e.int(s.n)
	}
	e.int(int64(r.attestedUntil))
	e.int(r.attestedStake)
	e.bool(r.lapsed)
	encodeTypesUntil(e, r.cooling)
	encodeTypesUntil(e, r.denied)
	e.uint(uint64(len(r.units)))
	for _, u := range r.units {
		e.str(string(u.Queue))
		e.moment(u.Since)
		e.int(int64(u.Until.Clock))
		e.int(u.Used)
	}
	e.uint(uint64(len(r.executed)))
	for _, t := range r.executed {
		e.str(string(t))
	}
	e.strs(r.held)
	e.uint(r.assigned)
	e.uint(r.completed)
	e.uint(r.failed)
	e.uint(r.sinceTurn)
}

func encodeTypesUntil(e *encoder, list []rota.TypeUntil) {
	e.uint(uint64(len(list)))
	for _, t := range list {
		e.str(string(t.Type))
		e.int(int64(t.Until.Clock))
		e.uint(uint64(t.Cause))
	}
}

func decodeTypesUntil(d *decoder) (list []rota.TypeUntil) {
	for range d.count(limits.MaxTypesPerWorker) {
		list = append(list, rota.TypeUntil{Type: rota.JobType(d.str()), Until: rota.Moment{Clock: rota.Clock(d.int())},
			Cause: rota.Reason(d.enum(uint64(rota.ReasonLast)))})
	}
	return list
}

func decodeWorker(d *decoder) *workerRow {
	s := &rota.WorkerSpec{ID: rota.WorkerID(d.str())}
	for _, q := range d.strs() {
		s.Queues = append(s.Queues, rota.QueueName(q))
	}
	s.Slots = int32(d.int())
	s.Prefetch = int32(d.int())
	s.Region = d.str()
	s.Zone = d.str()
	s.Capabilities = d.strs()
	s.CPUMilli = d.int()
	s.MemoryBytes = d.int()
	s.IOBytesPerS = d.int()
	s.Stake = d.int()
	s.Limits = decodeLimits(d)
	for range d.count(rota.MaxTypesHandled) {
		s.Types = append(s.Types, rota.JobType(d.str()))
	}
	r := &workerRow{spec: s, leases: make(map[string]struct{})}
	copy(r.secretHash[:], d.raw(32))
	r.by = rota.Principal(d.str())
	r.status = rota.WorkerStatus(d.enum(uint64(rota.WorkerUnreachable)))
	r.before = rota.WorkerStatus(d.enum(uint64(rota.WorkerUnreachable)))
	r.dismissed = d.bool()
	r.session = rota.Session(d.uint())
	r.since = d.moment()
	r.silentSince = d.moment()
	r.connection = d.uint()
	r.grace = d.bool()
	r.disconnected = d.moment()
	r.polls = d.bool()
	r.poll = d.uint()
	r.free = int32(d.int())
	r.offersUntil = rota.Clock(d.int())
	r.open = int32(d.int())
	r.cpu = d.int()
	r.memory = d.int()
	r.io = d.int()
	r.health = int32(d.int())
	r.healthAt = rota.Clock(d.int())
	r.slashed = d.int()
	r.invalidProofs = int32(d.int())
	r.jailedUntil = rota.Clock(d.int())
	for range d.count(limits.MaxTypesPerWorker) {
		r.failing = append(r.failing, streak{rota.JobType(d.str()), d.int()})
	}
	r.attestedUntil = rota.Date(d.int())
	r.attestedStake = d.int()
	r.lapsed = d.bool()
	r.cooling = decodeTypesUntil(d)
	r.denied = decodeTypesUntil(d)
	for range d.count(rota.MaxQueuesPerWorker) {
		r.units = append(r.units, rota.UnitsUsed{Queue: rota.QueueName(d.str()), Since: d.moment(),
			Until: rota.Moment{Clock: rota.Clock(d.int())}, Used: d.int()})
	}
	for range d.count(limits.MaxTypesPerWorker) {
		r.executed = append(r.executed, rota.JobType(d.str()))
	}
	if r.held = d.strs(); len(r.held) > limits.MaxDataHeld {
		d.fail()
	}
	r.assigned = d.uint()
	r.completed = d.uint()
	r.failed = d.uint()
	r.sinceTurn = d.uint()
	return r
}

// queueRow is one queue: its policy, its counters, its turn among queues.
type queueRow struct {
	rowMeta
	name   rota.QueueName
	policy rota.QueuePolicy
	// counts by state. Invariant I4: what the job rows say.
	blocked, delayed, queued, assigned, running int64
	// totals since the cluster began.
	submitted, placed, completed, dead, expired, cancelled uint64
	// turn is the count of assignments that SPEC §7.2 orders queues by; it is
	// raised where `placed` is not.
	turn uint64
	// sinceInterleave counts assignments since the last interleaved one (SPEC §5.1).
	sinceInterleave uint64
	// expected are the times that its owner set for types, by type, each once; the list
	// never changes once it stands here.
	expected []expectedTime
	// drainTo is the queue that its jobs move to before it is deleted, "" for none; drainFrom
	// is where the next step looks for them.
	drainTo   rota.QueueName
	drainFrom rota.JobID
	// by is who made it, "" for the cluster itself.
	by rota.Principal
}

// saidPolicy is a policy that was encoded, and its encoding.
type saidPolicy struct {
	policy rota.QueuePolicy
	text   []byte
}

// encodePolicy writes a queue's policy. Its row changes with each of its jobs, the policy hardly ever.
func encodePolicy(e *encoder, p *rota.QueuePolicy) {
	if e.said != nil && e.said.text != nil && e.said.policy == *p {
		e.b = append(e.b, e.said.text...)
		return
	}
	from := len(e.b)
	e.str(p.Preset)
	e.values = p.AppendValues(e.values[:0])
	values := e.values
	e.uint(uint64(len(values)))
	for _, v := range values {
		e.int(v)
	}
	if e.said != nil {
		e.said.policy, e.said.text = *p, append(e.said.text[:0], e.b[from:]...)
	}
}

func encodeExpected(e *encoder, list []expectedTime) {
	e.uint(uint64(len(list)))
	for _, x := range list {
		e.str(string(x.typ))
		e.int(x.ms)
	}
}

// etag is the version of a queue's policy, with its expected times.
func (r *queueRow) etag() string {
	return etagOf(func(e *encoder) {
		encodePolicy(e, &r.policy)
		encodeExpected(e, r.expected)
		e.str(string(r.drainTo))
	})
}

func (r *queueRow) canonical(e *encoder) {
	e.str(string(r.name))
	encodePolicy(e, &r.policy)
	for _, v := range []int64{r.blocked, r.delayed, r.queued, r.assigned, r.running} {
		e.int(v)
	}
	for _, v := range []uint64{r.submitted, r.placed, r.completed, r.dead, r.expired, r.cancelled, r.turn,
		r.sinceInterleave} {
		e.uint(v)
	}
	encodeExpected(e, r.expected)
	e.str(string(r.drainTo))
	e.str(string(r.drainFrom))
	e.str(string(r.by))
}

func decodeQueue(d *decoder) *queueRow {
	r := &queueRow{name: rota.QueueName(d.str())}
	preset := d.str()
	n := d.uint()
	if n > 1000 {
		d.fail()
		return r
	}
	values := make([]int64, n)
	for i := range values {
		values[i] = d.int()
	}
	var err error
	if r.policy, err = rota.PolicyFromValues(preset, values); err != nil && d.err == nil {
		d.err = err
	}
	for _, p := range []*int64{&r.blocked, &r.delayed, &r.queued, &r.assigned, &r.running} {
		*p = d.int()
	}
	for _, p := range []*uint64{&r.submitted, &r.placed, &r.completed, &r.dead, &r.expired, &r.cancelled, &r.turn,
		&r.sinceInterleave} {
		*p = d.uint()
	}
	for range d.count(limits.MaxExpectedTypes) {
		r.expected = append(r.expected, expectedTime{rota.JobType(d.str()), d.int()})
	}
	r.drainTo, r.drainFrom = rota.QueueName(d.str()), rota.JobID(d.str())
	r.by = rota.Principal(d.str())
	return r
}

func (r *queueRow) pending() int64 { return r.blocked + r.delayed + r.queued }

// tombRow remembers a terminal job (SPEC §9.4).
type tombRow struct {
	id     rota.JobID
	queue  rota.QueueName
	typ    rota.JobType
	tenant rota.TenantID
	state  rota.JobState
	reason rota.Reason
	// attempt is the number of the last one; lease the last lease and worker its
	// worker, by which what comes late is answered.
	attempt      int32
	lease        rota.LeaseID
	worker       rota.WorkerID
	outputDigest string
	submitted    rota.Moment
	finished     rota.Moment
	// due is the date on which it leaves, by the queue's gc_horizon as the job ended.
	due rota.Date
	// seq numbers terminal jobs in log order. At the cap the oldest leave first.
	seq uint64
	// number is that of the life which ended, as a live job's seq.
	number uint64
	// content is the hash of the spec as it was first submitted (SPEC §16.5).
	content rota.Digest
	// life counts the retries, retried is when the last was, 0 for never (SPEC §16.6).
	life    int32
	retried rota.Moment
	// freeAt is until when the worker of its last lease may go on believing in it, where
	// that lease was cancelled; 0 else. No retry starts before (SPEC §3.11).
	freeAt rota.Clock
	// fingerprint groups a DEAD job with those that failed alike (SPEC §20.5); "" else.
	fingerprint string
	// unique is the key that a completed job is unique by (SPEC §18.1).
	unique uniqueKey
	// batch is the number of the batch that counts the job, 0 for none.
	batch uint64
	// logged says that the log of its last lease was kept (SPEC §22.2).
	logged bool
	// earlier are the attempts before that no verb of their worker ended, and of which no log was kept
	// before the job's end: one may come from a node (SPEC §22.4). Nil for most.
	earlier []unlogged
}

// unlogged is an attempt of an ended job of which a node may have a log: its worker did not end it.
type unlogged struct {
	lease   rota.LeaseID
	worker  rota.WorkerID
	attempt int32
	// logged says that the log was kept since.
	logged bool
}

func (r *tombRow) canonical(e *encoder) {
	e.str(string(r.id))
	e.str(string(r.queue))
	e.str(string(r.typ))
	e.str(string(r.tenant))
	e.uint(uint64(r.state))
	e.uint(uint64(r.reason))
	e.int(int64(r.attempt))
	e.b = append(e.b, r.lease[:]...)
	e.str(string(r.worker))
	e.str(r.outputDigest)
	e.moment(r.submitted)
	e.moment(r.finished)
	e.int(int64(r.due - r.finished.Date))
	e.uint(r.seq)
	e.uint(r.number)
	e.digest(r.content)
	e.int(int64(r.life))
	e.moment(r.retried)
	e.int(int64(r.freeAt))
	e.str(r.fingerprint)
	if r.unique == (uniqueKey{}) {
		e.str("") // of most
	} else {
		e.bytes(r.unique[:])
	}
	e.uint(r.batch)
	e.bool(r.logged)
	e.uint(uint64(len(r.earlier)))
	for i := range r.earlier {
		a := &r.earlier[i]
		e.b = append(e.b, a.lease[:]...)
		e.str(string(a.worker))
		e.int(int64(a.attempt))
		e.bool(a.logged)
	}
}

func decodeTomb(d *decoder) *tombRow {
	r := &tombRow{}
	r.id = rota.JobID(d.str())
	r.queue = rota.QueueName(d.str())
	r.typ = rota.JobType(d.str())
	r.tenant = rota.TenantID(d.str())
	r.state = rota.JobState(d.enum(uint64(rota.JobCancelled)))
	r.reason = rota.Reason(d.enum(uint64(rota.ReasonLast)))
	r.attempt = int32(d.int())
	r.lease = d.leaseID()
	r.worker = rota.WorkerID(d.str())
	r.outputDigest = d.str()
	r.submitted = d.moment()
	r.finished = d.moment()
	r.due = r.finished.Date + rota.Date(d.int())
	r.seq = d.uint()
	r.number = d.uint()
	r.content = d.digest()
	r.life = int32(d.int())
	r.retried = d.moment()
	r.freeAt = rota.Clock(d.int())
	if r.fingerprint = d.str(); (len(r.fingerprint) == fingerprintSize) != (r.state == rota.JobDead) {
		d.fail()
	}
	key := d.str()
	if copy(r.unique[:], key); key != "" && len(key) != len(r.unique) {
		d.fail()
	}
	r.batch = d.uint()
	r.logged = d.bool()
	for range d.count(limits.MaxAttemptsKept - 1) {
		r.earlier = append(r.earlier, unlogged{d.leaseID(), rota.WorkerID(d.str()), int32(d.int()), d.bool()})
	}
	return r
}

// nodeRow remembers a node id that was ever a member: an id is never used for
// another data directory, and a removed one never comes back.
type nodeRow struct {
	rowMeta
	id       rota.NodeID
	api      string
	raft     string
	identity string
	starts   uint64
	removed  bool
	// differed is where its state was last told to be wrong (SPEC §2.5).
	differed rota.Index
}

func (r *nodeRow) canonical(e *encoder) {
	e.str(string(r.id))
	e.str(r.api)
	e.str(r.raft)
	e.str(r.identity)
	e.uint(r.starts)
	e.bool(r.removed)
	e.uint(uint64(r.differed))
}

func decodeNode(d *decoder) *nodeRow {
	return &nodeRow{id: rota.NodeID(d.str()), api: d.str(), raft: d.str(), identity: d.str(), starts: d.uint(),
		removed: d.bool(), differed: rota.Index(d.uint())}
}

// record is a terminal job in full: on its way to an archive, and no part of
// the digest (SPEC §2.5). It never changes.
type record struct {
	// seq numbers the end; ended is the tombstone as the job's end left it.
	seq        uint64
	ended      tomb
	spec       *keptSpec
	enqueued   rota.Moment
	firstLease rota.Moment
	err        string
	attempts   []rota.Attempt
	progress   int32
	note       string
	output     []byte
	meta       map[string]string
}

// bytes is what a record counts for in RecordBytesCap: about what it holds of
// the heap, and a pure function of what a snapshot carries.
func (r *record) bytes() int64 {
	s := r.spec
	n := len(s.own) + len(r.output) + len(r.err) + len(r.note) + len(s.ExpectedDigest) + 400
	for i := range r.attempts {
		n += 160 + len(r.attempts[i].Error)
	}
	for _, list := range [...][]string{s.Requires, s.RegionsAllow, s.RegionsDeny, s.DataKeys, s.Keys} {
		for _, text := range list {
			n += 16 + len(text)
		}
	}
	return int64(n + (len(s.Labels)+len(s.Limits)+len(r.meta))*(32+rota.MaxLabelBytes))
}

func encodeRecord(e *encoder, r *record) {
	encodeSpec(e, r.spec)
	e.moment(r.enqueued)
	e.moment(r.firstLease)
	e.str(r.err)
	encodeAttempts(e, r.attempts)
	e.int(int64(r.progress))
	e.str(r.note)
	e.bytes(r.output)
	encodePairs(e, r.meta)
}

func decodeRecord(d *decoder) *record {
	return &record{spec: decodeSpec(d), enqueued: d.moment(), firstLease: d.moment(), err: d.str(), attempts: decodeAttempts(d), progress: int32(d.int()),
		note: d.str(), output: d.bytes(), meta: decodePairs(d)}
}

// attemptBy returns the attempt of a lease as far as logs go, nil where the tombstone knows none that
// may bring one.
func (r *tombRow) attemptBy(lease []byte, worker rota.WorkerID) *unlogged {
	last := unlogged{r.lease, r.worker, r.attempt, r.logged}
	for _, a := range append(r.earlier, last) {
		if bytes.Equal(a.lease[:], lease) && a.worker == worker {
			return &a
		}
	}
	return nil
}

// hasLog reports whether the log of a lease was kept that ended with the job or before it, as far as
// the tombstone knows.
func (r *tombRow) hasLog(lease rota.LeaseID) bool {
	return r.logged && r.lease == lease || slices.ContainsFunc(r.earlier, func(a unlogged) bool { return a.logged && a.lease == lease })
}

// keep returns the bytes of a tombstone, among texts if there are any; e is the caller's, to
// write over.
func (r *tombRow) keep(e *encoder, in *entry.Texts) tomb {
	e.b = e.b[:0]
	r.canonical(e)
	if in == nil {
		return tomb(e.b)
	}
	return tomb(in.Keep(e.b))
}
