package client

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
)

const (
	// minReport is the minimum time for which a draining worker tries to report an outcome, even if the lease is over
	// by its view: if the cluster's clock was stopped, the cluster still accepts it.
	minReport = 10 * time.Second
	// unreportedNamed bounds the jobs that the text of an UnreportedError names.
	unreportedNamed = 50
)

// UnreportedError is returned by Run when the worker had to stop before the cluster accepted the outcomes of some jobs.
// Its kind is rota.KindUnavailable.
type UnreportedError struct {
	// Jobs are the jobs whose outcomes the cluster may not have. Their leases run out, and they run again.
	Jobs []rota.JobID
}

// Error implements error. It names the first jobs.
func (e *UnreportedError) Error() string {
	named := make([]string, min(len(e.Jobs), unreportedNamed))
	for i := range named {
		named[i] = string(e.Jobs[i])
	}
	more := ""
	if n := len(e.Jobs) - len(named); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	noun := "jobs"
	if len(e.Jobs) == 1 {
		noun = "job"
	}
	return fmt.Sprintf("the cluster did not take the outcome of %d %s, which may run again: %s%s", len(e.Jobs), noun,
		strings.Join(named, ", "), more)
}

// Unwrap makes rota.KindOf return KindUnavailable.
func (e *UnreportedError) Unwrap() error {
	return &rota.Error{Kind: rota.KindUnavailable, Text: e.Error()}
}

// giveUpAt returns the local time from which a draining worker no longer tries to report the lease's outcome: when the
// lease is over by its view, which without an answered beat is after the longest allowed silence.
func (t *leaseTable) giveUpAt(l *lease) time.Duration {
	end := l.received + limits.BeatLost
	if t.point.known {
		end = l.end(t.point)
	}
	return max(end, t.drainedAt+minReport)
}

// giveUp drops an outcome that could not be reported.
func (t *leaseTable) giveUp(l *lease) {
	verb, job := l.outcome.Verb, l.assignment.Lease.Job
	t.log.Error("dropped an outcome: the cluster is unreachable, and the lease ended", "job", string(job),
		"lease", l.assignment.Lease.ID.String(), "verb", verb.String())
	if f := t.worker.observer.GivenUp; f != nil {
		t.news = append(t.news, observation{f: f, lease: l, verb: verb})
	}
	t.unreported = append(t.unreported, job)
	t.forget(l)
}

// unreportedJobs returns an error that names the jobs whose outcomes were given up or are not yet reported; nil if
// there are none.
func (t *leaseTable) unreportedJobs() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	jobs := append([]rota.JobID(nil), t.unreported...)
	for _, l := range t.leases {
		if l.phase == reporting {
			jobs = append(jobs, l.assignment.Lease.Job)
		}
	}
	if len(jobs) == 0 {
		return nil
	}
	slices.Sort(jobs)
	return &UnreportedError{Jobs: jobs}
}
