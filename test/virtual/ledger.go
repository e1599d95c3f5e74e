package virtual

import (
	"slices"
	"sync"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/test/jepsen-lite/check"
)

// jobRecord is the users' and workers' knowledge of one job.
type jobRecord struct {
	// accepted means a definite acceptance; refused means a definite refusal and never an acceptance.
	accepted, refused bool
	// cancelled and retried count the requests that were not definitely refused.
	cancelled, retried int
	// ran holds the leases under which a handler succeeded, taken those whose completion the cluster accepted.
	ran, taken map[rota.LeaseID]bool
	// ttl is its time to live, 0 if the queue's applies. flow is its workflow.
	ttl  time.Duration
	flow rota.WorkflowID
}

// belief is one handler that believes it holds a job.
type belief struct {
	run   *workerRun
	lease rota.LeaseID
	job   rota.JobID
	since time.Time
}

// ledger holds all answers that users and workers received.
type ledger struct {
	violate func(promise, format string, args ...any)

	mu   sync.Mutex
	jobs map[rota.JobID]*jobRecord
	// flows holds the workflows.
	flows map[rota.WorkflowID]*flowRecord
	// holders holds the beliefs by job; several only if a promise is broken.
	holders map[rota.JobID][]belief
	tokens  map[rota.JobID]rota.Token
	dead    map[*workerRun]bool
	counts  ledgerCounts
	// kept is also the data by which chaos histories are checked (pieces.go); logged holds attempts whose log is kept.
	kept   *check.Recorder
	logged []check.LoggedLease
}

type ledgerCounts struct{ started, lost, completed, submitted, unknown int }

func newLedger() *ledger {
	return &ledger{flows: make(map[rota.WorkflowID]*flowRecord), jobs: make(map[rota.JobID]*jobRecord),
		holders: make(map[rota.JobID][]belief),
		tokens:  make(map[rota.JobID]rota.Token), dead: make(map[*workerRun]bool),
		kept: check.NewRecorder(check.Monotonic(), 0)}
}

// record returns a job's record; the caller holds the lock.
func (l *ledger) record(id rota.JobID) *jobRecord {
	r := l.jobs[id]
	if r == nil {
		r = &jobRecord{ran: make(map[rota.LeaseID]bool), taken: make(map[rota.LeaseID]bool)}
		l.jobs[id] = r
	}
	return r
}

func (l *ledger) change(id rota.JobID, f func(*jobRecord)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(l.record(id))
}

// started records that from now on this worker believes that it holds the job; no other may (SPEC §3.11).
func (l *ledger) started(r *workerRun, e client.HandlerEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead[r] {
		return
	}
	l.counts.started++
	for _, b := range l.holders[e.Job] {
		l.violate("no two workers hold a job",
			"job %s: %s holds it under lease %s since %s ago, %s begins under lease %s",
			e.Job, b.run.id, b.lease, time.Since(b.since), r.id, e.Lease)
	}
	if e.Token.Compare(l.tokens[e.Job]) < 0 {
		l.violate("tokens grow", "job %s: token %s began after %s", e.Job, e.Token, l.tokens[e.Job])
	}
	l.tokens[e.Job] = e.Token
	if l.jobs[e.Job] == nil && !isRun(e.Job) {
		l.violate("only submitted jobs run", "job %s", e.Job)
	} else {
		l.begins(e.Job, l.record(e.Job))
	}
	l.holders[e.Job] = append(l.holders[e.Job], belief{r, e.Lease, e.Job, time.Now()})
}

// release ends a belief; the caller holds the lock.
func (l *ledger) release(r *workerRun, job rota.JobID, lease rota.LeaseID) {
	now := l.kept.Now()
	l.kept.Add(check.Op{Process: string(r.id), Func: check.OpEnd, Job: string(job), Lease: lease.String(), Invoke: now,
		Return: now})
	left := slices.DeleteFunc(l.holders[job], func(b belief) bool { return b.run == r && b.lease == lease })
	if len(left) == 0 {
		delete(l.holders, job)
		return
	}
	l.holders[job] = left
}

func (l *ledger) finished(r *workerRun, e client.HandlerEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.release(r, e.Job, e.Lease)
	if e.Err == nil && !l.dead[r] {
		l.record(e.Job).ran[e.Lease] = true
	}
}

func (l *ledger) lost(r *workerRun, e client.HandlerEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.lost++
	l.release(r, e.Job, e.Lease)
}

func (l *ledger) reported(r *workerRun, e client.HandlerEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	rec := l.record(e.Job)
	// A lease that was lost after its handler had returned well is declined.
	if e.Err != nil || e.Verb != rota.VerbComplete || !rec.ran[e.Lease] || l.dead[r] {
		return
	}
	l.counts.completed++
	rec.taken[e.Lease] = true
	if n := logLines(e.Lease); n > 0 {
		l.logged = append(l.logged, check.LoggedLease{Job: string(e.Job), Lease: e.Lease.String(), Lines: n})
	}
}

// died ends all beliefs of a process, and returns the leases that it leaves behind.
func (l *ledger) died(r *workerRun) (left []belief) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead[r] = true
	for job, all := range l.holders {
		for _, b := range slices.Clone(all) {
			if b.run == r {
				left = append(left, b)
				l.release(r, job, b.lease)
			}
		}
	}
	return left
}

// judge compares a job at the end with its acknowledgements.
func (l *ledger) judge(id rota.JobID, job *rota.Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	rec := l.jobs[id]
	switch {
	case job == nil && rec.accepted:
		l.violate("an accepted job is never lost", "job %s is not known", id)
		return
	case job == nil:
		return
	case rec.refused && !rec.accepted:
		l.violate("a refused job is not taken", "job %s is %s", id, job.State)
	case len(rec.taken) > 1 && rec.retried == 0:
		l.violate("a job completes once", "job %s: %d completions were accepted", id, len(rec.taken))
	}
	if job.MergedInto != "" { // the job that it was merged into is checked under its own id
		if _, known := l.jobs[job.MergedInto]; !known || job.MergedInto == id {
			l.violate("a submission is merged into a job that was submitted", "job %s was merged into %q", id,
				job.MergedInto)
		}
		return
	}
	switch job.State {
	case rota.JobCompleted:
		var by rota.LeaseID
		if by.UnmarshalText(job.Output) != nil || !rec.ran[by] {
			l.violate("what completed was done", "job %s is COMPLETED with output %q, which no handler returned", id,
				job.Output)
		}
		if rec.retried == 0 && len(rec.taken) == 1 && !rec.taken[by] {
			l.violate("a job completes once", "job %s holds the output of lease %s, another was accepted", id, by)
		}
	case rota.JobCancelled:
		if rec.cancelled == 0 && rec.flow == "" { // a workflow's jobs are checked with it
			l.violate("nothing is cancelled without a request", "job %s is CANCELLED (%s)", id, job.Reason)
		}
	case rota.JobExpired:
		if rec.ttl == 0 {
			l.violate("nothing expires without a reason", "job %s is EXPIRED (%s)", id, job.Reason)
		}
	}
	if len(rec.taken) > 0 && job.State != rota.JobCompleted && rec.retried == 0 {
		l.violate("a completion stays", "job %s is %s, though a completion was accepted", id, job.State)
	}
}
