package chores

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
)

// NewSchedules returns the chore that fires schedules.
func NewSchedules(h *Host) *Schedules { return &Schedules{n: h} }

// NewWebhooks returns the chore that creates deliveries.
func NewWebhooks(h *Host) *Webhooks { return &Webhooks{n: h} }

// Schedules reports how late schedules' dates are decided, on the leader (SPEC §17.4).
type Schedules struct {
	n *Host
	// Lag is in milliseconds, 0 if this node is not the leader.
	Lag atomic.Int64
}

// Problems returns none: zoneData reports the zones that this node lacks.
func (sh *Schedules) Problems() []string { return nil }

// Collectors returns the metrics of schedules, other than those that count events.
func (sh *Schedules) Collectors() []prometheus.Collector {
	return []prometheus.Collector{prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rota_schedule_lag_seconds",
		Help: "For how long the oldest date of a schedule has been due and not decided, at the leader; else 0. Up to about a second is usual."},
		func() float64 { return float64(sh.Lag.Load()) / 1000 })}
}

// Webhooks reports how many events webhooks are behind, on the leader.
type Webhooks struct {
	n      *Host
	events atomic.Uint64
}

// Problems returns none: a webhook that waits shows this in its row.
func (hl *Webhooks) Problems() []string { return nil }

// Collectors returns the metrics of webhooks.
func (hl *Webhooks) Collectors() []prometheus.Collector {
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rota_webhook_behind_events",
			Help: "How many events the webhook that is furthest behind has not looked at, at the leader; else 0."},
			func() float64 { return float64(hl.events.Load()) }),
		&hookGauges{hl.n, prometheus.NewDesc("rota_webhooks", "Webhooks that are set, by state.", []string{"state"},
			nil),
			prometheus.NewDesc("rota_webhook_deliveries_pending", "Deliveries of webhooks that have not ended.", nil,
				nil)}}
}

// hookGauges reports the webhooks of this node's replica, read at each scrape.
type hookGauges struct {
	n              *Host
	hooks, pending *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (g *hookGauges) Describe(to chan<- *prometheus.Desc) { to <- g.hooks; to <- g.pending }

// Collect implements prometheus.Collector.
func (g *hookGauges) Collect(to chan<- prometheus.Metric) {
	var list []rota.Webhook
	if !g.n.Replica.Peek(func(s *fsm.View) { list = fsm.WebhooksOf(s) }) {
		return
	}
	var by [rota.WebhookDisabled + 1]int
	pending := int64(0)
	for i := range list {
		by[list[i].State]++
		pending += list[i].Pending
	}
	for s := rota.WebhookActive; s <= rota.WebhookDisabled; s++ {
		to <- prometheus.MustNewConstMetric(g.hooks, prometheus.GaugeValue, float64(by[s]), s.String())
	}
	to <- prometheus.MustNewConstMetric(g.pending, prometheus.GaugeValue, float64(pending))
}
