package meter

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
)

// Peek calls f with this node's state, and reports false, without calling it, while applying stalls.
type Peek func(f func(*fsm.View)) bool

// OfState returns the metrics of a node's state, which are read at each scrape.
func OfState(peek Peek) []prometheus.Collector {
	return []prometheus.Collector{newAdmission(peek), newFlowGauges(peek), newBatchGauges(peek)}
}

// admission reports what this node's replica admits and holds back, read at each scrape.
type admission struct {
	peek                                Peek
	mode, drained, throttled, isolation *prometheus.Desc
	stopped, accounts, questions        *prometheus.Desc
}

func newAdmission(peek Peek) *admission {
	d := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("rota_"+name, help, labels, nil)
	}
	return &admission{peek: peek,
		mode:      d("admission_mode", "1 for the cluster's present mode, 0 for the others.", "mode"),
		drained:   d("admission_drained", "1 once DRAINING has worked everything off."),
		throttled: d("tenants_throttled", "Tenants whose jobs wait, as they reached max_concurrent."),
		isolation: d("domains_isolated", "Failure domains that are isolated."),
		stopped:   d("keys_stopped", "Keys none of whose jobs may start: paused, or open after failures.", "why"),
		accounts:  d("budget_accounts_held", "Accounts of budgets that hold jobs back."),
		questions: d("budget_questions", "Accounts of budgets that wait for the answer to a question."),
	}
}

// Describe implements prometheus.Collector.
func (a *admission) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{a.mode, a.drained, a.throttled, a.isolation, a.stopped, a.accounts,
		a.questions} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (a *admission) Collect(to chan<- prometheus.Metric) {
	var mode rota.ModeStatus
	var throttled, isolated, paused, open, held, asking int64
	if !a.peek(func(s *fsm.View) {
		mode, throttled, isolated = s.Mode(), s.ThrottledTenants(), s.IsolatedDomains()
		paused, open = fsm.StoppedKeys(s)
		held, asking = fsm.HeldAccounts(s)
	}) {
		return // it stalls, which rota_apply_stall_seconds shows
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	truth := func(is bool) float64 {
		if is {
			return 1
		}
		return 0
	}
	for m := rota.ModeNormal; m <= rota.ModeDraining; m++ {
		gauge(a.mode, truth(m == mode.Mode), m.String())
	}
	gauge(a.drained, truth(mode.Drained))
	gauge(a.throttled, float64(throttled))
	gauge(a.isolation, float64(isolated))
	gauge(a.stopped, float64(paused), "paused")
	gauge(a.stopped, float64(open), "open")
	gauge(a.accounts, float64(held))
	gauge(a.questions, float64(asking))
}

// flowGauges reports the workflows of this node's replica, read at each scrape.
type flowGauges struct {
	peek                    Peek
	flows, waiting, pending *prometheus.Desc
}

func newFlowGauges(peek Peek) *flowGauges {
	return &flowGauges{peek: peek,
		flows: prometheus.NewDesc("rota_workflows", "Workflows that are kept, by state.", []string{"state"}, nil),
		waiting: prometheus.NewDesc("rota_workflow_nodes_blocked",
			"Nodes of running workflows that wait for their parents.", nil, nil),
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
	if !g.peek(func(s *fsm.View) { t = s.WorkflowTotals() }) {
		return // it stalls, which rota_apply_stall_seconds shows
	}
	for s := rota.WorkflowOpen; s <= rota.WorkflowCancelled; s++ {
		to <- prometheus.MustNewConstMetric(g.flows, prometheus.GaugeValue, float64(t.ByState[s]), s.String())
	}
	to <- prometheus.MustNewConstMetric(g.waiting, prometheus.GaugeValue, float64(t.Blocked))
	to <- prometheus.MustNewConstMetric(g.pending, prometheus.GaugeValue, float64(t.Pending))
}

// batchGauges reports the batches of this node's replica, read at each scrape.
type batchGauges struct {
	peek    Peek
	batches *prometheus.Desc
}

func newBatchGauges(peek Peek) *batchGauges {
	return &batchGauges{peek, prometheus.NewDesc("rota_batches", "Batches that are known, by state.", []string{"state"},
		nil)}
}

// Describe implements prometheus.Collector.
func (g *batchGauges) Describe(to chan<- *prometheus.Desc) { to <- g.batches }

// Collect implements prometheus.Collector.
func (g *batchGauges) Collect(to chan<- prometheus.Metric) {
	var t fsm.BatchTotals
	if !g.peek(func(s *fsm.View) { t = fsm.BatchTotalsOf(s) }) {
		return // it stalls, which rota_apply_stall_seconds shows
	}
	for s := rota.BatchOpen; s <= rota.BatchFinished; s++ {
		to <- prometheus.MustNewConstMetric(g.batches, prometheus.GaugeValue, float64(t[s]), s.String())
	}
}
