package transport

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/access"
	"github.com/rotasched/rota/internal/peer"
)

// open makes a request with a long-lived answer.
func (p *page) open(method, path string, headers ...string) (*http.Response, *bufio.Reader) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(bounded(p.t), method, "http://"+p.host+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := p.client.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = answer.Body.Close() })
	return answer, bufio.NewReader(answer.Body)
}

// block reads one server-sent event, or a comment.
func block(t *testing.T, from *bufio.Reader) string {
	t.Helper()
	var b strings.Builder
	for {
		line, err := from.ReadString('\n')
		if b.WriteString(line); err != nil || line == "\n" {
			if err != nil {
				fmt.Fprintf(&b, "(%v)", err)
			}
			return b.String()
		}
	}
}

// TestEvents_forms checks that the Accept header selects blocks or lines, and that events excluded by a filter move the
// reader's cursor in both.
func TestEvents_forms(t *testing.T) {
	t.Parallel()
	b := setup(t)
	events, far := servedEvents(2), rota.EventID{Incarnation: 1, Index: 9, Seq: 4}
	b.core.events = func(_ context.Context, _ rota.EventFilter, send func(peer.EventBatch) error) error {
		return errors.Join(send(peer.EventBatch{Scanned: rota.EventID{Incarnation: 1, Index: 6}}),
			send(peer.EventBatch{Events: events, Scanned: events[1].ID}),
			send(peer.EventBatch{Scanned: far}))
	}
	first, _ := events[0].MarshalJSON()
	second, _ := events[1].MarshalJSON()
	blocks := fmt.Sprintf("retry: 1000\n\nid: 1.6.0\n\nid: 1.7.0\ndata: %s\n\nid: 1.7.1\ndata: %s\n\nid: 1.9.4\n\n",
		first, second)
	lines := fmt.Sprintf("{\"scanned\":\"1.6.0\"}\n%s\n%s\n{\"scanned\":\"1.9.4\"}\n", first, second)
	web := webOf(t, b)
	for accept, want := range map[string]struct{ kind, text string }{
		"text/event-stream":                   {"text/event-stream", blocks},
		"text/html, text/event-stream;q=0.9":  {"text/event-stream", blocks},
		"application/x-ndjson":                {"application/x-ndjson", lines},
		"text/html, application/*; q=0.8":     {"application/x-ndjson", lines},
		"*/*":                                 {"application/x-ndjson", lines},
		"":                                    {"application/x-ndjson", lines},
		"text/html, application/pdf;q=0.9":    {"application/problem+json", ""},
		"application/x-ndjson-but-not-really": {"application/problem+json", ""},
	} {
		answer, body := web.open("GET", eventsPath, "Accept", accept, "Accept-Encoding", "gzip")
		text, err := io.ReadAll(body)
		if err != nil || answer.Header.Get("Content-Type") != want.kind || want.text != "" &&
			string(text) != want.text || answer.Header.Get("Content-Encoding") != "" {
			t.Errorf("%q: %s %q %v:\n%s\nwanted\n%s", accept, answer.Status, answer.Header, err, text, want.text)
		}
		if want.text == "" && answer.StatusCode != http.StatusNotAcceptable {
			t.Errorf("%q: %s", accept, answer.Status)
		}
	}
	if answer, _ := web.open("HEAD", eventsPath); answer.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("HEAD: %s", answer.Status)
	}
}

// TestEvents_asks checks that the request's parameters reach the core, and that the last event seen takes precedence
// over the start.
func TestEvents_asks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var seen atomic.Pointer[rota.EventFilter]
	b.core.events = func(_ context.Context, f rota.EventFilter, _ func(peer.EventBatch) error) error {
		seen.Store(&f)
		return nil
	}
	web := webOf(t, b)
	at := rota.EventID{Incarnation: 1, Index: 4711, Seq: 2}
	blocks := []string{"Accept", "text/event-stream"}
	for query, c := range map[string]struct {
		headers []string
		want    rota.EventFilter
	}{
		"":                      {nil, rota.EventFilter{}},
		"?follow=1":             {nil, rota.EventFilter{Follow: true}},
		"?from=oldest":          {blocks, rota.EventFilter{Follow: true}},
		"?from=latest&follow=0": {blocks, rota.EventFilter{Latest: true}},
		"?from=1.4711.2":        {blocks, rota.EventFilter{After: at, Follow: true}},
		"?from=latest": {[]string{"Accept", "text/event-stream", "Last-Event-ID", "1.4711.2"},
			rota.EventFilter{After: at, Follow: true}},
		"?from=1.2.0&worker=w": {[]string{"Last-Event-ID", "1.4711.2"},
			rota.EventFilter{After: at, Worker: "w"}},
		"?queue=q&type=t&tenant=x":    {nil, rota.EventFilter{Queue: "q", Type: "t", Tenant: "x"}},
		"?workflow=w&job=w%2Fn":       {nil, rota.EventFilter{Workflow: "w", Job: "w/n"}},
		"?actor=token%3Aaaaaaaaaaaaa": {nil, rota.EventFilter{Actor: rota.TokenPrincipal("aaaaaaaaaaaa")}},
		"?kind=jobDead&kind=jobCompleted": {nil, rota.EventFilter{Kinds: []rota.EventKind{rota.EventJobDead,
			rota.EventJobCompleted}}},
	} {
		answer, body := web.open("GET", eventsPath+query, c.headers...)
		text, _ := io.ReadAll(body)
		if got := seen.Swap(nil); answer.StatusCode != http.StatusOK || got == nil ||
			fmt.Sprint(*got) != fmt.Sprint(c.want) {
			t.Errorf("%s %q: %s %s, the core was asked for %+v, wanted %+v", query, c.headers, answer.Status, text, got,
				c.want)
		}
	}
}

// TestEvents_refuses checks that errors before a stream begins are answered with a status and a problem.
func TestEvents_refuses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.core.events = func(_ context.Context, f rota.EventFilter, _ func(peer.EventBatch) error) error {
		if f.After.Index > 100 {
			return rota.Refusef(rota.KindOutOfRange, "event_id", "event %s is of the future: the newest entry is 100",
				f.After)
		}
		return rota.Refusef(rota.KindOutOfRange, "event_id",
			"the events after %s are no longer retained: the oldest is 1.50.0", f.After)
	}
	web := webOf(t, b)
	for id, want := range map[string]struct {
		code int
		says string
	}{
		"1.999.0": {http.StatusGone, "future"},
		"1.2.0":   {http.StatusGone, "the oldest is 1.50.0"},
		"seven":   {http.StatusBadRequest, "INCARNATION.INDEX.SEQ"},
	} {
		answer, body := web.open("GET", eventsPath, "Accept", "text/event-stream", "Last-Event-ID", id)
		text, _ := io.ReadAll(body)
		if answer.StatusCode != want.code || answer.Header.Get("Content-Type") != "application/problem+json" ||
			!strings.Contains(string(text), want.says) {
			t.Errorf("%s: %s %s", id, answer.Status, text)
		}
		if title := "or still to come"; want.code == http.StatusGone &&
			!strings.Contains(string(text), title) { // one title for both
			t.Errorf("%s: %s lacks %q", id, text, title)
		}
	}
}

// unfoundedCore is the core of a node without a cluster.
type unfoundedCore struct{ Core }

func (unfoundedCore) Access() access.Table { return nil }

// TestStreams_aRefusalThatPasses checks that a temporary refusal is sent as a stream that ends, because a browser never
// reconnects after a status other than 200. A permanent refusal is sent as its status. Readers of lines or of a
// WebSocket get the status.
func TestStreams_aRefusalThatPasses(t *testing.T) {
	t.Parallel()
	later := &rota.Error{Kind: rota.KindUnavailable, Subject: "node", Text: "it has not caught up",
		RetryAfter: 3 * time.Second}
	for name, c := range map[string]struct {
		err   error
		retry string
		code  int
	}{
		"unavailable": {later, "retry: 3000\n\n", http.StatusServiceUnavailable},
		"full": {rota.Refusef(rota.KindExhausted, "events", "too many follow"), "retry: 1000\n\n",
			http.StatusTooManyRequests},
		"late": {rota.Refusef(rota.KindTimeout, "events", "it took too long"), "retry: 1000\n\n",
			http.StatusGatewayTimeout},
		"for long": {&rota.Error{Kind: rota.KindUnavailable, RetryAfter: time.Hour, Text: "x"}, "retry: 30000\n\n",
			http.StatusServiceUnavailable},
		"gone":   {rota.Refusef(rota.KindOutOfRange, "from", "it is retained no longer"), "", http.StatusGone},
		"denied": {rota.Refusef(rota.KindDenied, "right", "it may not"), "", http.StatusForbidden},
	} {
		b := setup(t)
		b.core.events = func(context.Context, rota.EventFilter, func(peer.EventBatch) error) error { return c.err }
		web := webOf(t, b)
		answer, body := web.open("GET", eventsPath, "Accept", "text/event-stream")
		text, err := io.ReadAll(body)
		if c.retry == "" {
			if answer.StatusCode != c.code {
				t.Errorf("%s: %s %s", name, answer.Status, text)
			}
			continue
		}
		if err != nil || answer.StatusCode != http.StatusOK ||
			answer.Header.Get("Content-Type") != "text/event-stream" ||
			!strings.HasPrefix(string(text), c.retry+"event: going\ndata: {") ||
			!strings.HasSuffix(string(text), "\n\n") {
			t.Errorf("%s: %s %v %s", name, answer.Status, err, text)
		}
		if answer, _ := web.open("GET", eventsPath); answer.StatusCode != c.code {
			t.Errorf("%s, in lines: %s", name, answer.Status)
		}
	}
	// Both streams are checked at admission, where no rights are known yet.
	b := setup(t, func(o *Options) { o.Core = unfoundedCore{o.Core} })
	web := webOf(t, b)
	for _, path := range []string{eventsPath, "/v1/live?topic=overview"} {
		answer, body := web.open("GET", path, "Accept", "text/event-stream")
		if text, err := io.ReadAll(body); err != nil || answer.StatusCode != http.StatusOK ||
			!strings.Contains(string(text), "has not joined a cluster yet") {
			t.Errorf("%s: %s %v %s", path, answer.Status, err, text)
		}
	}
}

// TestEvents_ends checks that a stream that has begun states in its last block why it ends.
func TestEvents_ends(t *testing.T) {
	t.Parallel()
	t.Run("cut off", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.core.events = telling(rota.Refusef(rota.KindExhausted, "events",
			"this consumer is too slow: resume after 1.7.0"), servedEvents(1))
		_, body := webOf(t, b).open("GET", eventsPath, "Accept", "text/event-stream")
		text, _ := io.ReadAll(body)
		if last := string(text); !strings.Contains(last, "\n\nevent: ended\ndata: {") ||
			!strings.Contains(last, `"kind":"EXHAUSTED"`) || !strings.HasSuffix(last, "\n\n") {
			t.Errorf("%s", text)
		}
		_, body = webOf(t, b).open("GET", eventsPath)
		if text, _ = io.ReadAll(body); !strings.Contains(string(text), "\n{\"ended\":{\"type\":") {
			t.Errorf("%s", text)
		}
	})
	t.Run("the node goes", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		begun := make(chan struct{})
		b.core.events = func(ctx context.Context, _ rota.EventFilter, send func(peer.EventBatch) error) error {
			_ = send(peer.EventBatch{})
			close(begun)
			<-ctx.Done()
			return ctx.Err()
		}
		_, body := webOf(t, b).open("GET", eventsPath, "Accept", "text/event-stream")
		<-begun
		drained := make(chan error, 1)
		go func() { drained <- b.server.Drain(bounded(t)) }()
		text, err := io.ReadAll(body)
		if err != nil || !strings.Contains(string(text), "event: going\ndata: {") ||
			!strings.Contains(string(text), `"kind":"UNAVAILABLE"`) {
			t.Errorf("%s, %v", text, err)
		}
		if err := <-drained; err != nil {
			t.Error(err)
		}
	})
	t.Run("a right is lost", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			b := setup(t)
			table := &rightsTable{}
			table.give(rota.Anonymous, rota.RightRead)
			b.core.setTable(table)
			b.core.events = func(ctx context.Context, _ rota.EventFilter, send func(peer.EventBatch) error) error {
				_ = send(peer.EventBatch{})
				<-ctx.Done()
				return ctx.Err()
			}
			web := webOf(t, b)
			_, body := web.open("GET", eventsPath, "Accept", "text/event-stream")
			block(t, body)
			b.core.setTable(&rightsTable{})
			began := time.Now()
			text, _ := io.ReadAll(body)
			if !strings.Contains(string(text), "event: ended") || !strings.Contains(string(text), "UNAUTHENTICATED") ||
				time.Since(began) > 2*judgeEvery {
				t.Errorf("after %s: %s", time.Since(began), text)
			}
			web.client.CloseIdleConnections()
		})
	})
}

// TestEvents_livesOn checks that a silent stream sends a keep-alive every 15 s, whatever bounds the time of calls.
func TestEvents_livesOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t)
		b.core.events = func(ctx context.Context, _ rota.EventFilter, send func(peer.EventBatch) error) error {
			_ = send(peer.EventBatch{})
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Minute):
			}
			return send(peer.EventBatch{Events: servedEvents(1)})
		}
		web := webOf(t, b)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://node"+eventsPath, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", "text/event-stream")
		answer, err := web.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, signs := bufio.NewReader(answer.Body), 0
		for began := time.Now(); ; {
			text := block(t, body)
			if text == ":\n\n" {
				if signs++; time.Since(began) != time.Duration(signs)*15*time.Second {
					t.Fatalf("sign %d came after %s", signs, time.Since(began))
				}
			} else if strings.Contains(text, "data:") {
				break
			} else if strings.Contains(text, "(") {
				t.Fatalf("it ended: %s", text)
			}
		}
		if signs != 39 && signs != 40 {
			t.Errorf("%d signs in ten minutes", signs)
		}
		_ = answer.Body.Close()
		web.client.CloseIdleConnections()
	})
}

// TestEvents_ofOneWhoDoesNotRead checks that a reader that does not read is disconnected and leaves no resources
// behind.
func TestEvents_ofOneWhoDoesNotRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t)
		events := servedEvents(1000)
		left := make(chan error, 1)
		b.core.events = func(ctx context.Context, _ rota.EventFilter, send func(peer.EventBatch) error) error {
			var err error
			for err == nil { // continues until the connection accepts nothing further
				err = send(peer.EventBatch{Events: events})
			}
			left <- err
			return err
		}
		conn, err := b.lis.DialContext(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := io.WriteString(conn, "GET "+eventsPath+
			" HTTP/1.1\r\nHost: node\r\nAccept: text/event-stream\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if err := <-left; rota.KindOf(err) != rota.KindUnavailable {
			t.Errorf("sending ended with %v", err)
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("it was let go of after %s", took)
		}
		synctest.Wait()
		if n := b.server.calls.open; n != 0 {
			t.Errorf("%d calls are still open", n)
		}
		_ = conn.Close()
	})
}

// TestEvents_halfAsked checks that requests that never end do not stop others from following, and are evicted.
func TestEvents_halfAsked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t, func(o *Options) { o.MaxConnections = 700 })
		b.core.events = func(ctx context.Context, _ rota.EventFilter, send func(peer.EventBatch) error) error {
			_ = send(peer.EventBatch{Events: servedEvents(1)})
			<-ctx.Done()
			return ctx.Err()
		}
		var conns []net.Conn
		for range 600 {
			conn, err := b.lis.DialContext(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(conn, "GET "+eventsPath+
				" HTTP/1.1\r\nHost: node\r\nAccept: text/ev"); err != nil && !errors.Is(err, io.ErrClosedPipe) {
				t.Fatal(err)
			}
			conns = append(conns, conn)
		}
		conn, err := b.lis.DialContext(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "GET "+eventsPath+
			" HTTP/1.1\r\nHost: node\r\nAccept: text/event-stream\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		answer := bufio.NewReader(conn)
		for line := ""; !strings.HasPrefix(line, "data: "); {
			if line, err = answer.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(webHeader + time.Second)
		synctest.Wait()
		for i, c := range conns {
			if !closed(c) {
				t.Fatalf("request %d, half of which came, is open", i)
			}
			_ = c.Close()
		}
		_ = conn.Close()
	})
}
