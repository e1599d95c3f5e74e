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
	// tellLeast is how long a worker that drains goes on trying to tell an outcome, even
	// of a lease that is over by its view: the cluster's clock may have stood still, and
	// then takes it.
	tellLeast = 10 * time.Second
	// untoldNamed bounds the jobs that an UntoldError's text names.
	untoldNamed = 50
)

// UntoldError is what Run returns when the worker had to stop before the cluster took
// what became of some jobs. It is of kind rota.KindUnavailable.
type UntoldError struct {
	// Jobs are those whose outcomes the cluster may not have. Their leases run out, and
	// they run again.
	Jobs []rota.JobID
}

// Error implements error. It names the first jobs.
func (e *UntoldError) Error() string {
	named := make([]string, min(len(e.Jobs), untoldNamed))
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
	return fmt.Sprintf("the cluster could not be told the outcome of %d %s, which may run again: %s%s", len(e.Jobs), noun,
		strings.Join(named, ", "), more)
}

// Unwrap makes rota.KindOf say Unavailable.
func (e *UntoldError) Unwrap() error { return &rota.Error{Kind: rota.KindUnavailable, Text: e.Error()} }

// giveUpAt is the local moment from which a worker that drains tries no more to tell the
// lease's outcome: the lease is over by its view, which without an answered beat is so
// after the longest silence.
func (b *book) giveUpAt(l *lease) time.Duration {
	end := l.received + limits.BeatLost
	if b.point.known {
		end = l.end(b.point)
	}
	return max(end, b.drainedAt+tellLeast)
}

// giveUp drops an outcome that could not be told.
func (b *book) giveUp(l *lease) {
	verb, job := l.outcome.Verb, l.assignment.Lease.Job
	b.log.Error("outcome given up: the cluster cannot be reached, and the lease is over", "job", string(job),
		"lease", l.assignment.Lease.ID.String(), "verb", verb.String())
	if f := b.worker.observer.GivenUp; f != nil {
		b.told = append(b.told, telling{f: f, lease: l, verb: verb})
	}
	b.untold = append(b.untold, job)
	b.forget(l)
}

// untoldJobs returns the error that names the jobs whose outcomes were given up, or are
// not told yet; nil where there are none.
func (b *book) untoldJobs() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	jobs := append([]rota.JobID(nil), b.untold...)
	for _, l := range b.leases {
		if l.phase == reporting {
			jobs = append(jobs, l.assignment.Lease.Job)
		}
	}
	if len(jobs) == 0 {
		return nil
	}
	slices.Sort(jobs)
	return &UntoldError{Jobs: jobs}
}
