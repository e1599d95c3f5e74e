package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/transport"
)

// adminServer answers operators: health, metrics, profiles. It cannot change anything.
type adminServer struct {
	http     *http.Server
	registry *prometheus.Registry
	log      *slog.Logger
}

const (
	// adminConnections are for a few machines that read metrics and health.
	adminConnections = 64
	// adminWrite bounds an answer: a one-minute profile, and its transfer.
	adminWrite = 90 * time.Second
)

// startAdmin serves the admin port. Beyond loopback it is encrypted if the node has a certificate.
func startAdmin(plan *Plan, late *lateNode, log *slog.Logger) (*adminServer, error) {
	lis, err := net.Listen("tcp", plan.Admin)
	if err != nil {
		return nil, listenError("--admin", plan.Admin, err)
	}
	lis = transport.CapListener(lis, adminConnections, 0, log)
	if plan.TLS != nil && !Loopback(plan.Admin) {
		lis = tls.NewListener(lis, plan.TLS)
	}
	s := &adminServer{registry: prometheus.NewRegistry(), log: log}
	s.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), plan.Build.Info(plan.Node.Node))
	s.http = transport.NewWebServer(transport.Seated(adminHandler(late.ready, s.registry, plan.Profiles)), plan.hosts(),
		slog.NewLogLogger(log.Handler(), slog.LevelDebug))
	s.http.WriteTimeout = adminWrite
	go func() {
		if err := s.http.Serve(lis); err != nil && !errors.Is(err, http.ErrServerClosed) {
			log.Error("admin port is gone", "err", err)
		}
	}()
	return s, nil
}

// adminHandler serves the admin port's paths. Profiles reveal the node's activity and command line, so they are served
// only if enabled.
func adminHandler(ready func() error, registry *prometheus.Registry, profiles bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		err := ready()
		if err == nil {
			fmt.Fprintln(w, "ready")
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintf(w, "not ready: %s\n", strings.TrimSpace(err.Error()))
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	if profiles {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// measure adds the node's metrics once it exists. A metric that cannot be added is logged and left out: it must not
// prevent serving.
func (s *adminServer) measure(all ...prometheus.Collector) {
	for _, c := range all {
		if err := s.registry.Register(c); err != nil {
			s.log.Error("a metric is left out", "err", err)
		}
	}
}

func (s *adminServer) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		return s.http.Close()
	}
	return nil
}

// Collectors returns the metrics of a node: of the state, and the node's own.
func Collectors(n Node) []prometheus.Collector {
	return append([]prometheus.Collector{newStateCollector(n)}, n.Collectors()...)
}

// CertificateExpiry returns the metric of when the node's certificate expires.
func CertificateExpiry(ends func() time.Time) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rota_certificate_expiry_timestamp_seconds",
		Help: "When the certificate that this node shows expires, Unix time; no series without TLS."},
		func() float64 { return float64(ends().Unix()) })
}

// Info returns the metric that names the binary of a node.
func (b Build) Info(node rota.NodeID) prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "rota_build_info", Help: "Always 1; the labels tell which binary this is.",
		ConstLabels: prometheus.Labels{"version": b.Version, "revision": b.Revision, "go": b.Go, "node": string(node)},
	})
	g.Set(1)
	return g
}
