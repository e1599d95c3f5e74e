package cluster

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
)

// attempts counts how attempts ended, as this node applied it. Its caller serialises the calls.
type attempts struct {
	ended, retried, types *prometheus.CounterVec
	queues                map[rota.QueueName]*[rota.ReasonLast + 1]endedAttempts
	byType                map[rota.JobType]*[len(attemptOutcomes)]prometheus.Counter
}

// endedAttempts are the counters of a queue and a reason; nil before the first such attempt.
type endedAttempts struct{ ended, retried prometheus.Counter }

// attemptOutcomes are the values of the label outcome, by attemptOutcome.
var attemptOutcomes = [...]string{"completed", "failed", "timed_out", "lost"}

func newAttempts() *attempts {
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rota_" + name, Help: help}, labels)
	}
	a := &attempts{
		ended:   vec("attempts_ended_total", "Attempts that ended, by why: DONE is a completion.", "queue", "reason"),
		retried: vec("attempts_retried_total", "Attempts that ended and whose job is tried again, by why they ended.", "queue", "reason"),
		types:   vec("type_attempts_total", "Attempts that completed, used up one of their job's or lost their worker, by the job's type.", "type", "outcome"),
		queues:  make(map[rota.QueueName]*[rota.ReasonLast + 1]endedAttempts),
		byType:  make(map[rota.JobType]*[len(attemptOutcomes)]prometheus.Counter),
	}
	a.of("", rota.ReasonDone) // so that a series of each is there before the first attempt
	a.retried.WithLabelValues("", rota.ReasonProviderFail.String())
	a.ofType("")
	return a
}

// attemptOutcome returns the place in attemptOutcomes of a reason, false for one that says nothing of its type: it uses up no
// attempt and its worker was there, or an operator ended it.
func attemptOutcome(why rota.Reason) (int, bool) {
	switch why {
	case rota.ReasonDone:
		return 0, true
	case rota.ReasonProviderFail, rota.ReasonProofInvalid:
		return 1, true
	case rota.ReasonTimedOut:
		return 2, true
	case rota.ReasonAckTimeout, rota.ReasonLeaseExpired, rota.ReasonWorkerLost:
		return 3, true
	default:
		return 0, false
	}
}

// count notes an event of an entry where it ends an attempt; after are the entry's events behind it.
func (a *attempts) count(e *rota.Event, after []rota.Event) {
	switch e.Kind {
	case rota.EventJobCompleted, rota.EventLeaseCancelled, rota.EventLeaseExpired, rota.EventLeaseDeclined:
	case rota.EventQueueDeleted:
		a.forget(e.Queue)
		return
	default:
		return
	}
	if e.Lease == (rota.LeaseID{}) || e.Reason > rota.ReasonLast { // a gate has no attempts
		return
	}
	of := a.of(e.Queue, e.Reason)
	of.ended.Inc()
	if retried(e, after) {
		if of.retried == nil {
			of.retried = a.retried.WithLabelValues(a.label(e.Queue), e.Reason.String())
		}
		of.retried.Inc()
	}
	if outcome, ok := attemptOutcome(e.Reason); ok && e.Type != "" {
		a.ofType(e.Type)[outcome].Inc()
	}
}

// retried reports whether the job of an attempt that ended waits for its next one: what the entry says next of it, but
// for its isolation. A lease that outlived its job is followed by none, though the entry may let a retry of the job go on.
func retried(e *rota.Event, after []rota.Event) bool {
	if e.Reason.EndsJob() {
		return false
	}
	for i := range after {
		if after[i].Job == e.Job && after[i].Kind != rota.EventJobIsolated {
			return after[i].Kind == rota.EventJobRetryScheduled || after[i].Kind == rota.EventJobEnqueued
		}
	}
	return false
}

// label returns a queue's label: the first queues are counted apart, all others together.
func (a *attempts) label(queue rota.QueueName) string {
	if a.queues[queue] == nil {
		return ""
	}
	return string(queue)
}

func (a *attempts) of(queue rota.QueueName, why rota.Reason) *endedAttempts {
	if a.queues[queue] == nil && len(a.queues) <= limits.MaxMeasuredQueues { // and that of all others
		a.queues[queue] = new([rota.ReasonLast + 1]endedAttempts)
	}
	label := a.label(queue)
	of := &a.queues[rota.QueueName(label)][why]
	if of.ended == nil {
		of.ended = a.ended.WithLabelValues(label, why.String())
	}
	return of
}

func (a *attempts) ofType(typ rota.JobType) *[len(attemptOutcomes)]prometheus.Counter {
	if len(a.byType) > limits.MaxMeasuredTypes && a.byType[typ] == nil {
		typ = ""
	}
	all := a.byType[typ]
	if all == nil {
		all = new([len(attemptOutcomes)]prometheus.Counter)
		for i, outcome := range attemptOutcomes {
			all[i] = a.types.WithLabelValues(string(typ), outcome)
		}
		a.byType[typ] = all
	}
	return all
}

// forget drops the series of a queue that was deleted.
func (a *attempts) forget(queue rota.QueueName) {
	if queue == "" || a.queues[queue] == nil {
		return
	}
	delete(a.queues, queue)
	a.ended.DeletePartialMatch(prometheus.Labels{"queue": string(queue)})
	a.retried.DeletePartialMatch(prometheus.Labels{"queue": string(queue)})
}
