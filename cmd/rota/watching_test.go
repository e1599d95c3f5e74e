package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/client"
	"github.com/rotasched/rota/cluster"
	"github.com/rotasched/rota/internal/cli"
	"github.com/rotasched/rota/internal/cli/serve"
	"github.com/rotasched/rota/internal/server"
	"github.com/rotasched/rota/transport"
)

// metricLabels is every label that a metric may have, with its values and their maximum number. A label that is not
// here fails TestReference_metrics: each new one must be bounded.
var metricLabels = map[string][2]string{
	"fate":      {"the outcome of a schedule's date", "3"},
	"go":        {"the version of Go", "1"},
	"grpc_code": {"the gRPC code that ended a call", "17"},
	"grpc_method": {"methods that the server has; calls of others are not counted",
		"as many as there are methods: about 110"}, "grpc_service": {"services of the server", "about 15"},
	"grpc_type": {"unary, server_stream, client_stream, bidi_stream", "4, one a method"},
	"le":        {"the bounds of a histogram", "11 to 19"},
	"method":    {"methods that need a right", "about 110"},
	"mode":      {"modes of the cluster", "4"},
	"name":      {"costs; those after the first 20 are summed under the empty name", "21"},
	"node":      {"this node's id", "1"},
	"outcome":   {"completed, failed, timed_out or lost", "4"},
	"queue": {"queues; those after the first 1,000, by name or in order of appearance, are summed under the empty name",
		"1,001"},
	"reason": {"`rota_attempts_…_total`: why an attempt ended; `rota_admission_rejected_total`: the check that refused; `rota_calls_denied_total`: the kind of the refusal",
		"28; 7; 2"},
	"release":  {"the release of the time zone data in force", "1"},
	"revision": {"the commit of the binary", "1"},
	"state":    {"states of jobs, workflows, batches or webhooks", "5"},
	"status":   {"states of workers", "4"},
	"tier":     {"tiers of a queue's priorities", "8"},
	"type":     {"types of jobs; those after the first 200 are summed under the empty name", "201"},
	"version":  {"the version of the binary", "1"},
	"why":      {"paused or open", "2"},
	"what":     {"the damaged part: log, snapshot, jobs, events", "4"},
}

// watch holds the metrics that a node shows.
type watch struct {
	// families are all of its metrics, each vector with at least one series.
	families []*dto.MetricFamily
	// lines describe them for the reference page.
	lines []string
	// text has all metrics as they are scraped, scraped the admin port's answer.
	text, scraped string
}

// watched runs a node in this process and reads its metrics.
var watched = sync.OnceValues(func() (w watch, err error) {
	dir, err := os.MkdirTemp("", "rota-watched")
	if err != nil {
		return w, err
	}
	defer os.RemoveAll(dir)
	var opened server.Node
	d := &server.Cluster{Log: slog.New(slog.DiscardHandler), Quieten: func() {},
		Open: func(ctx context.Context, c cluster.Config, p cluster.Peers) (server.Node, error) {
			n, err := server.Open(ctx, c, p)
			opened = n
			return n, err
		}}
	ports, err := serve.DevCommands{App: &cli.App{Stderr: &cli.LockedWriter{W: &strings.Builder{}}}}.Ports(dir,
		&serve.DevFlags{Nodes: 1})
	if err != nil {
		return w, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	err = d.Run(ctx, dir, ports, func(addrs []string) (err error) {
		defer cancel()
		calls, denied := transport.NewCallMetrics(), server.DeniedCalls()
		callOnce(calls)
		denied.WithLabelValues("/rota.v1.Jobs/Submit", "UNAUTHENTICATED")
		all := append(server.Collectors(opened), server.Build{}.Info("n1"), denied, calls,
			server.CertificateExpiry(time.Now))
		w.lines = described(all)
		c, err := client.Dial(addrs)
		if err != nil {
			return err
		}
		defer c.Close()
		if _, err := c.Submit(ctx, rota.JobSpec{Type: "t"}); err != nil {
			return err
		}
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(all...)
		if w.families, err = registry.Gather(); err != nil {
			return err
		}
		page := httptest.NewRecorder()
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(page,
			httptest.NewRequest(http.MethodGet, "/metrics", nil))
		w.text = page.Body.String()
		answer, err := http.Get("http://" + ports[0].Admin + "/metrics")
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		w.scraped = string(body)
		return err
	})
	return w, err
})

// look returns the metrics of a node.
func look(t *testing.T) watch {
	t.Helper()
	w, err := watched()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// callOnce counts a unary call and a stream.
func callOnce(m *transport.CallMetrics) {
	_, _ = m.UnaryServerInterceptor()(context.Background(), nil,
		&grpc.UnaryServerInfo{FullMethod: "/rota.v1.Jobs/Submit"},
		func(context.Context, any) (any, error) { return nil, nil })
	_ = m.StreamServerInterceptor()(nil, deafStream{}, &grpc.StreamServerInfo{FullMethod: "/rota.v1.Events/Follow",
		IsServerStream: true},
		func(_ any, s grpc.ServerStream) error { return errors.Join(s.RecvMsg(nil), s.SendMsg(nil)) })
}

// deafStream is a stream on which every send and receive succeeds.
type deafStream struct{ grpc.ServerStream }

func (deafStream) Context() context.Context { return context.Background() }
func (deafStream) SendMsg(any) error        { return nil }
func (deafStream) RecvMsg(any) error        { return nil }

// TestMetrics_conventions checks that the metrics follow Prometheus' conventions: with its own library, and with
// promtool where it is installed (Debian's package prometheus).
func TestMetrics_conventions(t *testing.T) {
	t.Parallel()
	w := look(t)
	problems, err := promlint.NewWithMetricFamilies(w.families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	for _, f := range w.families {
		if name := f.GetName(); strings.HasSuffix(name, "_ms") || strings.Contains(name, "milli") {
			t.Errorf("%s is not in a base unit", name)
		}
		if !strings.HasSuffix(f.GetHelp(), ".") {
			t.Errorf("%s: the help %q is not a sentence", f.GetName(), f.GetHelp())
		}
	}
	for _, want := range []string{`grpc_server_handled_total{grpc_code="OK",grpc_method="Submit",grpc_service="rota.v1.Jobs",grpc_type="unary"} 1`,
		"rota_raft_commit_seconds_count ", "rota_raft_commit_index ", `rota_oldest_pending_seconds{queue="default"} `} {
		if !strings.Contains(w.scraped, "\n"+want) {
			t.Errorf("the admin port's metrics have no line that begins with %q", want)
		}
	}
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Log("promtool check metrics is left out: promtool (Debian's package prometheus) is not installed")
		return
	}
	for what, text := range map[string]string{"all metrics": w.text, "one scrape": w.scraped} {
		check := exec.CommandContext(t.Context(), promtool, "check", "metrics")
		check.Stdin = strings.NewReader(text)
		if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("promtool check metrics, %s: %v\n%s", what, err, out)
		}
	}
}

// TestReference_metrics compares docs/reference/metrics.md with the metrics that a node registers.
func TestReference_metrics(t *testing.T) {
	t.Parallel()
	w := look(t)
	types, used := make(map[string]string), make(map[string]bool)
	for _, f := range w.families {
		types[f.GetName()] = strings.ToLower(f.GetType().String())
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				used[l.GetName()] = true
			}
		}
		if f.GetType() == dto.MetricType_HISTOGRAM {
			used["le"] = true
		}
	}
	var b strings.Builder
	b.WriteString(
		"# Metrics\n\nrota's own metrics of `GET /metrics` on the admin port, generated from the binary by\n" +
			"`go test ./cmd/rota -run TestReference -update`. Go's runtime and the process add `go_…` and `process_…`, the Go package\n" +
			"`client/promrota` adds a client's `grpc_client_…`. For alarms see [monitor](../operations/monitor.md). Names and units follow\n" +
			"Prometheus' conventions: seconds, bytes, ratios, `_total` for counters.\n\n" +
			"|metric|type|labels|meaning|\n|---|---|---|---|\n")
	for _, line := range w.lines {
		cells := strings.SplitN(line, " | ", 2)
		name := strings.Trim(cells[0], "|` ")
		if types[name] == "" {
			t.Errorf("%s has no series, so no test checks it", name)
		}
		fmt.Fprintf(&b, "|`%s`|%s|%s|\n", name, types[name], strings.ReplaceAll(strings.TrimSuffix(cells[1], " |"), " | ", "|"))
	}
	b.WriteString(
		"\n## How many series\n\nThe values of labels are bounded; none is a job, tenant, worker, caller, address or error. Each queue adds series, and so does\n" +
			"each called method: the histogram of `grpc_server_…` and a series for each code that it returned.\n\n" +
			"|label|values|at most|\n|---|---|---|\n")
	for _, label := range slices.Sorted(maps.Keys(metricLabels)) {
		if !used[label] {
			t.Errorf("no metric has the label %s", label)
		}
		fmt.Fprintf(&b, "|`%s`|%s|%s|\n", label, metricLabels[label][0], metricLabels[label][1])
	}
	for label := range used {
		if _, ok := metricLabels[label]; !ok {
			t.Errorf("the label %s is in no table of bounded labels: metricLabels in cmd/rota/watching_test.go", label)
		}
	}
	holdPage(t, "metrics.md", b.String())
}
