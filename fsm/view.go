package fsm

import (
	"slices"
	"strings"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
	"github.com/rotasched/rota/internal/millis"
)

// Job returns all that is known of a job; ok is false where nothing is.
func (vw *View) Job(id rota.JobID) (job rota.Job, ok bool) {
	if j := vw.m.jobs.get(id); j != nil {
		job = liveJob(j, vw.m.leasing.leases.get(string(j.lease[:])), vw.m.head.now())
		job.UniqueHolder = vw.m.uniques.holder(j.history().unique, j.spec.Queue)
		return job, true
	}
	if f, v := vw.m.flows.waitingNode(id); v != nil {
		return waitingJob(vw.m.flows.workflows.get(f.id), v, vw.m.head.now()), true
	}
	if t := vw.m.ended.tombs.get(id); t != nil {
		r, _ := vw.m.ended.staged.records.Get(t.seq)
		job = deadJob(t, r)
		job.UniqueHolder = vw.m.uniques.holder(t.unique, t.queue)
		return job, true
	}
	return rota.Job{}, false
}

// FirstSpec returns the spec that a live job was submitted with; ok is false where a change
// made it another since.
func (vw *View) FirstSpec(id rota.JobID) (first rota.JobSpec, live, ok bool) {
	j := vw.m.jobs.get(id)
	if j == nil {
		return first, false, false
	}
	return j.spec.words(), true, j.specHash == j.firstContent()
}

// liveJob returns a live job as now shows what is to come of it.
func liveJob(j *jobRow, l *leaseRow, now rota.Moment) rota.Job {
	job := rota.Job{JobSpec: j.spec.words(), State: j.state, Attempt: j.attempt, Submitted: j.submittedAt(),
		Enqueued: j.enqueuedAt(), FirstLease: j.firstLease, Due: now.At(j.due), Expires: now.At(j.expires()), Reason: j.lastReason, Error: j.lastError,
		Life: j.history().life, Retried: j.history().retried, Changes: j.history().changes,
		Attempts: j.attempts, Progress: j.progress, ProgressNote: j.note, Tier: j.tier, Preempted: j.preempted,
		WorkerLosses: int32(len(j.history().losses)), Isolated: j.isolated()}
	if j.dueDate != 0 {
		job.Due = now.On(j.dueDate)
	}
	if l != nil {
		lease := l.words(now)
		job.Lease = &lease
	}
	return job
}

// Worker returns all that is known of a worker, its open leases too.
func (vw *View) Worker(id rota.WorkerID) (rota.Worker, bool) {
	r := vw.m.fleet.workers.get(id)
	if r == nil {
		return rota.Worker{}, false
	}
	w := vw.workerWordsOf(r)
	for _, key := range r.openLeases() {
		w.Leases = append(w.Leases, vw.m.leasing.leases.get(key).words(vw.m.head.now()))
	}
	return w, true
}

// Workers lists the workers by id, without their leases.
func (vw *View) Workers() []rota.Worker {
	list := make([]rota.Worker, 0, vw.m.fleet.workers.len())
	vw.m.fleet.workers.scan(func(_ rota.WorkerID, r *workerRow) bool {
		list = append(list, vw.workerWordsOf(r))
		return true
	})
	return list
}

func (vw *View) workerWordsOf(r *workerRow) rota.Worker {
	w := rota.Worker{WorkerSpec: *r.spec, Status: r.status, Session: r.session, StatusSince: r.since,
		SilentSince: r.silentSince, DisconnectedSince: r.disconnected, Polls: r.polls, Offered: r.free, Open: r.open, CPUMilliTaken: r.cpu, MemoryTaken: r.memory, IOTaken: r.io,
		Assigned: r.assigned, Completed: r.completed, Failed: r.failed}
	reputationWords(&w, r, vw.m.head.now())
	return w
}

// Session returns a worker's live session and status; 0 where it has none.
func (vw *View) Session(id rota.WorkerID) (rota.Session, rota.WorkerStatus) {
	r := vw.m.fleet.workers.get(id)
	if r == nil {
		return 0, rota.WorkerNone
	}
	return r.session, r.status
}

// Connection returns a worker's live session, the number of its newest connection, and
// whether that is taken for broken (SPEC §16.7).
func (vw *View) Connection(id rota.WorkerID) (s rota.Session, connection uint64, broken bool) {
	r := vw.m.fleet.workers.get(id)
	if r == nil || r.status == rota.WorkerRetired {
		return 0, 0, false
	}
	return r.session, r.connection, !r.disconnected.IsZero()
}

// LiveWorkers calls f for each worker that may have a process behind it.
func (vw *View) LiveWorkers(f func(id rota.WorkerID, s rota.Session, status rota.WorkerStatus, since rota.Clock)) {
	vw.m.fleet.workers.scan(func(id rota.WorkerID, r *workerRow) bool {
		if r.status != rota.WorkerRetired {
			f(id, r.session, r.status, r.since.Clock)
		}
		return true
	})
}

// Queue returns a queue with its counters.
func (vw *View) Queue(name rota.QueueName) (rota.Queue, bool) {
	r := vw.m.queues.get(name)
	if r == nil {
		return rota.Queue{}, false
	}
	return vw.queueWords(r), true
}

// Queues lists the queues by name.
func (vw *View) Queues() []rota.Queue {
	list := make([]rota.Queue, 0, vw.m.queues.len())
	vw.m.queues.scan(func(_ rota.QueueName, r *queueRow) bool {
		list = append(list, vw.queueWords(r))
		return true
	})
	return list
}

func (vw *View) queueWords(r *queueRow) rota.Queue {
	i := vw.m.placement.registry.queues[r.name]
	q := rota.Queue{Name: r.name, Policy: r.policy, ETag: r.etag(), Pending: r.pending(), Blocked: r.blocked, Delayed: r.delayed,
		Queued: r.queued, Assigned: r.assigned, Running: r.running, SubmittedTotal: r.submitted, AssignedTotal: r.placed,
		CompletedTotal: r.completed, DeadTotal: r.dead, ExpiredTotal: r.expired, CancelledTotal: r.cancelled,
		Staged: vw.m.ended.staged.queues.get(r.name), Lanes: int64(i.pending.Lanes()), Workers: int64(vw.m.placement.registry.supply.Workers(r.name))}
	q.Throttled = int64(i.pending.ThrottledLanes())
	q.Tiers = i.tierDepths(&r.policy)
	q.UsagePermille, q.LeaseUsagePermille, q.BacklogUsagePermille = vw.usage(r)
	q.Bytes = vw.m.ledger.tally.queues.get(r.name)
	q.Backpressure = vw.m.admission.pressure(r)
	if oldest, ok := i.pending.Oldest(); ok {
		q.OldestWait = millis.Duration(int64(vw.m.head.clock - oldest))
	}
	return q
}

// Counts sums the jobs by state over all queues.
func (vw *View) Counts() (c rota.JobCounts) {
	vw.m.queues.scan(func(_ rota.QueueName, r *queueRow) bool {
		c.Blocked += r.blocked
		c.Delayed += r.delayed
		c.Queued += r.queued
		c.Assigned += r.assigned
		c.Running += r.running
		c.Completed += int64(r.completed)
		c.Dead += int64(r.dead)
		c.Expired += int64(r.expired)
		c.Cancelled += int64(r.cancelled)
		return true
	})
	return c
}

// WorkerCount is how many workers are registered and not RETIRED.
func (vw *View) WorkerCount() (n int64) {
	vw.LiveWorkers(func(rota.WorkerID, rota.Session, rota.WorkerStatus, rota.Clock) { n++ })
	return n
}

// Member is what is recorded of a node id: its data directory's identity, where it answered
// others when it was recorded, how often it was started, and whether it was removed.
type Member struct {
	Identity, API string
	Starts        uint64
	Removed       bool
}

// Node returns what is recorded of a node id.
func (vw *View) Node(id rota.NodeID) (m Member, known bool) {
	r := vw.m.nodes.get(id)
	if r == nil {
		return m, false
	}
	return Member{r.identity, r.api, r.starts, r.removed}, true
}

// NodeAPIs returns where the nodes that were not removed answer clients, by id of the node.
func NodeAPIs(vw *View) (all []string) {
	vw.m.nodes.scan(func(_ rota.NodeID, r *nodeRow) bool {
		if !r.removed && r.api != "" {
			all = append(all, r.api)
		}
		return true
	})
	return all
}

// NodeDiffered returns where a node's state was last told to be wrong, 0 for never.
func (vw *View) NodeDiffered(id rota.NodeID) (at rota.Index, known bool) {
	r := vw.m.nodes.get(id)
	if r == nil {
		return 0, false
	}
	return r.differed, true
}

// Assignments returns what a worker's session holds open, in the order in which it was
// given: what a node tells the worker first when it connects. A session that was taken
// over has what it must confirm (SPEC §8.5).
func (vw *View) Assignments(id rota.WorkerID, session rota.Session) []rota.Assignment {
	r := vw.m.fleet.workers.get(id)
	if r == nil {
		return nil
	}
	var list []rota.Assignment
	for _, key := range r.openLeases() {
		if a, ok := vw.assignment(vw.m.leasing.leases.get(key)); ok && a.Lease.Session == session {
			list = append(list, a)
		}
	}
	slices.SortFunc(list, func(a, b rota.Assignment) int { return a.Lease.Token.Compare(b.Lease.Token) })
	return list
}

// Deliverable returns what a principal that opened a session of a worker may be sent of the session's open leases, as
// Assignments has them. A lease that the principal may not work is revoked for it, and comes without its job's
// specification. ours is false once the worker is another principal's: then there is none.
func Deliverable(vw *View, id rota.WorkerID, session rota.Session, by rota.Principal) (leases []rota.Assignment, ours bool) {
	w := vw.m.fleet.workers.get(id)
	if w == nil || w.session != session { // what is left of an older session is revoked
		return vw.Assignments(id, session), true
	}
	if w.by != by {
		return nil, false
	}
	leases = vw.Assignments(id, session)
	may := vw.m.access.mayWork(w)
	for i := range leases {
		a := &leases[i]
		if may(a.Spec.Tenant, a.Spec.Queue) {
			continue
		}
		a.Spec = rota.JobSpec{}
		if a.Lease.Revoked == rota.ReasonNone {
			a.Lease.Revoked = rota.ReasonAccessEnded
		}
	}
	return leases, true
}

// RegisteredBy returns the principal that registered a worker, "" where none did.
func RegisteredBy(vw *View, id rota.WorkerID) rota.Principal {
	if w := vw.m.fleet.workers.get(id); w != nil {
		return w.by
	}
	return ""
}

// Assignment returns an open lease with its job, as its worker is told of it.
func (vw *View) Assignment(id rota.LeaseID) (rota.Assignment, bool) {
	return vw.assignment(vw.m.leasing.leases.get(string(id[:])))
}

func (vw *View) assignment(l *leaseRow) (rota.Assignment, bool) {
	if l == nil {
		return rota.Assignment{}, false
	}
	p := &vw.m.queues.get(l.queue).policy
	var spec rota.JobSpec
	if l.ended != nil { // it is to be given up: nobody is to begin with it
		spec = l.ended.spec
	} else {
		spec = vw.m.jobs.get(l.Job).spec.words()
	}
	return rota.Assignment{Lease: l.Lease, Spec: spec, LeaseFor: millis.Duration(p.LeaseMs),
		RenewEvery: millis.Duration(p.LeaseMs * p.RenewAlphaPermille / 1000), RenewalsMax: int32(p.RenewalsMax),
		MaxRuntime: millis.Duration(l.maxRuntime()), Grace: millis.Duration(l.grace)}, true
}

// KeyRules lists the rules of keys by queue, name and value.
func KeyRules(vw *View) []rota.KeyRule {
	list := make([]rota.KeyRule, 0, vw.m.keyring.rules.len())
	vw.m.keyring.rules.scan(func(_ string, r *keyRuleRow) bool {
		rule := r.KeyRule
		rule.ETag = r.etag()
		list = append(list, rule)
		return true
	})
	return list
}

// KeyStates returns what a key of a tenant counts under each rule that is for it, as far as shown
// lets it be seen.
func KeyStates(vw *View, tenant rota.TenantID, key string, shown func(*rota.KeyState) bool) (list []rota.KeyState) {
	kr := &vw.m.keyring
	name, value, _ := strings.Cut(key, ":")
	kr.rules.scan(func(_ string, r *keyRuleRow) bool {
		if r.Name != name || kr.rule(r.Queue, name, value) != r {
			return true
		}
		of := tenant
		if r.Scope == rota.KeyOfCluster {
			of = ""
		}
		if c := kr.counts.get(keyCountKey(r.Queue, of, key)); c != nil {
			if k := kr.words(c, r); shown(&k) {
				list = append(list, k)
			}
		}
		return len(list) < limits.MaxKeyStates
	})
	return list
}

func (kr *keyring) words(c *keyCountRow, r *keyRuleRow) rota.KeyState {
	k := c.words(r, kr.s.head.now())
	k.Head = kr.turnOf(c)
	return k
}
