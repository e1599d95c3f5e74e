package loadgen

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestCPUMeter(t *testing.T) {
	t.Parallel()
	text := "# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total 1.25\nother 3\n"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(text))
	}))
	defer server.Close()
	addr := strings.TrimPrefix(server.URL, "http://")
	m := cpuMeter{admins: []string{addr, addr}, tls: func(string) (*tls.Config, error) { return nil, nil }}
	r, err := m.read(t.Context())
	if want := (serverCPU{1250 * time.Millisecond, ""}); err != nil ||
		!slices.Equal(r.servers, []serverCPU{want, want}) || r.here <= 0 {
		t.Errorf("read %+v, %v; want both servers, and this process", r, err)
	}
	text = "process_cpu_seconds 1.25\n"
	if _, err := m.read(t.Context()); err == nil || !strings.Contains(err.Error(), addr) {
		t.Errorf("a server that reports no CPU time: %v", err)
	}
	m.admins = []string{"127.0.0.1:1"}
	if _, err := m.read(t.Context()); err == nil {
		t.Error("no server exists, and no error is returned")
	}
}

// Servers' use is known only if they ran the whole time: a counter that went back, or has overtaken the earlier one, is
// another process's.
func TestCPUMeter_since(t *testing.T) {
	t.Parallel()
	text := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(text))
	}))
	defer server.Close()
	m := cpuMeter{admins: []string{strings.TrimPrefix(server.URL, "http://")},
		tls: func(string) (*tls.Config, error) { return nil, nil }}
	for _, c := range []struct{ name, after, unknown string }{
		{"continued", "process_cpu_seconds_total 5\nprocess_start_time_seconds 1.79e+09\n", ""},
		{"went back", "process_cpu_seconds_total 3\nprocess_start_time_seconds 1.79e+09\n", "a server restarted"},
		{"began again", "process_cpu_seconds_total 5\nprocess_start_time_seconds 1.8e+09\n", "a server restarted"},
		{"is silent", "", "CPU time of the server"},
	} {
		text = "process_cpu_seconds_total 4\nprocess_start_time_seconds 1.79e+09\n"
		before, err := m.read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		text = c.after
		spent := m.since(t.Context(), before)
		if c.unknown == "" && (spent.servers != time.Second || spent.unknown != "") ||
			c.unknown != "" && (spent.servers != 0 || !strings.HasPrefix(spent.unknown, c.unknown)) {
			t.Errorf("%s: %+v", c.name, spent)
		}
	}
}

// A measurement reports the servers' CPU time only if it is known.
func TestBenchReport_cpu(t *testing.T) {
	t.Parallel()
	ledger := newLedger("r", 4)
	for i := range 4 {
		ledger.accept(i)
		ledger.settle(i)
	}
	b := &run{ledger: ledger, cpu: cpuSpent{here: 100 * time.Microsecond, servers: 300 * time.Microsecond}}
	if r := b.report(); r.ProcessCPUUs != 25 || r.ServersCPUUs != nil || r.CPUUs != nil {
		t.Errorf("without --admin: %+v", r)
	}
	b.meter.admins = []string{"127.0.0.1:1"}
	if r := b.report(); r.ServersCPUUs == nil || *r.ServersCPUUs != 75 || *r.CPUUs != 100 || r.ServersCPUUnknown != "" {
		t.Errorf("with --admin: %+v", r)
	}
	b.cpu = cpuSpent{here: 100 * time.Microsecond, unknown: "a server restarted"}
	if r := b.report(); r.ProcessCPUUs != 25 || r.ServersCPUUs != nil || r.CPUUs != nil ||
		r.ServersCPUUnknown != "a server restarted" {
		t.Errorf("with a server that restarted: %+v", r)
	}
}
