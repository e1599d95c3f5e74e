package fsm

import (
	"strings"

	"github.com/rotasched/rota"
	"github.com/tidwall/btree"
)

// Job tells all that is known of a job; ok is false where nothing is.
func (m *Machine) Job(id rota.JobID) (job rota.Job, ok bool) {
	if j := m.jobs.get(id); j != nil {
		return liveJob(j, m.leases.get(string(j.lease[:]))), true
	}
	if t := m.tombs.get(id); t != nil {
		r, _ := m.records.Get(id)
		return deadJob(t, r), true
	}
	return rota.Job{}, false
}

// JobState tells a job's state alone, JobNone where nothing is known.
func (m *Machine) JobState(id rota.JobID) rota.JobState {
	if j := m.jobs.get(id); j != nil {
		return j.state
	}
	if t := m.tombs.get(id); t != nil {
		return t.state
	}
	return rota.JobNone
}

func liveJob(j *jobRow, l *leaseRow) rota.Job {
	job := rota.Job{JobSpec: *j.spec, State: j.state, Attempt: j.attempt, Submitted: j.submitted, Enqueued: j.enqueued,
		FirstLease: j.firstLease, Due: j.due, SubmittedDate: j.submittedDate, Reason: j.lastReason, Error: j.lastError,
		Attempts: j.attempts, Progress: j.progress, ProgressNote: j.note}
	if l != nil {
		lease := l.Lease
		job.Lease = &lease
	}
	return job
}

func deadJob(t *tombRow, r *record) rota.Job {
	job := rota.Job{State: t.state, Attempt: t.attempt, Submitted: t.submitted, Finished: t.finished,
		FinishedDate: t.finishedDate, Reason: t.reason, OutputDigest: t.outputDigest, RecordDropped: r == nil}
	if r == nil {
		job.ID, job.Queue, job.Type, job.Tenant = t.id, t.queue, t.typ, t.tenant
		return job
	}
	job.JobSpec = *r.spec
	job.Enqueued, job.FirstLease, job.SubmittedDate, job.Error = r.enqueued, r.firstLease, r.submitDate, r.err
	job.Attempts, job.Progress, job.ProgressNote, job.Output = r.attempts, r.progress, r.note, r.output
	return job
}

// JobList is a frozen view of all jobs; reading it holds nothing up.
type JobList struct {
	jobs    *btree.Map[rota.JobID, *jobRow]
	leases  *btree.Map[string, *leaseRow]
	tombs   *btree.Map[rota.JobID, *tombRow]
	records *btree.Map[rota.JobID, *record]
}

// Jobs freezes the jobs for a list.
func (m *Machine) Jobs() *JobList {
	return &JobList{m.jobs.freeze(), m.leases.freeze(), m.tombs.freeze(), m.records.Copy()}
}

// maxScan bounds the rows that one page looks at, so that a filter that matches
// little cannot hold a call for ever; the page then is short, with a cursor.
const maxScan = 100_000

// Page gives the jobs that the filter selects: live ones by id, then terminal
// ones by id.
func (l *JobList) Page(f rota.JobFilter) (rota.JobPage, error) {
	page := rota.JobPage{Jobs: []rota.Job{}}
	limit := f.Limit
	if limit <= 0 {
		limit = 100
	}
	limit = min(limit, rota.MaxPage)
	part, after, found := strings.Cut(f.Cursor, "/")
	if f.Cursor != "" && (!found || part != "live" && part != "done") {
		return page, rota.Refusef(rota.Invalid, "cursor", "cursor %q is not one that a page gave", f.Cursor)
	}
	scanned := 0
	full := func() bool { scanned++; return len(page.Jobs) >= limit || scanned > maxScan }
	last := ""
	if part != "done" && !f.State.Terminal() {
		l.jobs.Ascend(rota.JobID(after), func(id rota.JobID, j *jobRow) bool {
			if part == "live" && string(id) == after {
				return true
			}
			if full() {
				page.NextCursor = "live/" + last
				return false
			}
			last = string(id)
			if selects(f, j.spec.Queue, j.spec.Tenant, j.spec.Type, j.state) {
				lease, _ := l.leases.Get(string(j.lease[:]))
				page.Jobs = append(page.Jobs, liveJob(j, lease))
			}
			return true
		})
		if page.NextCursor != "" {
			return page, nil
		}
		after = ""
	}
	if f.State != rota.JobNone && !f.State.Terminal() {
		return page, nil
	}
	last = after
	l.tombs.Ascend(rota.JobID(after), func(id rota.JobID, t *tombRow) bool {
		if part == "done" && string(id) == after {
			return true
		}
		if full() {
			page.NextCursor = "done/" + last
			return false
		}
		last = string(id)
		if selects(f, t.queue, t.tenant, t.typ, t.state) {
			r, _ := l.records.Get(id)
			page.Jobs = append(page.Jobs, deadJob(t, r))
		}
		return true
	})
	return page, nil
}

func selects(f rota.JobFilter, q rota.QueueName, t rota.TenantID, typ rota.JobType, s rota.JobState) bool {
	return (f.Queue == "" || f.Queue == q) && (f.Tenant == "" || f.Tenant == t) && (f.Type == "" || f.Type == typ) &&
		(f.State == rota.JobNone || f.State == s)
}

// Worker tells all that is known of a worker, its open leases too.
func (m *Machine) Worker(id rota.WorkerID) (rota.Worker, bool) {
	r := m.workers.get(id)
	if r == nil {
		return rota.Worker{}, false
	}
	w := workerWordsOf(r)
	for _, key := range r.openLeases() {
		w.Leases = append(w.Leases, m.leases.get(key).Lease)
	}
	return w, true
}

// Workers lists the workers by id, without their leases.
func (m *Machine) Workers() []rota.Worker {
	list := make([]rota.Worker, 0, m.workers.len())
	m.workers.scan(func(_ rota.WorkerID, r *workerRow) bool {
		list = append(list, workerWordsOf(r))
		return true
	})
	return list
}

func workerWordsOf(r *workerRow) rota.Worker {
	return rota.Worker{WorkerSpec: *r.spec, Status: r.status, Session: r.session, StatusSince: r.since,
		SilentSince: r.silentSince, Open: r.open, CPUMilliTaken: r.cpu, MemoryTaken: r.memory, Health: r.health,
		Assigned: r.assigned, Completed: r.completed, Failed: r.failed}
}

// Session tells a worker's live session and status; 0 where it has none.
func (m *Machine) Session(id rota.WorkerID) (rota.Session, rota.WorkerStatus) {
	r := m.workers.get(id)
	if r == nil {
		return 0, rota.WorkerNone
	}
	return r.session, r.status
}

// LiveWorkers calls f for each worker that may have a process behind it.
func (m *Machine) LiveWorkers(f func(id rota.WorkerID, s rota.Session, status rota.WorkerStatus, since rota.Clock)) {
	m.workers.scan(func(id rota.WorkerID, r *workerRow) bool {
		if r.status != rota.WorkerRetired {
			f(id, r.session, r.status, r.since)
		}
		return true
	})
}

// Queue tells a queue with its counters.
func (m *Machine) Queue(name rota.QueueName) (rota.Queue, bool) {
	r := m.queues.get(name)
	if r == nil {
		return rota.Queue{}, false
	}
	return m.queueWords(r), true
}

// Queues lists the queues by name.
func (m *Machine) Queues() []rota.Queue {
	list := make([]rota.Queue, 0, m.queues.len())
	m.queues.scan(func(_ rota.QueueName, r *queueRow) bool {
		list = append(list, m.queueWords(r))
		return true
	})
	return list
}

func (m *Machine) queueWords(r *queueRow) rota.Queue {
	i := m.registry.queues[r.name]
	q := rota.Queue{Name: r.name, Policy: r.policy, Pending: r.pending(), Blocked: r.blocked, Delayed: r.delayed,
		Queued: r.queued, Assigned: r.assigned, Running: r.running, SubmittedTotal: r.submitted, AssignedTotal: r.placed,
		CompletedTotal: r.completed, DeadTotal: r.dead, ExpiredTotal: r.expired, CancelledTotal: r.cancelled,
		Lanes: int64(i.pending.Lanes()), Workers: int64(m.registry.supply.Workers(r.name))}
	if oldest, ok := i.pending.Oldest(); ok {
		q.OldestWaitMs = int64(m.head.clock - oldest)
	}
	return q
}

// Counts sums the jobs by state over all queues.
func (m *Machine) Counts() (c rota.JobCounts) {
	m.queues.scan(func(_ rota.QueueName, r *queueRow) bool {
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

// WorkerCount is how many workers are registered.
func (m *Machine) WorkerCount() int64 { return int64(m.workers.len()) }

// Node tells what is recorded of a node id.
func (m *Machine) Node(id rota.NodeID) (identity string, starts uint64, removed, known bool) {
	r := m.nodes.get(id)
	if r == nil {
		return "", 0, false, false
	}
	return r.identity, r.starts, r.removed, true
}

// Assignments gives what a worker's live session holds open: what a node tells
// it first when it connects.
func (m *Machine) Assignments(id rota.WorkerID, session rota.Session) []rota.Assignment {
	r := m.workers.get(id)
	if r == nil || r.session != session {
		return nil
	}
	var list []rota.Assignment
	for _, key := range r.openLeases() {
		if a, ok := m.assignment(m.leases.get(key)); ok && a.Lease.Session == session {
			list = append(list, a)
		}
	}
	return list
}

// Assignment gives an open lease with its job, as its worker is told of it.
func (m *Machine) Assignment(id rota.LeaseID) (rota.Assignment, bool) {
	return m.assignment(m.leases.get(string(id[:])))
}

func (m *Machine) assignment(l *leaseRow) (rota.Assignment, bool) {
	if l == nil {
		return rota.Assignment{}, false
	}
	p := &m.queues.get(l.queue).policy
	return rota.Assignment{Lease: l.Lease, Spec: *m.jobs.get(l.Job).spec, LeaseMs: p.LeaseMs,
		RenewEveryMs: p.LeaseMs * p.RenewAlphaPermille / 1000, RenewalsMax: int32(p.RenewalsMax)}, true
}
