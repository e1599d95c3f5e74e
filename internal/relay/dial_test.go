package relay

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestPrivate checks that addresses that only the relay's host and the networks around it can reach are private, in
// each spelling.
func TestPrivate(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"127.0.0.1": true, "127.8.8.8": true, "::1": true, "0.0.0.0": true, "::": true, "::ffff:127.0.0.1": true,
		"::127.0.0.1":     true,
		"169.254.169.254": true, "::ffff:169.254.169.254": true, "64:ff9b::a9fe:a9fe": true, "fe80::1%eth0": true,
		"fd00:ec2::254": true,
		"10.0.0.1":      true, "172.16.0.1": true, "172.31.255.255": true, "192.168.1.1": true, "100.64.0.1": true,
		"198.18.0.1": true, "2002:7f00:1::": true, "224.0.0.1": true, "ff02::1": true, "255.255.255.255": true,
		"93.184.216.34": false, "172.32.0.1": false, "100.128.0.1": false, "169.253.0.1": false,
		"2606:4700::1111": false, "::ffff:93.184.216.34": false,
	} {
		if got := private(netip.MustParseAddr(address)); got != want {
			t.Errorf("private(%s) = %t, want %t", address, got, want)
		}
	}
}

// TestHTTP_private checks that no private address is dialed, even through a name, because the dialed address is
// checked, unless AllowPrivate is set.
func TestHTTP_private(t *testing.T) {
	t.Parallel()
	var reached atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	t.Cleanup(srv.Close)
	_, port, err := net.SplitHostPort(srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	refuses := newHTTP(false, 5*time.Second)
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "169.254.169.254",
		"[::ffff:169.254.169.254]", "10.0.0.1"} {
		_, err := get(t, refuses, "http://"+host+":"+port+"/")
		if !errors.Is(err, errRefused) || !strings.Contains(err.Error(), "--allow-private") {
			t.Errorf("%s: error %v, want a refused address and the flag that allows it", host, err)
		}
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("the receiver on loopback was reached %d times, want never", n)
	}
	if code, err := get(t, newHTTP(true, 5*time.Second), srv.URL); err != nil || code != http.StatusOK ||
		reached.Load() != 1 {
		t.Errorf("with AllowPrivate: status %d, error %v, reached %d times; want 200 and once", code, err,
			reached.Load())
	}
}

// TestHTTP_redirect checks that a redirect is an answer, and is not followed.
func TestHTTP_redirect(t *testing.T) {
	t.Parallel()
	var followed atomic.Int32
	inner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Add(1) }))
	t.Cleanup(inner.Close)
	for _, code := range []int{301, 302, 303, 307, 308} {
		outer := httptest.NewServer(http.RedirectHandler(inner.URL, code))
		if got, err := get(t, newHTTP(true, 5*time.Second), outer.URL); err != nil || got != code {
			t.Errorf("status %d, error %v, want the redirect's own %d", got, err, code)
		}
		outer.Close()
	}
	if n := followed.Load(); n != 0 {
		t.Errorf("redirects were followed %d times, want never", n)
	}
}

// get requests a URL, and returns the status of the answer.
func get(t *testing.T, c *http.Client, url string) (int, error) {
	t.Helper()
	t.Cleanup(c.CloseIdleConnections)
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost, url,
		strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.Do(req)
	if err != nil {
		return 0, err
	}
	_ = answer.Body.Close()
	return answer.StatusCode, nil
}
