package cluster

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/fsm"
	"github.com/rotasched/rota/internal/cron"
)

// scheduleHealth says how schedules do: by how much dates are late at the leader, and which zones
// this node lacks (SPEC §17.4).
type scheduleHealth struct {
	n *Node
	// lag is in milliseconds, 0 where this node does not lead.
	lag atomic.Int64
}

// Problems says which active schedules this node would fire nothing of, as its time zones lack
// theirs: one text for each zone.
func (sh *scheduleHealth) Problems() (problems []string) {
	lacks, known := make(map[string]int), make(map[string]bool)
	sh.n.replica.peek(func(s *fsm.View) {
		for _, x := range fsm.ActiveOf(s) {
			zone := x.Times.TZ
			there, asked := known[zone]
			if !asked {
				_, err := cron.Zone(zone)
				there = err == nil
				known[zone] = there
			}
			if !there {
				lacks[zone]++
			}
		}
	})
	for _, zone := range slices.Sorted(maps.Keys(lacks))[:min(len(lacks), zonesShown)] {
		problems = append(problems, fmt.Sprintf("%d active schedules are in time zone %.80q, which tzdata %s of this node's binary lacks: while this node "+
			"leads nothing of them is fired; run a newer release here", lacks[zone], zone, cron.TZData))
	}
	return problems
}

// zonesShown bounds the zones that are named.
const zonesShown = 10

// Collectors are the metrics of schedules beside those that events count.
func (sh *scheduleHealth) Collectors() []prometheus.Collector {
	return []prometheus.Collector{prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rota_schedule_lag_seconds",
		Help: "For how long the oldest date of a schedule has been due and not decided, at the leader; else 0. Up to about a second is usual."},
		func() float64 { return float64(sh.lag.Load()) / 1000 })}
}

// hookLag says by how many events webhooks are behind, at the leader.
type hookLag struct {
	n      *Node
	events atomic.Uint64
}

// Problems names none: a webhook that waits says so in its row.
func (hl *hookLag) Problems() []string { return nil }

// Collectors are the metrics of webhooks.
func (hl *hookLag) Collectors() []prometheus.Collector {
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rota_webhook_behind_events",
			Help: "How many events the webhook that is furthest behind has not looked at, at the leader; else 0."},
			func() float64 { return float64(hl.events.Load()) }),
		&hookGauges{hl.n, prometheus.NewDesc("rota_webhooks", "Webhooks that are set, by state.", []string{"state"}, nil),
			prometheus.NewDesc("rota_webhook_deliveries_pending", "Deliveries of webhooks that have not ended.", nil, nil)}}
}

// hookGauges report the webhooks of this node's replica, read at each scrape.
type hookGauges struct {
	n              *Node
	hooks, pending *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (g *hookGauges) Describe(to chan<- *prometheus.Desc) { to <- g.hooks; to <- g.pending }

// Collect implements prometheus.Collector.
func (g *hookGauges) Collect(to chan<- prometheus.Metric) {
	var list []rota.Webhook
	if !g.n.replica.peek(func(s *fsm.View) { list = fsm.WebhooksOf(s) }) {
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
