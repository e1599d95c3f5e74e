package cluster

import (
	"context"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/cluster/internal/meter"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/peer"
)

// Stats returns this node's own samples of the last quarter of an hour or, with coarse, of the last day. It does not
// ask other nodes.
func (n *Node) Stats(_ context.Context, coarse bool) (peer.Stats, error) {
	return n.stats.Samples(coarse), nil
}

// Recent returns the recently ended jobs of each queue, as this node counted them. It does not ask other nodes.
func (n *Node) Recent(context.Context) map[rota.QueueName]peer.QueueRecent {
	return n.recent.Ended(rota.DateOf(n.wall()))
}

// Collectors returns the node's metrics.
func (n *Node) Collectors() []prometheus.Collector {
	gauge := func(name, help string, read func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rota_" + name, Help: help}, read)
	}
	all := append(n.measures.Collectors(), meter.OfState(n.replica.Peek)...)
	all = append(all,
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
		gauge("raft_commit_index", "The last log entry that this node knows to be committed.", func() float64 {
			return float64(n.raft.CommitIndex())
		}),
		gauge("raft_last_contact_seconds", "Since the leader was last heard; 0 on the leader.", func() float64 {
			if n.terms.leading() != nil || n.raft.LastContact().IsZero() {
				return 0
			}
			return time.Since(n.raft.LastContact()).Seconds()
		}),
		gauge("cluster_clock_seconds",
			"The cluster clock as this node applied it; it began at the Unix time of the founding.", func() float64 {
				clock := rota.Clock(0)
				if !n.replica.Peek(func(s *fsm.View) { clock = s.Head().Clock }) {
					return math.NaN()
				}
				return float64(clock) / 1000
			}),
		gauge("wall_skew_seconds", "This node's wall clock beyond the median of the voters.", func() float64 {
			n.watch.mu.Lock()
			defer n.watch.mu.Unlock()
			return float64(n.watch.skewMs) / 1000
		}),
		gauge("voters_wanted", "How many healthy voters the cluster shall have.", func() float64 {
			return float64(n.autopilot.Settings().VotersWanted)
		}),
		gauge("voters_healthy", "Voters that have been healthy for a minute, at the leader; else 0.", func() float64 {
			a, _ := n.autopilot.Report()
			return float64(a.HealthyVoters)
		}),
		gauge("worker_streams", "Workers connected to this node.", func() float64 {
			n.replica.Hub.Mu.Lock()
			defer n.replica.Hub.Mu.Unlock()
			return float64(len(n.replica.Hub.Sessions))
		}),
		gauge("disk_free_bytes", "Free space under the data directory.", func() float64 {
			free, _, err := n.cfg.freeSpace(n.cfg.Data)
			if err != nil {
				return -1
			}
			return float64(free)
		}))
	for _, part := range n.watched() {
		all = append(all, part.Collectors()...)
	}
	return all
}
