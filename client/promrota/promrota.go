package promrota

import (
	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotasched/rota/client"
)

// callSeconds are the buckets of call durations.
var callSeconds = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60}

// Metrics counts and times the calls of the clients that are dialed with Client. It is a prometheus.Collector; register
// it once.
type Metrics struct{ calls *grpcprom.ClientMetrics }

// New returns metrics that are not registered yet.
func New() *Metrics {
	return &Metrics{grpcprom.NewClientMetrics(grpcprom.WithClientHandlingTimeHistogram(grpcprom.WithHistogramBuckets(
		callSeconds)))}
}

// Client measures a client's calls. A retried call counts once for each try.
func (m *Metrics) Client() client.Option {
	return client.WithInterceptors(m.calls.UnaryClientInterceptor(), m.calls.StreamClientInterceptor())
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) { m.calls.Describe(to) }

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) { m.calls.Collect(to) }
