package transport

import (
	"context"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestHosts checks that a page of a foreign origin, and a foreign name that resolves here, are rejected.
func TestHosts(t *testing.T) {
	t.Parallel()
	hosts := &Hosts{Names: []string{"n1.lan:6470", "proxy.lan", "[2001:db8::1]:6470"},
		Origins:     []string{"https://console.lan"},
		Certificate: func() *x509.Certificate { return &x509.Certificate{DNSNames: []string{"*.cert.lan"}} }}
	for _, c := range []struct {
		host, origin string
		want         int
	}{
		{"127.0.0.1:6470", "", 0}, {"localhost", "", 0}, {"[::1]:80", "", 0}, {"127.8.8.8", "", 0}, {"", "", 0},
		{"10.0.0.7:6470", "", 0}, {"10.0.0.8:6470", "", 421},
		{"n1.lan", "", 0}, {"N1.LAN:80", "", 0}, {"proxy.lan:443", "", 0}, {"[2001:db8::1]:9", "", 0},
		{"a.cert.lan", "", 0},
		{"evil.example", "", 421}, {"evil.example:6470", "http://evil.example:6470", 421},
		{"localhost.evil.example", "", 421},
		{"127.0.0.1.evil.example", "", 421}, {"b.a.cert.lan", "", 421}, {"n1.lan.", "", 421},
		{"127.0.0.1:6470", "http://evil.example", 403}, {"127.0.0.1:6470", "null", 403}, {"127.0.0.1:6470", "", 0},
		{"127.0.0.1:6470", "http://127.0.0.1:6470", 0}, {"127.0.0.1:6470", "http://127.0.0.1:8080", 403},
		{"n1.lan:6470", "https://n1.lan:6470", 0}, {"n1.lan", "https://console.lan", 0},
		{"n1.lan", "https://console.lan.evil.example", 403}, {"n1.lan", "file://n1.lan", 403},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = c.host
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		at := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 6470}
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, at))
		if got, _ := hosts.refuse(r); got != c.want {
			t.Errorf("Host %q, Origin %q: got %d, want %d", c.host, c.origin, got, c.want)
		}
	}
}

// TestEvents_ofStrangersPages requests the events with evil.example as Host, and as Origin.
func TestEvents_ofStrangersPages(t *testing.T) {
	t.Parallel()
	b := setup(t)
	calls := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return b.lis.DialContext(ctx)
	}}
	t.Cleanup(calls.CloseIdleConnections)
	for _, c := range []struct {
		host, origin string
		want         int
	}{{"evil.example", "http://evil.example", 421}, {"127.0.0.1", "http://evil.example", 403}, {"127.0.0.1",
		"http://127.0.0.1", 101}} {
		r, err := http.NewRequestWithContext(bounded(t), http.MethodGet, "http://"+c.host+eventsPath, nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Origin": c.origin, "Connection": "Upgrade", "Upgrade": "websocket",
			"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="} {
			r.Header.Set(name, value)
		}
		answer, err := calls.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != c.want {
			t.Errorf("Host %s, Origin %s: got %s, want %d", c.host, c.origin, answer.Status, c.want)
		}
	}
}
