package meter

import (
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rotasched/rota"
)

// Latencies keeps the durations of the latest commits.
type Latencies struct {
	mu   sync.Mutex
	ring [LatenciesKept]struct{ at, took time.Duration }
	next int
}

// Note records a commit: when it ended and how long it took.
func (l *Latencies) Note(at, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ring[l.next].at, l.ring[l.next].took = at, took
	l.next = (l.next + 1) % LatenciesKept
}

// Median returns the median of the last DegradeAfter, 0 without any commit.
func (l *Latencies) Median(now time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	took := make([]time.Duration, 0, LatenciesKept)
	for _, c := range l.ring {
		if c.took > 0 && now-c.at < DegradeAfter {
			took = append(took, c.took)
		}
	}
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// Measures holds a node's counters and timers. They belong to the node and are not global, so that several nodes may
// run in one process.
type Measures struct {
	Commit, Apply, Decide prometheus.Histogram
	// Held is how long a frozen copy delays applying; written is the time for a whole snapshot or backup.
	Held, Written                prometheus.Histogram
	EntryOps                     prometheus.Histogram
	Leaderships, Unknown, Rounds prometheus.Counter
	refusedEntries               prometheus.Counter
	released, CommitMessages     prometheus.Counter
	rejected, Dates              *prometheus.CounterVec
	attempts                     *attempts
}

// New returns counters at zero.
func New() *Measures {
	seconds := prometheus.ExponentialBuckets(0.000_05, 2, 18)
	h := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "rota_" + name, Help: help, Buckets: buckets})
	}
	c := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "rota_" + name, Help: help})
	}
	return &Measures{
		rejected: newRejected(),
		Dates:    newDates(),
		attempts: newAttempts(),
		Commit:   h("raft_commit_seconds", "From proposing an entry to having applied it, on the leader.", seconds),
		Apply:    h("apply_seconds", "Applying one entry.", seconds),
		Decide:   h("decision_seconds", "Deciding one entry of rounds.", seconds),
		Held: h("snapshot_hold_seconds",
			"Freezing the state for a snapshot, a backup or a node that fetches it, while nothing is applied.",
			seconds),
		Written: h("snapshot_write_seconds", "Writing one snapshot or backup, while entries are applied.",
			prometheus.ExponentialBuckets(0.001, 2, 18)),
		EntryOps: h("entry_operations", "Operations in one entry, on the leader.",
			prometheus.ExponentialBuckets(1, 2, 11)),
		Leaderships:    c("leaderships_total", "Leaderships that this node began."),
		Unknown:        c("ambiguous_outcomes_total", "Entries whose outcome was unknown, as leadership was lost."),
		Rounds:         c("rounds_total", "Entries of rounds that this node decided."),
		refusedEntries: c("entries_refused_total", "Entries refused for a stamp too far ahead."),
		released:       c("workflow_nodes_released_total", "Nodes of workflows whose jobs were queued."),
		CommitMessages: c("commit_messages_total",
			"Messages that only report the commit index to a follower."),
	}
}

// Collectors returns the metrics.
func (m *Measures) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.Commit, m.Apply, m.Decide, m.Held, m.Written, m.EntryOps, m.Leaderships, m.Unknown,
		m.Rounds, m.refusedEntries, m.rejected, m.Dates, m.attempts.ended, m.attempts.retried, m.attempts.types,
		m.attempts.costs, m.released, m.CommitMessages}
}

// CountEvents counts an applied entry's events about the cluster's health and work.
func (m *Measures) CountEvents(events []rota.Event) {
	for i := range events {
		m.attempts.count(&events[i], events[:i], events[i+1:])
		switch e := &events[i]; {
		case e.Kind == rota.EventEntryRefused:
			m.refusedEntries.Inc()
		case (e.Kind == rota.EventJobEnqueued || e.Kind == rota.EventJobDelayed) && e.Run != "" &&
			e.Parent.IsZero(): // the first of a node's job
			m.released.Inc()
		case e.Kind == rota.EventScheduleFired:
			m.Dates.WithLabelValues("run").Inc()
		case e.Kind == rota.EventScheduleSkipped:
			m.Dates.WithLabelValues("skipped").Inc()
		case e.Kind == rota.EventScheduleMissed:
			m.Dates.WithLabelValues("missed").Add(missedDates(e))
		}
	}
}

// missedDates returns how many missed dates an event reports.
func missedDates(e *rota.Event) float64 {
	var p struct {
		Count uint64 `json:"count"`
	}
	if err := json.Unmarshal([]byte(e.Payload), &p); err != nil {
		return 1 // the machine wrote it: it can always be read
	}
	return float64(p.Count)
}

// CountSubmitted counts the results of a batch of submissions.
func (m *Measures) CountSubmitted(submitted []rota.Submitted) {
	for i := range submitted {
		if r := rejectedReason(rota.ErrorOf(submitted[i].Err)); r != "" {
			m.rejected.WithLabelValues(r).Inc()
		}
	}
}

// CountRefused counts a rejected workflow.
func (m *Measures) CountRefused(err error) {
	var e *rota.Error
	if errors.As(err, &e) {
		if r := rejectedReason(e); r != "" {
			m.rejected.WithLabelValues(r).Inc()
		}
	}
}

const (
	// DegradeAfter is how long a measure must stay over its threshold.
	DegradeAfter = 10 * time.Second
	// LatenciesKept bounds the commits that a median is calculated from, those of the last DegradeAfter: an idle
	// leader's old ones are irrelevant.
	LatenciesKept = 256
)

// rejectedReason returns the check that rejected a job; "" if none did, such as for an unknown outcome.
func rejectedReason(e *rota.Error) string {
	if e == nil {
		return ""
	}
	switch e.Kind {
	case rota.KindInvalid:
		return "invalid"
	case rota.KindNotFound:
		return "no_queue"
	case rota.KindMode:
		return "mode"
	case rota.KindExhausted:
		switch e.Subject {
		case "queue":
			return "queue"
		case "rate_limit_rps":
			return "rate"
		case "requires":
			return "classes"
		}
		return "other"
	default:
		return ""
	}
}

func newDates() *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rota_schedule_dates_total",
		Help: "Dates of schedules by what became of them, as this node applied it: run (those that were triggered among them), skipped, missed."}, []string{"fate"})
	for _, fate := range []string{"run", "skipped", "missed"} {
		v.WithLabelValues(fate)
	}
	return v
}

func newRejected() *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rota_admission_rejected_total",
		Help: "Jobs and workflows submitted through this node that were refused, by the check that refused them."},
		[]string{"reason"})
	for _, r := range RejectedReasons {
		v.WithLabelValues(r) // so that a series exists before the first rejection
	}
	return v
}

// RejectedReasons are the labels of rota_admission_rejected_total: the checks of SPEC §4 in their order.
var RejectedReasons = []string{"invalid", "no_queue", "mode", "queue", "rate", "classes", "other"}
