package promrota_test

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/client/promrota"
)

// TestClient counts the calls of a client, including refused ones: here no node is listening.
func TestClient(t *testing.T) {
	t.Parallel()
	metrics, registry := promrota.New(), prometheus.NewPedanticRegistry()
	registry.MustRegister(metrics)
	c, err := client.Dial([]string{"127.0.0.1:1"}, metrics.Client(), client.WithPatience(200*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := c.Queue(ctx, "q"); err == nil {
		t.Fatal("a call reached a missing node")
	}
	started, err := testutil.GatherAndCount(registry, "grpc_client_started_total")
	if err != nil || started == 0 {
		t.Errorf("got %d series of calls (%v), want at least one", started, err)
	}
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("the metrics are not by Prometheus' conventions: %v %v", problems, err)
	}
}
