package cluster

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
)

// measures are what a node counts and times. They are its own, not global, so
// that several nodes may live in one process.
type measures struct {
	commit, apply, decide, flush prometheus.Histogram
	// held is what a frozen copy costs applying; written is a whole snapshot or backup.
	held, written                prometheus.Histogram
	entryOps                     prometheus.Histogram
	leaderships, unknown, rounds prometheus.Counter
	refusedEntries, mismatches   prometheus.Counter
	released, told               prometheus.Counter
	rejected                     *prometheus.CounterVec
}

func newMeasures() *measures {
	seconds := prometheus.ExponentialBuckets(0.000_05, 2, 18)
	h := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "rota_" + name, Help: help, Buckets: buckets})
	}
	c := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "rota_" + name, Help: help})
	}
	return &measures{
		rejected: newRejected(),
		commit:   h("raft_commit_seconds", "From proposing an entry to having applied it, on the leader.", seconds),
		apply:    h("apply_seconds", "Applying one entry.", seconds),
		decide:   h("decision_seconds", "Deciding one entry of rounds.", seconds),
		flush:    h("archive_flush_seconds", "Writing one batch of ended jobs to the archive.", seconds),
		held: h("snapshot_hold_seconds", "Freezing the state for a snapshot, a backup or a node that fetches it, while nothing is applied.",
			seconds),
		written: h("snapshot_write_seconds", "Writing one snapshot or backup, while entries are applied.",
			prometheus.ExponentialBuckets(0.001, 2, 18)),
		entryOps: h("entry_operations", "Operations in one entry, on the leader.",
			prometheus.ExponentialBuckets(1, 2, 11)),
		leaderships:    c("leaderships_total", "Leaderships that this node began."),
		unknown:        c("ambiguous_outcomes_total", "Entries whose outcome was unknown, as leadership was lost."),
		rounds:         c("rounds_total", "Entries of rounds that this node decided."),
		refusedEntries: c("entries_refused_total", "Entries refused for a stamp too far ahead."),
		released:       c("workflow_nodes_released_total", "Nodes of workflows whose jobs came to be queued."),
		told:           c("commit_messages_total", "Messages that only told a follower how far the log is committed."),
		mismatches:     c("state_hash_mismatch_total", "Digests of other nodes that differed from this node's."),
	}
}

// Collectors gives the node's metrics to whoever serves them.
func (n *Node) Collectors() []prometheus.Collector {
	m := n.measures
	gauge := func(name, help string, read func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rota_" + name, Help: help}, read)
	}
	all := []prometheus.Collector{
		m.commit, m.apply, m.decide, m.flush, m.held, m.written, m.entryOps, m.leaderships, m.unknown, m.rounds, m.refusedEntries, m.mismatches,
		m.rejected, m.released, m.told, newAdmission(n), newFlowGauges(n),
		gauge("raft_leader", "1 while this node leads.", func() float64 {
			if n.terms.leading() != nil {
				return 1
			}
			return 0
		}),
		gauge("raft_term", "The present term.", func() float64 { return float64(n.raft.CurrentTerm()) }),
		gauge("raft_apply_lag_entries", "Committed entries that this node has not applied.", func() float64 {
			return float64(n.raft.CommitIndex()) - float64(n.raft.AppliedIndex())
		}),
		gauge("raft_last_contact_seconds", "Since the leader was last heard; 0 on the leader.", func() float64 {
			if n.terms.leading() != nil || n.raft.LastContact().IsZero() {
				return 0
			}
			return time.Since(n.raft.LastContact()).Seconds()
		}),
		gauge("cluster_clock_ms", "The cluster clock as this node applied it.", func() float64 {
			clock := rota.Clock(0)
			if !n.replica.peek(func(s *fsm.View) { clock = s.Head().Clock }) {
				return math.NaN()
			}
			return float64(clock)
		}),
		gauge("wall_skew_seconds", "This node's wall clock beyond the median of the voters.", func() float64 {
			n.watch.mu.Lock()
			defer n.watch.mu.Unlock()
			return float64(n.watch.skewMs) / 1000
		}),
		gauge("worker_streams", "Workers connected to this node.", func() float64 {
			n.replica.hub.mu.Lock()
			defer n.replica.hub.mu.Unlock()
			return float64(len(n.replica.hub.sessions))
		}),
		gauge("disk_free_bytes", "Free space under the data directory.", func() float64 {
			free, _, err := n.cfg.freeSpace(n.cfg.Data)
			if err != nil {
				return -1
			}
			return float64(free)
		}),
	}
	for _, part := range n.watched() {
		all = append(all, part.collectors()...)
	}
	return all
}

// watched is a part that says how it is.
type watched interface {
	// problems lists what is wrong, each with what to do.
	problems() []string
	collectors() []prometheus.Collector
}

func (n *Node) watched() []watched {
	return []watched{&n.history, &n.eventFeed, &n.rebuilder, &n.disk, &n.watchdog, &n.scrub}
}

// problems lists what is wrong with this node, each with what to do.
func (n *Node) problems() []string {
	problems := append([]string{}, n.watch.problems()...)
	for _, part := range n.watched() {
		problems = append(problems, part.problems()...)
	}
	if err := n.Ready(); err != nil {
		problems = append(problems, err.Error())
	}
	return problems
}

// countEvents notes what an applied entry says of the cluster's health and work.
func (m *measures) countEvents(events []rota.Event) {
	for i := range events {
		switch e := &events[i]; {
		case e.Kind == rota.EntryRefused:
			m.refusedEntries.Inc()
		case (e.Kind == rota.JobEnqueued || e.Kind == rota.JobDelayed) && e.Run != "" && e.Parent.IsZero(): // the first of a node's job
			m.released.Inc()
		}
	}
}
