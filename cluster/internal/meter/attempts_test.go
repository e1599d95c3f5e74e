package meter

import (
	"fmt"
	"maps"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
)

// counted returns the series of counters as name{labels in order} and their values.
func counted(t *testing.T, collectors ...prometheus.Collector) map[string]float64 {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(collectors...)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			got[f.GetName()+labelText(m.GetLabel())] = m.GetCounter().GetValue()
		}
	}
	return got
}

func labelText(labels []*dto.LabelPair) (text string) {
	for _, l := range labels {
		text += " " + l.GetValue()
	}
	return text
}

// TestAttempts_countsByReason: every end of an attempt is counted by queue and reason, a retry once, and one that uses
// up an attempt also by type.
func TestAttempts_countsByReason(t *testing.T) {
	t.Parallel()
	m := New()
	end := func(kind rota.EventKind, why rota.Reason) rota.Event {
		return rota.Event{Kind: kind, Queue: "q", Type: "resize", Job: "j", Lease: rota.LeaseID{1}, Reason: why}
	}
	next := func(kind rota.EventKind) rota.Event { return rota.Event{Kind: kind, Queue: "q", Job: "j"} }
	dead := func(kind rota.EventKind) rota.Event {
		return rota.Event{Kind: kind, Queue: "q", Type: "resize", Job: "j", Reason: rota.ReasonProviderFail}
	}
	other := rota.Event{Kind: rota.EventJobEnqueued, Queue: "q", Job: "another"}
	for _, entry := range [][]rota.Event{
		{end(rota.EventJobCompleted, rota.ReasonDone), other},
		{end(rota.EventLeaseCancelled, rota.ReasonProviderFail), other, next(rota.EventJobRetryScheduled)},
		{end(rota.EventLeaseCancelled, rota.ReasonProviderFail), dead(rota.EventJobDead), next(rota.EventJobEnqueued)},
		{other, dead(rota.EventJobDead)}, // its handler allowed no retry
		{end(rota.EventJobCancelled, rota.ReasonCancelledByHandler)},
		{next(rota.EventJobCancelled)}, // it had no attempt
		{end(rota.EventLeaseCancelled, rota.ReasonTimedOut), next(rota.EventJobEnqueued)},
		{end(rota.EventLeaseExpired, rota.ReasonLeaseExpired), next(rota.EventJobRetryScheduled)},
		{end(rota.EventLeaseCancelled, rota.ReasonAckTimeout), next(rota.EventJobDead)},
		{end(rota.EventLeaseDeclined, rota.ReasonDeclined), next(rota.EventJobRetryScheduled)},
		{end(rota.EventLeaseCancelled, rota.ReasonCancelledByUser), next(rota.EventJobCancelled)},
		{end(rota.EventLeaseCancelled, rota.ReasonTTLAbsolute),
			next(rota.EventJobEnqueued)}, // a retry after the confirmation
		{end(rota.EventLeaseExpired, rota.ReasonWorkerLost), next(rota.EventJobIsolated), other,
			next(rota.EventJobRetryScheduled)},
		{end(rota.EventLeaseCancelled, rota.ReasonInterruptedCounted), next(rota.EventJobRetryScheduled)},
		{{Kind: rota.EventJobCompleted, Queue: "q", Job: "gate", Reason: rota.ReasonDone}},
		{end(rota.EventJobCompleted, rota.ReasonDone), next(rota.EventJobEnqueued)}, // its id was submitted again
	} {
		m.CountEvents(entry)
	}
	want := map[string]float64{
		"rota_attempts_ended_total q DONE": 2, "rota_attempts_ended_total q PROVIDER_FAIL": 3,
		"rota_attempts_ended_total q TIMED_OUT":     1,
		"rota_attempts_ended_total q LEASE_EXPIRED": 1, "rota_attempts_ended_total q ACK_TIMEOUT": 1,
		"rota_attempts_ended_total q DECLINED": 1, "rota_attempts_ended_total q CANCELLED_BY_HANDLER": 1,
		"rota_attempts_ended_total q CANCELLED": 1, "rota_attempts_retried_total q PROVIDER_FAIL": 1,
		"rota_attempts_retried_total q TIMED_OUT":     1,
		"rota_attempts_retried_total q LEASE_EXPIRED": 1, "rota_attempts_retried_total q DECLINED": 1,
		"rota_type_attempts_total completed resize": 2, "rota_type_attempts_total failed resize": 3,
		"rota_type_attempts_total timed_out resize": 1,
		"rota_type_attempts_total lost resize":      3,
		"rota_attempts_ended_total q TTL_ABSOLUTE":  1, "rota_attempts_ended_total q WORKER_LOST": 1,
		"rota_attempts_retried_total q WORKER_LOST":       1,
		"rota_attempts_ended_total q INTERRUPTED_COUNTED": 1, "rota_attempts_retried_total q INTERRUPTED_COUNTED": 1,
	}
	got := counted(t, m.attempts.ended, m.attempts.retried, m.attempts.types)
	maps.DeleteFunc(got, func(_ string, n float64) bool { return n == 0 })
	for series, n := range want {
		if got[series] != n {
			t.Errorf("%s: got %v, want %v", series, got[series], n)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %v, want %d series", got, len(want))
	}
	m.CountEvents([]rota.Event{{Kind: rota.EventQueueDeleted, Queue: "q"}})
	if got := counted(t, m.attempts.ended, m.attempts.retried); len(got) != 2 { // those of all other queues
		t.Errorf("after the queue is deleted: got %v", got)
	}
}

// TestAttempts_boundsSeries: queues and types beyond the limits are counted together.
func TestAttempts_boundsSeries(t *testing.T) {
	t.Parallel()
	m := New()
	const more = 7
	for i := range limits.MaxMeasuredQueues + more {
		m.CountEvents([]rota.Event{{Kind: rota.EventJobCompleted, Queue: rota.QueueName(fmt.Sprint("q", i)),
			Type: rota.JobType(fmt.Sprint("t", i)), Lease: rota.LeaseID{1}, Reason: rota.ReasonDone}})
	}
	got := counted(t, m.attempts.ended)
	if len(got) != limits.MaxMeasuredQueues+1 || got["rota_attempts_ended_total  DONE"] != more {
		t.Errorf("%d queues, %v together", len(got), got["rota_attempts_ended_total  DONE"])
	}
	types := counted(t, m.attempts.types)
	together := float64(limits.MaxMeasuredQueues + more - limits.MaxMeasuredTypes)
	if len(types) != len(attemptOutcomes)*(limits.MaxMeasuredTypes+1) ||
		types["rota_type_attempts_total completed "] != together {
		t.Errorf("%d series of types, %v together", len(types), types["rota_type_attempts_total completed "])
	}
}

// TestAttempts_sumsCosts: costs of attempts are summed by queue and name, and names beyond the limit together.
func TestAttempts_sumsCosts(t *testing.T) {
	t.Parallel()
	m := New()
	for i := range limits.MaxMeasuredCosts + 2 {
		spent := fmt.Sprintf(`{"spent":{"c%d":0.5,"c0":1}}`, i)
		if i == 0 {
			spent = `{"output_digest":"00","spent":{"c0":2.25}}`
		}
		m.CountEvents([]rota.Event{{Kind: rota.EventJobCompleted, Queue: "q", Lease: rota.LeaseID{1},
			Reason: rota.ReasonDone, Payload: spent}})
	}
	m.CountEvents([]rota.Event{{Kind: rota.EventJobDead, Queue: "q", Payload: `{"spent":{"c0":1}}`},
		{Kind: rota.EventJobDead, Queue: "q", Payload: `{"spent":`}})
	got := counted(t, m.attempts.costs)
	want := 2.25 + float64(limits.MaxMeasuredCosts+1) + 1
	if got["rota_cost_total c0 q"] != want || got["rota_cost_total c1 q"] != 0.5 || got["rota_cost_total  q"] != 1 {
		t.Errorf("%v, want %v of c0", got, want)
	}
	m.CountEvents([]rota.Event{{Kind: rota.EventQueueDeleted, Queue: "q"}})
	if got := counted(t, m.attempts.costs); len(got) != 1 {
		t.Errorf("after the queue is deleted: %v", got)
	}
}
