package transport

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/peer"
)

func (c *fakeCore) Events(ctx context.Context, f rota.EventFilter, send func(peer.EventBatch) error) error {
	if c.events == nil {
		return c.err
	}
	return c.events(ctx, f, send)
}

func (n *fakeNode) EventRange(_ context.Context, r peer.EventRange) (peer.EventChunk, error) {
	return peer.EventChunk{Data: fmt.Appendf(nil, "from %d at %d", r.From, r.At), Oldest: 3, Next: 9}, n.err
}

// servedEvents returns n events.
func servedEvents(n int) []rota.ServedEvent {
	list := make([]rota.ServedEvent, n)
	for i := range list {
		list[i] = rota.ServedEvent{Event: rota.Event{ID: rota.EventID{Incarnation: 1, Index: 7, Seq: uint32(i)},
			Kind: rota.EventJobCompleted, Job: "j", Payload: `{"a":1}`, Text: "größe"}, PayloadHash: rota.Hex{1, 2}}
	}
	return list
}

// telling is a core that returns these batches and ends with err.
func telling(err error, batches ...[]rota.ServedEvent) func(context.Context, rota.EventFilter,
	func(peer.EventBatch) error) error {
	return func(_ context.Context, _ rota.EventFilter, send func(peer.EventBatch) error) error {
		for _, b := range batches {
			if err := send(peer.EventBatch{Events: b, Scanned: b[len(b)-1].ID}); err != nil {
				return err
			}
		}
		return err
	}
}

func TestTail(t *testing.T) {
	t.Parallel()
	b := setup(t)
	events := servedEvents(1200)
	var seen rota.EventFilter
	b.core.events = func(ctx context.Context, f rota.EventFilter, send func(peer.EventBatch) error) error {
		seen = f
		return telling(rota.Refusef(rota.KindExhausted, "events", "too slow"), events, events[:1])(ctx, f, send)
	}
	for range 2 { // the second consumer gets the encoding made for the first
		stream, err := rotav1.NewEventsClient(b.conn).Tail(bounded(t), &rotav1.TailRequest{From: "1.5.0", Follow: true,
			Kinds: []string{"jobCompleted"}, Job: "j"})
		if err != nil {
			t.Fatal(err)
		}
		var got []rota.ServedEvent
		for {
			m, err := stream.Recv()
			if err != nil {
				if e := words.FromStatus(err); e.Kind != rota.KindExhausted || e.Text != "too slow" {
					t.Fatal(err)
				}
				break
			}
			for _, w := range m.Events {
				e, err := words.EventFromWire(w)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, e)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(append(events[:len(events):len(events)], events[0])) {
			t.Fatalf("%d events arrived, but not those that were sent", len(got))
		}
	}
	if want := (rota.EventID{Incarnation: 1, Index: 5}); seen.After != want || !seen.Follow || seen.Job != "j" ||
		len(seen.Kinds) != 1 {
		t.Errorf("the core was asked for %+v", seen)
	}
}

func TestTail_refusesByName(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, c := range map[string]struct {
		req  *rotav1.TailRequest
		want string
	}{
		"event_id": {&rotav1.TailRequest{From: "1.2"}, "1.2"},
		"kind":     {&rotav1.TailRequest{Kinds: []string{"jobEaten"}}, "jobEaten"},
		"no kind":  {&rotav1.TailRequest{Kinds: []string{"none"}}, "none"},
		"job":      {&rotav1.TailRequest{Job: "a b"}, "job"},
	} {
		stream, err := rotav1.NewEventsClient(b.conn).Tail(bounded(t), c.req)
		if err == nil {
			_, err = stream.Recv()
		}
		if e := words.FromStatus(err); e.Kind != rota.KindInvalid || !strings.Contains(e.Text, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// web dials the server as a browser does.
func (b *bundle) web(t *testing.T, target string) (*websocket.Conn, *http.Response, error) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return b.lis.DialContext(ctx) }}}
	return websocket.Dial(bounded(t), "ws://node"+target, &websocket.DialOptions{HTTPClient: client})
}

func TestWebSocket(t *testing.T) {
	t.Parallel()
	events := servedEvents(3)
	for name, c := range map[string]struct {
		end    error
		code   websocket.StatusCode
		reason string
	}{
		"ends": {nil, websocket.StatusNormalClosure, ""},
		"cuts off a slow consumer": {rota.Refusef(rota.KindExhausted, "events",
			"this consumer is too slow: resume after 1.7.2"),
			websocket.StatusTryAgainLater, "EXHAUSTED: this consumer is too slow: resume after 1.7.2"},
		"refuses an id of the future": {rota.Refusef(rota.KindOutOfRange, "event_id", "event 9.9.9 is of the future"),
			websocket.StatusPolicyViolation, "OUT_OF_RANGE: event 9.9.9 is of the future"},
		"cuts a long reason": {rota.Refusef(rota.KindInternal, "", "%s", strings.Repeat("ü", 100)),
			websocket.StatusInternalError, "INTERNAL: " + strings.Repeat("ü", 56)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.core.events = telling(c.end, events)
			conn, _, err := b.web(t, eventsPath+"?from=1.6.0&follow=1&kind=jobCompleted&kind=jobDead&job=j")
			if err != nil {
				t.Fatal(err)
			}
			for i := range events {
				_, text, err := conn.Read(bounded(t))
				if err != nil {
					t.Fatal(err)
				}
				var e rota.ServedEvent
				if err := json.Unmarshal(text, &e); err != nil || fmt.Sprint(e) != fmt.Sprint(events[i]) {
					t.Errorf("event %d is %s, %v", i, text, err)
				}
			}
			_, _, err = conn.Read(bounded(t))
			var end websocket.CloseError
			if !errors.As(err, &end) || end.Code != c.code || end.Reason != c.reason {
				t.Errorf("ended with %v", err)
			}
		})
	}
}

func TestWebSocket_ofAConsumerThatTalks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.core.events = func(ctx context.Context, _ rota.EventFilter, _ func(peer.EventBatch) error) error {
		<-ctx.Done()
		return ctx.Err()
	}
	conn, _, err := b.web(t, eventsPath)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Write(bounded(t), websocket.MessageText, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if _, _, err = conn.Read(bounded(t)); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("ended with %v", err)
	}
}

func TestWebSocket_endsWithTheServer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	begun := make(chan struct{})
	b.core.events = func(ctx context.Context, _ rota.EventFilter, _ func(peer.EventBatch) error) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	}
	conn, _, err := b.web(t, eventsPath+"?follow=1")
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	drained := make(chan error, 1)
	go func() { drained <- b.server.Drain(bounded(t)) }()
	if _, _, err = conn.Read(bounded(t)); websocket.CloseStatus(err) != websocket.StatusServiceRestart {
		t.Errorf("ended with %v", err)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

func TestWeb_refuses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return b.lis.DialContext(ctx) }}}
	for target, want := range map[string]struct {
		code int
		text string
	}{
		"/":                              {http.StatusNotFound, "openapi.json"},
		"/v2/events":                     {http.StatusNotFound, "gRPC"},
		eventsPath + "?from=newest":      {http.StatusBadRequest, "newest"},
		eventsPath + "?worker=a+b":       {http.StatusBadRequest, "worker"},
		eventsPath + "?from=x":           {http.StatusBadRequest, "INCARNATION.INDEX.SEQ"},
		eventsPath + "?form=1.1.0":       {http.StatusBadRequest, `unknown parameter \"form\"`},
		eventsPath + "?follow=maybe":     {http.StatusBadRequest, "maybe"},
		eventsPath + "?kind=jobEaten":    {http.StatusBadRequest, "jobEaten"},
		eventsPath + "?job=a&job=b":      {http.StatusBadRequest, "2 values"},
		eventsPath + "?from=1.1.0&job=+": {http.StatusBadRequest, "job"},
	} {
		answer, err := client.Get("http://node" + target)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode != want.code || !strings.Contains(string(text), want.text) {
			t.Errorf("%s: %d %s", target, answer.StatusCode, text)
		}
	}
}

func TestPeers_eventRange(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := setup(t)
		p := NewPeers(PeerOptions{Self: "n2", Name: "prod", Dial: func(ctx context.Context, _ string) (net.Conn,
			error) {
			return b.lis.DialContext(ctx)
		}})
		defer p.Close()
		got, err := p.EventRange(bounded(t), peer.NodeAddress{ID: "n1", API: "n1:1"}, peer.EventRange{From: 4, At: 5})
		if err != nil || string(got.Data) != "from 4 at 5" || got.Oldest != 3 || got.Next != 9 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// TestWebSocket_underTLS checks HTTP/1.1 behind the same certificates as gRPC, with ALPN and without.
func TestWebSocket_underTLS(t *testing.T) {
	t.Parallel()
	certificate, roots := certify(t)
	b := setup(t, func(o *Options) {
		o.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, ClientCAs: roots,
			ClientAuth: tls.VerifyClientCertIfGiven}
	})
	b.core.events = telling(nil, servedEvents(1))
	for _, alpn := range [][]string{nil, {"http/1.1"}} {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
			DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				raw, err := b.lis.DialContext(ctx)
				if err != nil {
					return nil, err
				}
				return tls.Client(raw, &tls.Config{RootCAs: roots, ServerName: "n1.rota", NextProtos: alpn}), nil
			}}}
		conn, _, err := websocket.Dial(bounded(t), "wss://n1.rota"+eventsPath,
			&websocket.DialOptions{HTTPClient: client})
		if err != nil {
			t.Fatalf("ALPN %q: %v", alpn, err)
		}
		if _, text, err := conn.Read(bounded(t)); err != nil || !strings.Contains(string(text), "jobCompleted") {
			t.Errorf("ALPN %q: %s, %v", alpn, text, err)
		}
		_ = conn.CloseNow()
	}
	if _, _, err := b.web(t, eventsPath); err == nil {
		t.Error("a connection in clear text is served")
	}
}

// TestTail_tellsHowFarWasLooked checks that a consumer whose filter selects little gets its position: with the last
// message of a batch, or alone.
func TestTail_tellsHowFarWasLooked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	events, far := servedEvents(600), rota.EventID{Incarnation: 1, Index: 9, Seq: 4}
	b.core.events = func(_ context.Context, _ rota.EventFilter, send func(peer.EventBatch) error) error {
		return errors.Join(send(peer.EventBatch{Events: events, Scanned: events[599].ID}),
			send(peer.EventBatch{Events: events, Scanned: far}), send(peer.EventBatch{Scanned: far}))
	}
	stream, err := rotav1.NewEventsClient(b.conn).Tail(bounded(t), &rotav1.TailRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(len(m.Events), " ", m.Scanned))
	}
	if want := []string{"512 ", "88 ", "512 ", "88 1.9.4", "0 1.9.4"}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q, %q wanted", got, want)
	}
}
