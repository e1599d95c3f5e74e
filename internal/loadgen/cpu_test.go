package loadgen

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
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
	if err != nil || r.servers != 2500*time.Millisecond || r.here <= 0 {
		t.Errorf("read %+v, %v: the sum of both servers is wanted, and this process", r, err)
	}
	text = "process_cpu_seconds 1.25\n"
	if _, err := m.read(t.Context()); err == nil || !strings.Contains(err.Error(), addr) {
		t.Errorf("a server that tells no CPU time: %v", err)
	}
	m.admins = []string{"127.0.0.1:1"}
	if _, err := m.read(t.Context()); err == nil {
		t.Error("no server is there, and no error")
	}
}

// A measurement tells the servers' CPU time only where it was told of them.
func TestBenchReport_cpu(t *testing.T) {
	t.Parallel()
	ledger := newLedger("r", 4)
	for i := range 4 {
		ledger.accept(i)
		ledger.settle(i)
	}
	b := &run{ledger: ledger, cpu: cpuReading{here: 100 * time.Microsecond, servers: 300 * time.Microsecond}}
	if r := b.report(); r.ProcessCPUUs != 25 || r.ServersCPUUs != nil || r.CPUUs != nil {
		t.Errorf("without --admin: %+v", r)
	}
	b.meter.admins = []string{"127.0.0.1:1"}
	if r := b.report(); r.ServersCPUUs == nil || *r.ServersCPUUs != 75 || *r.CPUUs != 100 {
		t.Errorf("with --admin: %+v", r)
	}
}
