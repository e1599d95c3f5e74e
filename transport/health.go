package transport

import (
	"time"

	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	rotav1 "github.com/rotasched/rota/api/rota/v1"
)

// Jobs, Workers, Queues and Workflows need a leader, and so does the node as a whole.
var servicesOfReady = []string{
	"", rotav1.Jobs_ServiceDesc.ServiceName, rotav1.Workers_ServiceDesc.ServiceName,
	rotav1.Queues_ServiceDesc.ServiceName, rotav1.Workflows_ServiceDesc.ServiceName,
}

// Cluster and Node answer as long as the process runs: without a leader they are the services that operators and other
// nodes need most.
var servicesOfLife = []string{rotav1.Cluster_ServiceDesc.ServiceName, rotav1.Node_ServiceDesc.ServiceName}

func (s *Server) startHealth() {
	for _, name := range servicesOfLife {
		s.health.SetServingStatus(name, healthv1.HealthCheckResponse_SERVING)
	}
	s.SetServing(false)
}

// SetServing sets whether the node is ready: it knows a leader and has caught up. If Core.Ready is polled as well, the
// latest result counts. Once the server drains, it stays NOT_SERVING.
func (s *Server) SetServing(ready bool) {
	status := healthv1.HealthCheckResponse_NOT_SERVING
	if ready {
		status = healthv1.HealthCheckResponse_SERVING
	}
	for _, name := range servicesOfReady {
		s.health.SetServingStatus(name, status)
	}
}

// pollReady polls the core until the server drains.
func (s *Server) pollReady(every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		s.pollReadyOnce()
		select {
		case <-tick.C:
		case <-s.draining.Done():
			return
		}
	}
}

func (s *Server) pollReadyOnce() {
	defer func() {
		if r := recover(); r != nil {
			s.SetServing(false)
			_ = s.panicked("Ready", r)
		}
	}()
	s.SetServing(s.options.Core.Ready() == nil)
}
