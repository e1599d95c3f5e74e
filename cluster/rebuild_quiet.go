package cluster

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// silent reports that this node must not stand: its state is wrong, or applying stalls.
func (rb *rebuilder) silent() bool {
	return rb.active.Load() || rb.n.watchdog.stalled.Load() > 0
}

// muted reports that this node must not be heard as a leader.
func (rb *rebuilder) muted() bool { return rb.mute.Load() || rb.n.watchdog.mute.Load() }

// problems says what is wrong.
func (rb *rebuilder) problems() (problems []string) {
	record := rb.n.data.Rebuild()
	if !record.Open {
		return nil
	}
	text := fmt.Sprintf("state differed from the majority's at index %d and is being rebuilt; nothing is to be done but to keep the "+
		"other nodes up", record.At)
	if !rb.active.Load() {
		text = fmt.Sprintf("state differed from the majority's at index %d and was rebuilt; what it left on the disk is being replaced",
			record.At)
	}
	rb.mu.Lock()
	defer rb.mu.Unlock()
	if rb.why != nil {
		text += ": " + rb.why.Error()
	}
	return []string{text}
}

func (rb *rebuilder) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rota_state_rebuilding",
			Help: "1 while this node's state is wrong and not served."}, func() float64 {
			if rb.active.Load() {
				return 1
			}
			return 0
		}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "rota_state_rebuilds_total",
			Help: "States that were wrong and were rebuilt from another node's."}, func() float64 {
			rb.mu.Lock()
			defer rb.mu.Unlock()
			return float64(rb.done)
		}),
	}
}
