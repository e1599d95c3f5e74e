package rig

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
)

// refusalsKept bounds the refusals that a ledger keeps.
const refusalsKept = 10

// Ledger records the jobs that a cluster acknowledged, and refusals that no user should get while nodes come and go.
type Ledger struct {
	mu       sync.Mutex
	accepted map[rota.JobID]time.Time
	refused  []error
	allowed  func(error) bool
}

// NewLedger returns an empty ledger.
func NewLedger() *Ledger { return &Ledger{accepted: make(map[rota.JobID]time.Time)} }

// Submit sends a job until it is answered or ctx ended: a job without an outcome is sent again under the same id, each
// call within most.
func (l *Ledger) Submit(ctx context.Context, c *client.Client, spec rota.JobSpec, most time.Duration) {
	l.Answered(ctx, most, func(ctx context.Context) error {
		_, err := c.Submit(ctx, spec)
		return err
	}, spec.ID)
}

// Answered repeats call until it is answered or ctx ended, and records the jobs as accepted.
func (l *Ledger) Answered(ctx context.Context, most time.Duration, call func(context.Context) error,
	jobs ...rota.JobID) {
	for ctx.Err() == nil {
		inner, cancel := context.WithTimeout(ctx, most)
		err := call(inner)
		cancel()
		if err == nil {
			l.accept(jobs)
			return
		}
		if ctx.Err() == nil && rota.KindOf(err) != rota.KindUnavailable && rota.KindOf(err) != rota.KindTimeout {
			l.Refuse(err)
		}
	}
}

func (l *Ledger) accept(jobs []rota.JobID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range jobs {
		l.accepted[id] = time.Now()
	}
}

// Allow makes refusals of that kind acceptable from now on.
func (l *Ledger) Allow(refusal func(error) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.allowed = refusal
}

// Refuse records an answer that no user should get.
func (l *Ledger) Refuse(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.allowed != nil && l.allowed(err) {
		return
	}
	if len(l.refused) < refusalsKept {
		l.refused = append(l.refused, err)
	}
}

// Refused returns the first of these answers.
func (l *Ledger) Refused() []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.refused)
}

// Count returns how many jobs were accepted so far.
func (l *Ledger) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.accepted)
}

// Has reports whether a job was accepted.
func (l *Ledger) Has(id rota.JobID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, accepted := l.accepted[id]
	return accepted
}

// Accepted returns the accepted jobs.
func (l *Ledger) Accepted() []rota.JobID {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := make([]rota.JobID, 0, len(l.accepted))
	for id := range l.accepted {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Gap returns the longest time without an accepted job from a moment on.
func (l *Ledger) Gap(from time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	var moments []time.Time
	for _, at := range l.accepted {
		if at.After(from) {
			moments = append(moments, at)
		}
	}
	slices.SortFunc(moments, time.Time.Compare)
	longest, last := time.Duration(0), from
	for _, at := range moments {
		longest, last = max(longest, at.Sub(last)), at
	}
	return longest
}
