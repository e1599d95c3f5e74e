package cluster

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
)

// flowGauges tell of the workflows of this node's replica, read at each scrape.
type flowGauges struct {
	n                       *Node
	flows, waiting, pending *prometheus.Desc
}

func newFlowGauges(n *Node) *flowGauges {
	return &flowGauges{n: n,
		flows:   prometheus.NewDesc("rota_workflows", "Workflows that are kept, by state.", []string{"state"}, nil),
		waiting: prometheus.NewDesc("rota_workflow_nodes_blocked", "Nodes of running workflows that wait for their parents.", nil, nil),
		pending: prometheus.NewDesc("rota_workflow_steps_pending",
			"Nodes that the next entries release, skip, cancel, take back or forget.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (g *flowGauges) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.flows, g.waiting, g.pending} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (g *flowGauges) Collect(to chan<- prometheus.Metric) {
	var t fsm.WorkflowTotals
	if !g.n.replica.peek(func(s *fsm.View) { t = s.WorkflowTotals() }) {
		return // it stalls, which rota_apply_stall_seconds tells
	}
	for s := rota.WorkflowOpen; s <= rota.WorkflowCancelled; s++ {
		to <- prometheus.MustNewConstMetric(g.flows, prometheus.GaugeValue, float64(t.ByState[s]), s.String())
	}
	to <- prometheus.MustNewConstMetric(g.waiting, prometheus.GaugeValue, float64(t.Blocked))
	to <- prometheus.MustNewConstMetric(g.pending, prometheus.GaugeValue, float64(t.Pending))
}
