package meter

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/limits"
)

// attempts counts attempts by outcome, as applied by this node. The caller serialises the calls.
type attempts struct {
	ended, retried, types *prometheus.CounterVec
	// costs sums the costs of attempts; names are the costs that are summed by themselves.
	costs  *prometheus.CounterVec
	names  map[string]bool
	queues map[rota.QueueName]*queueAttempts
	byType map[rota.JobType]*[len(attemptOutcomes)]prometheus.Counter
}

// queueAttempts holds the counters of a queue: by reason, and of each cost that is summed by itself.
type queueAttempts struct {
	by    [rota.ReasonLast + 1]endedAttempts
	costs map[string]prometheus.Counter
}

// endedAttempts holds the counters of a queue and a reason; nil before the first such attempt.
type endedAttempts struct{ ended, retried prometheus.Counter }

// attemptOutcomes are the values of the label outcome, indexed by attemptOutcome.
var attemptOutcomes = [...]string{"completed", "failed", "timed_out", "lost"}

func newAttempts() *attempts {
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rota_" + name, Help: help}, labels)
	}
	a := &attempts{
		ended: vec("attempts_ended_total", "Attempts that ended, by why: DONE is a completion.", "queue", "reason"),
		retried: vec("attempts_retried_total", "Attempts that ended and whose job is tried again, by why they ended.",
			"queue", "reason"),
		types: vec("type_attempts_total",
			"Attempts that completed, used up one of their job's or lost their worker, by the job's type.", "type",
			"outcome"),
		costs:  vec("cost_total", "Costs used by ended attempts, in units.", "queue", "name"),
		names:  make(map[string]bool),
		queues: make(map[rota.QueueName]*queueAttempts),
		byType: make(map[rota.JobType]*[len(attemptOutcomes)]prometheus.Counter),
	}
	a.of("", rota.ReasonDone) // so that a series of each exists before the first attempt
	a.retried.WithLabelValues("", rota.ReasonProviderFail.String())
	a.ofType("")
	a.costs.WithLabelValues("", "")
	return a
}

// attemptOutcome returns the index in attemptOutcomes for a reason. It returns false for a reason that reveals nothing
// about the job's type: the attempt does not count and its worker was present, or an operator ended it.
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

// count counts an event that ends an attempt; before and after hold the other events of its entry.
func (a *attempts) count(e *rota.Event, before, after []rota.Event) {
	if strings.Contains(e.Payload, `"spent":`) {
		a.spend(e)
	}
	switch e.Kind {
	case rota.EventJobCompleted, rota.EventLeaseCancelled, rota.EventLeaseExpired, rota.EventLeaseDeclined,
		rota.EventJobCancelled:
		if e.Lease == (rota.LeaseID{}) { // a gate has no attempts, and a job that is cancelled need not have one
			return
		}
	case rota.EventJobDead:
		if !notRetried(e, before) {
			return
		}
	case rota.EventQueueDeleted:
		a.forget(e.Queue)
		return
	default:
		return
	}
	if e.Reason > rota.ReasonLast {
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

// notRetried reports whether a job is dead because its handler allows no retry: the one end of an attempt without an
// event of its lease.
func notRetried(e *rota.Event, before []rota.Event) bool {
	return e.Reason == rota.ReasonProviderFail && !slices.ContainsFunc(before, func(b rota.Event) bool {
		return b.Job == e.Job && b.Attempt == e.Attempt && (b.Kind == rota.EventLeaseCancelled ||
			b.Kind == rota.EventLeaseExpired)
	})
}

// spend sums what an attempt has used, as the event that ends it reports.
func (a *attempts) spend(e *rota.Event) {
	spent := fsm.SpentIn(e.Payload)
	for _, name := range spent.Names() {
		label := name
		if !a.names[name] && len(a.names) >= limits.MaxMeasuredCosts {
			label = ""
		} else {
			a.names[name] = true
		}
		queue := a.label(e.Queue)
		of := a.queues[rota.QueueName(queue)].costs
		if of[label] == nil {
			of[label] = a.costs.WithLabelValues(queue, label)
		}
		of[label].Add(float64(spent[name]) / rota.CostUnit)
	}
}

// retried reports whether the job of an ended attempt waits for its next one, according to the entry's next event about
// it other than its isolation. A lease that outlived its job has no next attempt, though the entry may let a retry of
// the job continue.
func retried(e *rota.Event, after []rota.Event) bool {
	if e.Kind == rota.EventJobCompleted || e.Reason.EndsJob() {
		return false // the next event about it, if any, belongs to a later submission
	}
	for i := range after {
		if after[i].Job == e.Job && after[i].Kind != rota.EventJobIsolated {
			return after[i].Kind == rota.EventJobRetryScheduled || after[i].Kind == rota.EventJobEnqueued
		}
	}
	return false
}

// label returns a queue's label: the first queues are counted separately, all others together.
func (a *attempts) label(queue rota.QueueName) string {
	if a.queues[queue] == nil && len(a.queues) <= limits.MaxMeasuredQueues { // plus the one for all others
		a.queues[queue] = &queueAttempts{costs: make(map[string]prometheus.Counter)}
	}
	if a.queues[queue] == nil {
		return ""
	}
	return string(queue)
}

func (a *attempts) of(queue rota.QueueName, why rota.Reason) *endedAttempts {
	label := a.label(queue)
	of := &a.queues[rota.QueueName(label)].by[why]
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

// forget removes the series of a deleted queue.
func (a *attempts) forget(queue rota.QueueName) {
	if queue == "" || a.queues[queue] == nil {
		return
	}
	delete(a.queues, queue)
	a.ended.DeletePartialMatch(prometheus.Labels{"queue": string(queue)})
	a.retried.DeletePartialMatch(prometheus.Labels{"queue": string(queue)})
	a.costs.DeletePartialMatch(prometheus.Labels{"queue": string(queue)})
}
