package server

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// queuesMeasured bounds the queues that have their own series: the rest are summed under the empty name.
const queuesMeasured = 1_000

// scrapeTimeout bounds the reads of one scrape, which are of this node's own state.
const scrapeTimeout = 2 * time.Second

// stateReader is the part of a node that the state's metrics use.
type stateReader interface {
	Queues(ctx context.Context, opt peer.ReadOptions) ([]rota.Queue, rota.ReadAt, error)
	Workers(ctx context.Context, opt peer.ReadOptions) ([]rota.Worker, rota.ReadAt, error)
	Ready() error
}

// stateCollector reports jobs, queues and workers as this node's replica has them, read at each scrape.
type stateCollector struct {
	from                          stateReader
	jobs, ended, submitted        *prometheus.Desc
	oldest, workers, leases, high *prometheus.Desc
	ready                         *prometheus.Desc
	tiers, usage, throttled       *prometheus.Desc
	leaseUsage, pressure          *prometheus.Desc
}

func newStateCollector(from stateReader) *stateCollector {
	d := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("rota_"+name, help, labels, nil)
	}
	return &stateCollector{
		from:       from,
		jobs:       d("jobs", "Jobs that have not ended.", "queue", "state"),
		ended:      d("jobs_ended_total", "Jobs that ended, by how.", "queue", "state"),
		submitted:  d("jobs_submitted_total", "Jobs accepted.", "queue"),
		oldest:     d("oldest_pending_seconds", "How long the oldest QUEUED job has waited.", "queue"),
		workers:    d("workers", "Registered workers.", "status"),
		leases:     d("leases_active", "Open leases."),
		high:       d("applied_index", "The last log entry that this node applied."),
		ready:      d("ready", "1 when the node knows a leader and has caught up."),
		tiers:      d("jobs_pending", "QUEUED jobs by tier.", "queue", "tier"),
		usage:      d("queue_usage_ratio", "Pending jobs by queue_cap.", "queue"),
		leaseUsage: d("queue_lease_usage_ratio", "Open leases by what the queue's workers can hold.", "queue"),
		pressure: d("queue_backpressure", "How submissions are met: 0 taken, 1 asked to slow down, 2 refused.",
			"queue"), throttled: d("lanes_throttled", "Lanes that a limit keeps out of the draw.", "queue"),
	}
}

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.jobs, c.ended, c.submitted, c.oldest, c.workers, c.leases, c.high,
		c.ready, c.tiers, c.usage, c.leaseUsage, c.pressure, c.throttled} {
		to <- d
	}
}

// Collect implements prometheus.Collector. Metrics that cannot be read are left out: a scrape of a node in trouble
// still returns the rest.
func (c *stateCollector) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	ready := 0.0
	if c.from.Ready() == nil {
		ready = 1
	}
	gauge(c.ready, ready)
	if queues, at, err := c.from.Queues(ctx, peer.ReadOptions{Stale: true}); err == nil {
		gauge(c.high, float64(at.Index))
		for _, q := range fold(queues) {
			c.queue(&q, to)
		}
	}
	workers, _, err := c.from.Workers(ctx, peer.ReadOptions{Stale: true})
	if err != nil {
		return
	}
	open, byStatus := int64(0), make(map[rota.WorkerStatus]int)
	for i := range workers {
		open += int64(workers[i].Open)
		byStatus[workers[i].Status]++
	}
	gauge(c.leases, float64(open))
	for s := rota.WorkerActive; s <= rota.WorkerUnreachable; s++ {
		gauge(c.workers, float64(byStatus[s]), s.String())
	}
}

func (c *stateCollector) queue(q *rota.Queue, to chan<- prometheus.Metric) {
	name := string(q.Name)
	add := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, kind, v, append([]string{name}, labels...)...)
	}
	for _, s := range []struct {
		state rota.JobState
		n     int64
	}{{rota.JobBlocked, q.Blocked}, {rota.JobDelayed, q.Delayed}, {rota.JobQueued, q.Queued},
		{rota.JobAssigned, q.Assigned},
		{rota.JobRunning, q.Running}} {
		add(c.jobs, prometheus.GaugeValue, float64(s.n), s.state.String())
	}
	for _, s := range []struct {
		state rota.JobState
		n     uint64
	}{{rota.JobCompleted, q.CompletedTotal}, {rota.JobDead, q.DeadTotal}, {rota.JobExpired, q.ExpiredTotal},
		{rota.JobCancelled, q.CancelledTotal}} {
		add(c.ended, prometheus.CounterValue, float64(s.n), s.state.String())
	}
	add(c.submitted, prometheus.CounterValue, float64(q.SubmittedTotal))
	add(c.oldest, prometheus.GaugeValue, q.OldestWait.Seconds())
	for tier, n := range q.Tiers {
		add(c.tiers, prometheus.GaugeValue, float64(n), TierName(tier, len(q.Tiers)))
	}
	add(c.usage, prometheus.GaugeValue, float64(q.UsagePermille)/1000)
	add(c.leaseUsage, prometheus.GaugeValue, float64(q.LeaseUsagePermille)/1000)
	add(c.pressure, prometheus.GaugeValue, float64(max(0, slices.Index(pressures, q.Backpressure))))
	add(c.throttled, prometheus.GaugeValue, float64(q.Throttled))
}

// tierNames name the tiers from 0 (SPEC §1).
var tierNames = [5]string{"critical", "high", "normal", "low", "background"}

// TierName names a tier, given the number of tiers: by its number if there are not the usual five.
func TierName(i, of int) string {
	if of == len(tierNames) {
		return tierNames[i]
	}
	return fmt.Sprint("tier-", i)
}

// pressures are a queue's kinds of backpressure by their number in the metric.
var pressures = []string{rota.BackpressureNone, rota.BackpressureThrottle, rota.BackpressureRefuse}

// fold sums the queues beyond the bound into one without a name.
func fold(queues []rota.Queue) []rota.Queue {
	if len(queues) <= queuesMeasured {
		return queues
	}
	rest := rota.Queue{Backpressure: rota.BackpressureNone}
	for _, q := range queues[queuesMeasured:] {
		rest.Blocked += q.Blocked
		rest.Delayed += q.Delayed
		rest.Queued += q.Queued
		rest.Assigned += q.Assigned
		rest.Running += q.Running
		rest.SubmittedTotal += q.SubmittedTotal
		rest.CompletedTotal += q.CompletedTotal
		rest.DeadTotal += q.DeadTotal
		rest.ExpiredTotal += q.ExpiredTotal
		rest.CancelledTotal += q.CancelledTotal
		rest.OldestWait = max(rest.OldestWait, q.OldestWait)
		for tier, n := range q.Tiers {
			if tier == len(rest.Tiers) {
				rest.Tiers = append(rest.Tiers, 0)
			}
			rest.Tiers[tier] += n
		}
		rest.UsagePermille = max(rest.UsagePermille, q.UsagePermille)
		rest.LeaseUsagePermille = max(rest.LeaseUsagePermille, q.LeaseUsagePermille)
		if slices.Index(pressures, q.Backpressure) > slices.Index(pressures, rest.Backpressure) {
			rest.Backpressure = q.Backpressure
		}
		rest.Throttled += q.Throttled
	}
	return append(append([]rota.Queue(nil), queues[:queuesMeasured]...), rest)
}
