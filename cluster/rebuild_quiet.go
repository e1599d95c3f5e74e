package cluster

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// silent reports that this node must not stand: its state is wrong, or applying stalls.
func (n *Node) silent() bool { return n.mend.active.Load() || n.dog.stalled.Load() > 0 }

// muted reports that this node must not be heard as a leader.
func (n *Node) muted() bool { return n.mend.mute.Load() || n.dog.mute.Load() }

// mendProblems says what is wrong.
func (n *Node) mendProblems() (problems []string) {
	record := n.data.Rebuild()
	if !record.Open {
		return nil
	}
	text := fmt.Sprintf("state differed from the majority's at index %d and is being rebuilt; nothing is to be done but to keep the "+
		"other nodes up", record.At)
	if !n.mend.active.Load() {
		text = fmt.Sprintf("state differed from the majority's at index %d and was rebuilt; what it left on the disk is being replaced",
			record.At)
	}
	n.mend.mu.Lock()
	defer n.mend.mu.Unlock()
	if n.mend.why != nil {
		text += ": " + n.mend.why.Error()
	}
	return []string{text}
}

func (n *Node) mendCollectors() []prometheus.Collector {
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rota_state_rebuilding",
			Help: "1 while this node's state is wrong and not served."}, func() float64 {
			if n.mend.active.Load() {
				return 1
			}
			return 0
		}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "rota_state_rebuilds_total",
			Help: "States that were wrong and were rebuilt from another node's."}, func() float64 {
			n.mend.mu.Lock()
			defer n.mend.mu.Unlock()
			return float64(n.mend.done)
		}),
	}
}
