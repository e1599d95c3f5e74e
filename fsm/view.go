package fsm

import (
	"slices"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm/fsmpb"
	"github.com/rotasched/rota/fsm/internal/authz"
	"github.com/rotasched/rota/fsm/internal/keys"
	"github.com/rotasched/rota/fsm/internal/state"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/millis"
)

// Job returns everything known about a job; ok is false if it is unknown.
func (vw *View) Job(id rota.JobID) (job rota.Job, ok bool) {
	if j := vw.m.JobTable.Get(id); j != nil {
		job = liveJob(j, vw.m.leasing.leases.Get(string(j.Lease[:])), vw.m.Header.Now())
		job.UniqueHolder = vw.m.uniques.Holder(j.History().Unique, j.Spec.Queue)
		return job, true
	}
	if f, v := vw.m.flows.waitingNode(id); v != nil {
		return waitingJob(vw.m.flows.workflows.Get(f.id), v, vw.m.Header.Now()), true
	}
	if t := vw.m.ended.tombs.Get(id); t != nil {
		r, _ := vw.m.ended.staged.records.Get(t.Seq)
		job = deadJob(t, r)
		job.UniqueHolder = vw.m.uniques.Holder(t.Unique, t.Queue)
		return job, true
	}
	return rota.Job{}, false
}

// FirstSpec returns the spec that a live job was submitted with; ok is false if the job was changed since.
func (vw *View) FirstSpec(id rota.JobID) (first rota.JobSpec, live, ok bool) {
	j := vw.m.JobTable.Get(id)
	if j == nil {
		return first, false, false
	}
	return j.Spec.Words(), true, j.SpecHash == j.FirstContent()
}

// Worker returns everything known about a worker, including its open leases.
func (vw *View) Worker(id rota.WorkerID) (rota.Worker, bool) {
	r := vw.m.fleet.workers.Get(id)
	if r == nil {
		return rota.Worker{}, false
	}
	w := vw.workerWordsOf(r)
	for _, key := range r.OpenLeases() {
		w.Leases = append(w.Leases, vw.m.leasing.leases.Get(key).Words(vw.m.Header.Now()))
	}
	return w, true
}

// Workers lists the workers by id, without their leases.
func (vw *View) Workers() []rota.Worker {
	list := make([]rota.Worker, 0, vw.m.fleet.workers.Len())
	vw.m.fleet.workers.Scan(func(_ rota.WorkerID, r *state.WorkerRow) bool {
		list = append(list, vw.workerWordsOf(r))
		return true
	})
	return list
}

func (vw *View) workerWordsOf(r *state.WorkerRow) rota.Worker {
	w := rota.Worker{WorkerSpec: *r.Spec, Status: r.Status, Session: r.Session, StatusSince: r.Since,
		SilentSince: r.SilentSince, DisconnectedSince: r.Disconnected, Polls: r.Polls, Offered: r.Free, Open: r.Open,
		CPUMilliTaken: r.CPU, MemoryTaken: r.Memory, IOTaken: r.IO,
		Assigned: r.Assigned, Completed: r.Completed, Failed: r.Failed}
	reputationWords(&w, r, vw.m.Header.Now())
	return w
}

// Session returns a worker's live session and status; 0 if it has none.
func (vw *View) Session(id rota.WorkerID) (rota.Session, rota.WorkerStatus) {
	r := vw.m.fleet.workers.Get(id)
	if r == nil {
		return 0, rota.WorkerNone
	}
	return r.Session, r.Status
}

// Connection returns a worker's live session, the number of its newest connection, and whether that is considered
// broken (SPEC §16.7).
func (vw *View) Connection(id rota.WorkerID) (s rota.Session, connection uint64, broken bool) {
	r := vw.m.fleet.workers.Get(id)
	if r == nil || r.Status == rota.WorkerRetired {
		return 0, 0, false
	}
	return r.Session, r.Connection, !r.Disconnected.IsZero()
}

// LiveWorkers calls f for each worker that may have a running process.
func (vw *View) LiveWorkers(f func(id rota.WorkerID, s rota.Session, status rota.WorkerStatus, since rota.Clock)) {
	vw.m.fleet.workers.Scan(func(id rota.WorkerID, r *state.WorkerRow) bool {
		if r.Status != rota.WorkerRetired {
			f(id, r.Session, r.Status, r.Since.Clock)
		}
		return true
	})
}

// Queue returns a queue with its counters.
func (vw *View) Queue(name rota.QueueName) (rota.Queue, bool) {
	r := vw.m.QueueTable.Get(name)
	if r == nil {
		return rota.Queue{}, false
	}
	return vw.queueWords(r), true
}

// Queues lists the queues by name.
func (vw *View) Queues() []rota.Queue {
	list := make([]rota.Queue, 0, vw.m.QueueTable.Len())
	vw.m.QueueTable.Scan(func(_ rota.QueueName, r *state.QueueRow) bool {
		list = append(list, vw.queueWords(r))
		return true
	})
	return list
}

func (vw *View) queueWords(r *state.QueueRow) rota.Queue {
	i := vw.m.placement.registry.queues[r.Name]
	q := rota.Queue{Name: r.Name, Policy: r.Policy, ETag: r.ETag(), Pending: r.Pending(), Blocked: r.Blocked,
		Delayed: r.Delayed,
		Queued:  r.Queued, Assigned: r.Assigned, Running: r.Running, SubmittedTotal: r.Submitted,
		AssignedTotal:  r.Placed,
		CompletedTotal: r.Completed, DeadTotal: r.Dead, ExpiredTotal: r.Expired, CancelledTotal: r.Cancelled,
		Staged: vw.m.ended.staged.queues.Get(r.Name), Lanes: int64(i.pending.Lanes()),
		Workers: int64(vw.m.placement.registry.supply.Workers(r.Name))}
	q.Throttled = int64(i.pending.ThrottledLanes())
	q.Tiers = i.tierDepths(&r.Policy)
	q.UsagePermille, q.LeaseUsagePermille, q.BacklogUsagePermille = vw.usage(r)
	q.Bytes = vw.m.Ledger.Tally.Queues.Get(r.Name)
	q.Backpressure = vw.m.admission.pressure(r)
	if oldest, ok := i.pending.Oldest(); ok {
		q.OldestWait = millis.Duration(int64(vw.m.Header.Clock - oldest))
	}
	return q
}

// Counts sums the jobs by state over all queues.
func (vw *View) Counts() (c rota.JobCounts) {
	vw.m.QueueTable.Scan(func(_ rota.QueueName, r *state.QueueRow) bool {
		c.Blocked += r.Blocked
		c.Delayed += r.Delayed
		c.Queued += r.Queued
		c.Assigned += r.Assigned
		c.Running += r.Running
		c.Completed += int64(r.Completed)
		c.Dead += int64(r.Dead)
		c.Expired += int64(r.Expired)
		c.Cancelled += int64(r.Cancelled)
		return true
	})
	return c
}

// WorkerCount returns how many workers are registered and not RETIRED.
func (vw *View) WorkerCount() (n int64) {
	vw.LiveWorkers(func(rota.WorkerID, rota.Session, rota.WorkerStatus, rota.Clock) { n++ })
	return n
}

// Member is the record of a node id: its data directory's identity, the addresses recorded for other nodes, how often
// it was started, and whether it was removed.
type Member struct {
	Identity, API string
	Starts        uint64
	Removed       bool
}

// Node returns the record of a node id.
func (vw *View) Node(id rota.NodeID) (m Member, known bool) {
	r := vw.m.NodeTable.Get(id)
	if r == nil {
		return m, false
	}
	return Member{r.Identity, r.API, r.Starts, r.Removed}, true
}

// NodeAPIs returns the client addresses of the nodes that were not removed, by node id.
func NodeAPIs(vw *View) (all []string) {
	vw.m.NodeTable.Scan(func(_ rota.NodeID, r *state.NodeRow) bool {
		if !r.Removed && r.API != "" {
			all = append(all, r.API)
		}
		return true
	})
	return all
}

// NodeDiffered returns the index at which a node's state was last reported wrong, 0 for never.
func (vw *View) NodeDiffered(id rota.NodeID) (at rota.Index, known bool) {
	r := vw.m.NodeTable.Get(id)
	if r == nil {
		return 0, false
	}
	return r.Differed, true
}

// Assignments returns the open leases of a worker's session, in the order in which they were granted. A node sends them
// first when the worker connects. For a session that was taken over, they are the leases that it must confirm (SPEC
// §8.5).
func (vw *View) Assignments(id rota.WorkerID, session rota.Session) []rota.Assignment {
	r := vw.m.fleet.workers.Get(id)
	if r == nil {
		return nil
	}
	var list []rota.Assignment
	for _, key := range r.OpenLeases() {
		if a, ok := vw.assignment(vw.m.leasing.leases.Get(key)); ok && a.Lease.Session == session {
			list = append(list, a)
		}
	}
	slices.SortFunc(list, func(a, b rota.Assignment) int { return a.Lease.Token.Compare(b.Lease.Token) })
	return list
}

// Deliverable returns the open leases of a worker's session that may be sent to the principal that opened it, in the
// form of Assignments. A lease that the principal may not work is revoked for it, and comes without its job's
// specification. ours is false once the worker belongs to another principal: then there are none.
func Deliverable(vw *View, id rota.WorkerID, session rota.Session,
	by rota.Principal) (leases []rota.Assignment, ours bool) {
	w := vw.m.fleet.workers.Get(id)
	if w == nil || w.Session != session { // the remaining leases of an older session are revoked
		return vw.Assignments(id, session), true
	}
	if w.By != by {
		return nil, false
	}
	leases = vw.Assignments(id, session)
	may := vw.m.access.MayWork(w)
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

// RegisteredBy returns the principal that registered a worker, "" if there was none.
func RegisteredBy(vw *View, id rota.WorkerID) rota.Principal {
	if w := vw.m.fleet.workers.Get(id); w != nil {
		return w.By
	}
	return ""
}

// Assignment returns an open lease with its job, in the form sent to its worker.
func (vw *View) Assignment(id rota.LeaseID) (rota.Assignment, bool) {
	return vw.assignment(vw.m.leasing.leases.Get(string(id[:])))
}

func (vw *View) assignment(l *state.LeaseRow) (rota.Assignment, bool) {
	if l == nil {
		return rota.Assignment{}, false
	}
	p := &vw.m.QueueTable.Get(l.Queue).Policy
	var spec rota.JobSpec
	if l.Ended != nil { // it is to be given up: it must not be started
		spec = l.Ended.Spec
	} else {
		spec = vw.m.JobTable.Get(l.Job).Spec.Words()
	}
	return rota.Assignment{Lease: l.Lease, Spec: spec, LeaseFor: millis.Duration(p.LeaseMs),
		RenewEvery: millis.Duration(p.LeaseMs * p.RenewAlphaPermille / 1000), RenewalsMax: int32(p.RenewalsMax),
		MaxRuntime: millis.Duration(l.MaxRuntime()), Grace: millis.Duration(l.Grace)}, true
}

// KeyRules lists the rules of keys by queue, name and value.
func KeyRules(vw *View) []rota.KeyRule { return keys.RulesOf(&vw.m.keyring) }

// KeyStates returns the counts of a tenant's key under each rule for it, if shown allows it.
func KeyStates(vw *View, tenant rota.TenantID, key string, shown func(*rota.KeyState) bool) []rota.KeyState {
	return keys.StatesOf(&vw.m.keyring, tenant, key, shown)
}

// StoppedKeys returns how many keys are paused, and of how many the breaker is open or probing.
func StoppedKeys(vw *View) (paused, open int64) { return keys.StoppedKeys(&vw.m.keyring) }

// KeyList is a frozen view of the keys that rules count; reading it blocks nothing.
type KeyList = keys.List

// Keys freezes the keys of a machine for a list.
func Keys(m *Machine) *KeyList { return keys.Freeze(&m.keyring) }

// MergedInto returns the job that a submission was merged into, by the id of that submission, while the state remembers
// it.
func MergedInto(vw *View, id rota.JobID) (rota.JobID, bool) { return vw.m.uniques.MergedInto(id) }

// Access holds the rights of all callers at one index. It never changes.
type Access = authz.Access

// Access returns the rights of all callers, to be read while the machine continues.
func (vw *View) Access() *Access { return vw.m.access.Freeze() }

// Reader returns a principal's rights to read at the present date.
func (vw *View) Reader(p rota.Principal) (*access.Reader, error) { return vw.m.access.Reader(p) }

// PlaceOfJob returns the tenant and the queue of a job that the state contains.
func (vw *View) PlaceOfJob(id rota.JobID) (rota.TenantID, rota.QueueName, bool) {
	tenant, queue, ok := vw.m.access.PlaceOfJob(string(id))
	return rota.TenantID(tenant), rota.QueueName(queue), ok
}

// LeasedTo reports whether a worker that a principal registered has a job leased.
func (vw *View) LeasedTo(id rota.JobID, by rota.Principal) bool {
	j := vw.m.JobTable.Get(id)
	if j == nil {
		return false
	}
	l := vw.m.leasing.leases.Get(string(j.Lease[:]))
	return l != nil && vw.m.fleet.workers.Get(l.Worker).By == by
}

// AccessVersion returns a number that grows whenever rights change.
func (vw *View) AccessVersion() uint64 { return vw.m.access.Version }

// Denied returns the refusals that the actors' rights would cause if the operations were applied now, each at its
// index; nil means no refusal. Concurrent calls are safe: nothing is cached.
func (vw *View) Denied(ops []*fsmpb.Op) []*fsmpb.Outcome { return vw.m.access.Denied(ops) }

// Taken refuses a submission whose id belongs to a job that only archives contain, in a tenant and a queue that the
// actor may not submit to; nil means no objection.
func (vw *View) Taken(op *fsmpb.Op, tenant rota.TenantID, queue rota.QueueName) *fsmpb.Outcome {
	return vw.m.access.Taken(op, tenant, queue)
}

// Forwardable reports whether nodes may forward an operation, for its caller or for a log that they keep for one. All
// others are internal to the leader, such as a removal, which the leader only makes after checking the remaining
// members.
func Forwardable(op *fsmpb.Op) bool { return authz.Forwardable(op) }
