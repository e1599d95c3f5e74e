package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// TestHalfSentBodies: 600 bodies of HTTP that grow to a megabyte and never end use at most as much of a node's memory
// as 600 messages of gRPC, and others are served meanwhile (SECURITY §2.9).
func TestHalfSentBodies(t *testing.T) {
	t.Parallel()
	const whole = 1 << 20
	spaces := bytes.Repeat([]byte{' '}, whole-1)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, err := z.Write(spaces)
	check(t, err)
	check(t, z.Flush())
	for _, half := range []halfSent{
		{name: "one_a_connection", path: "/v1/jobs", kind: "application/json", sends: spaces, conns: 600, each: 1},
		{name: "of_unknown_length", path: "/v1/jobs", kind: "application/json", sends: spaces, chunked: true,
			conns: 600, each: 1},
		{name: "compressed", path: "/v1/jobs", kind: "application/json", coding: "gzip", sends: zipped.Bytes(),
			conns: 600, each: 1},
		{name: "of_lines", path: "/v1/workflows/f1", kind: "application/x-ndjson", sends: spaces, conns: 600, each: 1},
		{name: "ten_a_connection_of_HTTP2", path: "/v1/jobs", kind: "application/json", sends: spaces, tls: true,
			conns: 60, each: 10},
	} {
		t.Run(half.name, func(t *testing.T) { half.run(t) })
	}
}

// halfSent are requests whose bodies never end.
type halfSent struct {
	name, path, kind, coding string
	sends                    []byte
	chunked, tls             bool
	conns, each              int
}

func (h *halfSent) run(t *testing.T) {
	const budget = 32 << 20
	flags := []string{"--inflight-bytes", fmt.Sprint(budget)}
	scheme, trust := "http", &tls.Config{}
	var ca []string
	if h.tls {
		authority := newAuthority(t)
		flags, ca, scheme = append(flags, authority.flags(t, "n1")...), []string{"--tls-ca", authority.file}, "https"
		text, err := os.ReadFile(authority.file)
		check(t, err)
		trust.RootCAs = x509.NewCertPool()
		trust.RootCAs.AppendCertsFromPEM(text)
	}
	c := newCluster(t, 1, flags...)
	url := scheme + "://" + c.all[0].API + h.path
	before := peak(t, c.all[0])
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{}, h.conns*h.each)
	for range h.conns {
		calls := &http.Transport{TLSClientConfig: trust, ForceAttemptHTTP2: h.tls}
		t.Cleanup(calls.CloseIdleConnections)
		for range h.each {
			h.begin(ctx, t, calls, url, ended)
		}
	}
	for range h.conns * h.each * 5 / 6 { // the budget has room for 32 at most
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatal("too many requests are in progress")
		}
	}
	c.rota(t, append(ca, "job", "submit", "--type", "work", "--id", "j1")...).want(t, 0)
	answer, err := (&http.Client{Transport: &http.Transport{TLSClientConfig: trust}}).Post(scheme+"://"+c.all[0].API+
		"/v1/jobs", "application/json",
		strings.NewReader(`{"jobs":[{"id":"j2","type":"work"}]}`))
	check(t, err)
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("another caller's submission: %s", answer.Status)
	}
	if grown := (peak(t, c.all[0]) - before) << 10; grown >= 5*budget { // live memory and garbage, as for gRPC
		t.Errorf("the node used %d MiB more, want less than %d", grown>>20, 5*budget>>20)
	} else {
		t.Logf("the node took %d MiB more", grown>>20)
	}
}

// begin sends a request that does not end.
func (h *halfSent) begin(ctx context.Context, t *testing.T, calls *http.Transport, url string, ended chan<- struct{}) {
	read, write := io.Pipe()
	method := http.MethodPost
	if strings.HasPrefix(h.path, "/v1/workflows/") {
		method = http.MethodPut
	}
	req, err := http.NewRequestWithContext(ctx, method, url, read)
	check(t, err)
	req.Header.Set("Content-Type", h.kind)
	if h.coding != "" {
		req.Header.Set("Content-Encoding", h.coding)
	}
	if !h.chunked {
		req.ContentLength = int64(len(h.sends)) + 1
	}
	go func() { _, _ = write.Write(h.sends) }()
	go func() {
		if answer, err := calls.RoundTrip(req); err == nil {
			_ = answer.Body.Close()
		}
		_ = read.Close()
		ended <- struct{}{}
	}()
}
