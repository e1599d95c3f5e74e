package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/peer"
)

func testFlags(change func(*serverFlags)) *serverFlags {
	f := &serverFlags{node: "n1", data: "/d", api: defaultAPI, raft: defaultRaft, admin: defaultAdmin,
		gossip: defaultGossip, cluster: "rota", bootstrapExpect: 1}
	if change != nil {
		change(f)
	}
	return f
}

func TestServerPlan(t *testing.T) {
	t.Parallel()
	none := tlsFiles{}
	for _, c := range []struct {
		name   string
		change func(*serverFlags)
		code   int
		want   string
	}{
		{"loopback needs nothing", nil, 0, ""},
		{"localhost is loopback", func(f *serverFlags) { f.api = "localhost:1" }, 0, ""},
		{"no node, no data", func(f *serverFlags) { f.node, f.data = "", "" }, 2, "--data is missing"},
		{"bad id", func(f *serverFlags) { f.node = "a b" }, 2, "--node"},
		{"all faults together", func(f *serverFlags) { f.api, f.join = "x", []string{"y"} }, 2, "--join"},
		{"a name is not loopback", func(f *serverFlags) { f.raft = "n1:6471" }, 1, "--raft n1:6471"},
		{"every address is not loopback", func(f *serverFlags) { f.admin = ":6472" }, 1, "--admin"},
		{"insecure spelt out", func(f *serverFlags) { f.raft, f.api, f.insecure = "n1:1", "n1:2", true }, 0, ""},
		{"a gossip key does for gossip only", func(f *serverFlags) {
			f.gossip, f.api, f.gossipKeyFile = "10.0.0.1:1", "10.0.0.1:2", "k"
		}, 1, "--api 10.0.0.1:2 is"},
	} {
		_, err := testFlags(c.change).plan(none)
		if code := exitCode(err); code != c.code || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: exit %d, %v", c.name, code, err)
		}
	}
	if _, err := testFlags(nil).plan(tlsFiles{cert: "c"}); err == nil {
		t.Error("a certificate alone is taken")
	}
}

func TestReachable(t *testing.T) {
	t.Parallel()
	if got, err := reachable("n1:6471"); err != nil || got != "n1:6471" {
		t.Errorf("a name: %q, %v", got, err)
	}
	got, err := reachable("0.0.0.0:6471")
	if err != nil || strings.HasPrefix(got, "0.0.0.0") || !strings.HasSuffix(got, ":6471") {
		t.Errorf("all addresses: %q, %v", got, err)
	}
	for _, bad := range []string{"", "x", "x:", "1.2.3.4"} {
		if got, err := reachable(bad); err == nil {
			t.Errorf("%q is taken as %q", bad, got)
		}
	}
}

// stateFake is a node's state for metrics.
type stateFake struct{ ready error }

func (stateFake) Queues(context.Context, peer.ReadOptions) ([]rota.Queue, rota.ReadAt, error) {
	return []rota.Queue{{Name: "q", Queued: 3, CompletedTotal: 7, Tiers: []int64{1, 0, 2, 0, 0}, UsagePermille: 250,
		LeaseUsagePermille: 750, Backpressure: rota.BackpressureThrottle, Parked: 4, OldestWaitMs: 1500}}, rota.ReadAt{Index: 42}, nil
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
	registry.MustRegister(newStateCollector(state), buildInfo("n1"))
	ready := state.ready
	server := httptest.NewServer(adminHandler(func() error { return ready }, registry))
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
		`rota_queue_lease_usage_ratio{queue="q"} 0.75`, `rota_queue_backpressure{queue="q"} 1`, `rota_lanes_parked{queue="q"} 4`,
		"rota_applied_index 42", "rota_ready 0", "rota_build_info{",
	} {
		if code != 200 || !strings.Contains(body, want) {
			t.Errorf("metrics: %d, %s is missing", code, want)
		}
	}
	if code, _ := get("/debug/pprof/cmdline"); code != 200 {
		t.Errorf("pprof: %d", code)
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

func TestDevPorts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var talk bytes.Buffer
	a := &app{stderr: &talk}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if _, err := (devCommands{a}).ports(dir, &devFlags{nodes: 3, api: taken.Addr().String()}); err == nil ||
		!strings.Contains(err.Error(), taken.Addr().String()) {
		t.Errorf("a taken --api: %v", err)
	}
	first, err := devCommands{a}.ports(dir, &devFlags{nodes: 3})
	if err != nil || len(first) != 3 {
		t.Fatalf("%+v, %v", first, err)
	}
	if first[0].API != defaultAPI && !strings.Contains(talk.String(), defaultAPI+" is taken") {
		t.Errorf("clients are served at %s without a word: %s", first[0].API, talk.String())
	}
	first[1].Raft = taken.Addr().String()
	if err := rememberPorts(dir, first); err != nil {
		t.Fatal(err)
	}
	again, err := devCommands{a}.ports(dir, &devFlags{nodes: 3})
	if err != nil {
		t.Fatal(err)
	}
	for i := range first {
		for from, to := range map[string]string{first[i].API: again[i].API, first[i].Gossip: again[i].Gossip} {
			if from != to && !strings.Contains(talk.String(), from+" is taken") {
				t.Errorf("node %d moves from %s to %s without a word: %s", i, from, to, talk.String())
			}
		}
	}
	if again[1].Raft == first[1].Raft || !strings.Contains(talk.String(), first[1].Raft+" is taken") {
		t.Errorf("a taken address is kept: %+v, said %q", again[1], talk.String())
	}
	seen := map[string]bool{}
	for _, p := range again {
		for _, addr := range []string{p.API, p.Raft, p.Admin, p.Gossip} {
			if seen[addr] || !loopback(addr) {
				t.Errorf("%s comes twice or is not loopback", addr)
			}
			seen[addr] = true
		}
	}
	if _, err := (devCommands{a}).ports(dir, &devFlags{nodes: 1}); err == nil {
		t.Error("another number of nodes is taken")
	}
}
