package transport

import (
	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"google.golang.org/grpc"
)

// callSeconds are the histogram buckets of call durations: an acknowledged write takes milliseconds, a call that waits
// takes up to a minute.
var callSeconds = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60}

// CallMetrics counts and times the gRPC calls that a server answers, by service, method and code:
// grpc_server_*. It is a prometheus.Collector. A series begins with the first call of its method.
// Calls that are refused before a method is reached are in rota_calls_denied_total only.
type CallMetrics struct{ *grpcprom.ServerMetrics }

// NewCallMetrics returns metrics of one server, for Options.Metrics.
func NewCallMetrics() *CallMetrics {
	return &CallMetrics{grpcprom.NewServerMetrics(grpcprom.WithServerHandlingTimeHistogram(
		grpcprom.WithHistogramBuckets(callSeconds)))}
}

// interceptors returns the server's interceptors, with its metrics around them if it has metrics.
func (s *Server) interceptors() []grpc.ServerOption {
	m := s.options.Metrics
	if m == nil {
		return []grpc.ServerOption{grpc.UnaryInterceptor(s.unary), grpc.StreamInterceptor(s.streaming)}
	}
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(m.UnaryServerInterceptor(), s.unary),
		grpc.ChainStreamInterceptor(m.StreamServerInterceptor(), s.streaming)}
}
