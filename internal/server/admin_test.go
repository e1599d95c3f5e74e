package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

// stateFake is a node's state for metrics.
type stateFake struct{ ready error }

func (stateFake) Queues(context.Context, peer.ReadOptions) ([]rota.Queue, rota.ReadAt, error) {
	return []rota.Queue{{Name: "q", Queued: 3, CompletedTotal: 7, Tiers: []int64{1, 0, 2, 0, 0}, UsagePermille: 250,
		LeaseUsagePermille: 750, Backpressure: rota.BackpressureThrottle, Throttled: 4,
		OldestWait: 1500 * time.Millisecond}}, rota.ReadAt{Index: 42}, nil
}

func (stateFake) Workers(context.Context, peer.ReadOptions) ([]rota.Worker, rota.ReadAt, error) {
	return []rota.Worker{{Status: rota.WorkerActive, Open: 2}, {Status: rota.WorkerActive,
		Open: 1}}, rota.ReadAt{}, nil
}

func (s stateFake) Ready() error { return s.ready }

func TestAdmin(t *testing.T) {
	t.Parallel()
	state := stateFake{ready: errors.New("no leader is known")}
	registry := prometheus.NewRegistry()
	registry.MustRegister(newStateCollector(state), Build{Version: "v", Revision: "r", Go: "g"}.Info("n1"))
	ready := state.ready
	server := httptest.NewServer(adminHandler(func() error { return ready }, registry, true))
	t.Cleanup(server.Close)
	get := func(path string) (int, string) {
		answer, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(body)
	}
	if code, body := get("/healthz"); code != 200 || body != "ok\n" {
		t.Errorf("healthz: %d %q", code, body)
	}
	if code, body := get("/readyz"); code != 503 || !strings.Contains(body, "no leader is known") {
		t.Errorf("readyz before: %d %q", code, body)
	}
	ready = nil
	if code, body := get("/readyz"); code != 200 {
		t.Errorf("readyz after: %d %q", code, body)
	}
	code, body := get("/metrics")
	for _, want := range []string{
		`rota_jobs{queue="q",state="QUEUED"} 3`, `rota_jobs_ended_total{queue="q",state="COMPLETED"} 7`,
		`rota_oldest_pending_seconds{queue="q"} 1.5`, `rota_workers{status="ACTIVE"} 2`, "rota_leases_active 3",
		`rota_jobs_pending{queue="q",tier="normal"} 2`, `rota_queue_usage_ratio{queue="q"} 0.25`,
		`rota_queue_lease_usage_ratio{queue="q"} 0.75`, `rota_queue_backpressure{queue="q"} 1`,
		`rota_lanes_throttled{queue="q"} 4`, "rota_applied_index 42", "rota_ready 0", "rota_build_info{",
	} {
		if code != 200 || !strings.Contains(body, want) {
			t.Errorf("metrics: %d, %s is missing", code, want)
		}
	}
	if code, _ := get("/debug/pprof/cmdline"); code != 200 {
		t.Errorf("pprof: %d", code)
	}
	answer := httptest.NewRecorder()
	adminHandler(nil, registry, false).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/debug/pprof/heap", nil))
	if answer.Code != http.StatusNotFound {
		t.Errorf("pprof is served without the flag: %d", answer.Code)
	}
}

func TestFold(t *testing.T) {
	t.Parallel()
	queues := make([]rota.Queue, queuesMeasured+5)
	for i := range queues {
		queues[i] = rota.Queue{Name: "q", Queued: 1}
	}
	folded := fold(queues)
	if last := folded[len(folded)-1]; len(folded) != queuesMeasured+1 || last.Queued != 5 || last.Name != "" {
		t.Errorf("%d queues, the last %+v", len(folded), last)
	}
}
