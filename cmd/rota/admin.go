package main

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
)

// adminServer answers operators: health, metrics, profiles. It has no way to
// change anything.
type adminServer struct {
	http     *http.Server
	registry *prometheus.Registry
	log      *slog.Logger
}

// startAdmin serves the admin port. Beyond loopback it is encrypted where the
// node has a certificate.
func startAdmin(plan *nodePlan, late *lateNode, log *slog.Logger) (*adminServer, error) {
	lis, err := net.Listen("tcp", plan.admin)
	if err != nil {
		return nil, listenError("--admin", plan.admin, err)
	}
	if plan.clientTLS != nil && !loopback(plan.admin) {
		lis = tls.NewListener(lis, plan.clientTLS)
	}
	s := &adminServer{registry: prometheus.NewRegistry(), log: log}
	s.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), buildInfo(string(plan.id)))
	s.http = &http.Server{
		Handler: adminHandler(late.ready, s.registry), ReadHeaderTimeout: 5 * time.Second,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	go func() {
		if err := s.http.Serve(lis); err != nil && !errors.Is(err, http.ErrServerClosed) {
			log.Error("admin port is gone", "err", err)
		}
	}()
	return s, nil
}

// adminHandler is the admin port's paths.
func adminHandler(ready func() error, registry *prometheus.Registry) http.Handler {
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
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// measure adds the node's metrics once it is there. One that cannot be added
// is said and left out: a metric is no reason not to serve.
func (s *adminServer) measure(n node) {
	collectors := []prometheus.Collector{newStateCollector(n)}
	if own, ok := n.(measured); ok {
		collectors = append(collectors, own.Collectors()...)
	}
	for _, c := range collectors {
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

func buildInfo(node string) prometheus.Collector {
	v := thisVersion()
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "rota_build_info", Help: "Always 1; the labels tell which binary this is.",
		ConstLabels: prometheus.Labels{"version": v.Version, "revision": v.Revision, "go": v.Go, "node": node},
	})
	g.Set(1)
	return g
}
