package transport

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"

	"github.com/rotasched/rota"
	rotav1 "github.com/rotasched/rota/api/rota/v1"
	"github.com/rotasched/rota/api/words"
	"github.com/rotasched/rota/internal/peer"
)

// eventsPath is the one path that HTTP/1.1 is answered at.
const eventsPath = "/v1/events"

const (
	// webWrite bounds the sending of one event: longer than the core waits before
	// it cuts a slow consumer off, so that the reason has a chance to arrive.
	webWrite = 40 * time.Second
	// webPing is how often a consumer is asked for a sign, webPong how long it may
	// take: a slow one is the core's to judge, so no less than that takes.
	webPing = 20 * time.Second
	webPong = 30 * time.Second
	// webReads bounds what a consumer sends: nothing but control frames.
	webReads = 1 << 10
	// webReason is the most that a close frame says (RFC 6455).
	webReason = 123
)

// webServer answers HTTP/1.1 on the port of gRPC: events over WebSocket, and
// whoever knocks at the wrong door is told where the right one is.
func (s *Server) webServer() *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+eventsPath, s.serveEvents)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		webRefuse(w, http.StatusNotFound, "this port speaks gRPC (rota.v1), and events over WebSocket at GET "+eventsPath+
			"?from=ID&follow=1&kind=K&job=J; health and metrics are on the admin port")
	})
	server := NewWebServer(mux, &s.options.Hosts, log.New(io.Discard, "", 0))
	// A WebSocket takes its connection away from here.
	server.WriteTimeout = handshakeTimeout
	server.ConnContext = withCertificate
	return server
}

// withCertificate returns a connection's context with its seat, and the client whose
// certificate was shown.
func withCertificate(ctx context.Context, c net.Conn) context.Context {
	if known, ok := c.(*knownConn); ok {
		ctx = context.WithValue(ctx, clientKey{}, known.client)
	}
	return withSeat(ctx, c)
}

func webRefuse(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Connection", "close")
	http.Error(w, "rota: "+text, code)
}

// serveEvents streams events over a WebSocket: one JSON text a message, the same
// fields as the command line shows. It ends with a close frame that says why.
func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request) {
	filter, err := tailOfQuery(r.URL.Query())
	if err != nil {
		webRefuse(w, http.StatusBadRequest, err.Error())
		return
	}
	p, ok := s.admitWeb(w, r, "GET "+eventsPath)
	if !ok {
		return
	}
	if !s.enter() {
		webRefuse(w, http.StatusServiceUnavailable, s.going().Error())
		return
	}
	defer s.tails.Done()
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true}) // Hosts looked at the origin
	if err != nil {
		return // it has answered
	}
	defer conn.CloseNow()
	seatOf(r.Context()).keep()
	conn.SetReadLimit(webReads)
	ctx, cancel := s.untilDrain(s.life)
	defer cancel()
	ctx, left := s.desk.enter(p.context(ctx), p)
	defer left()
	s.tails.Go(func() { s.readWeb(cancel, conn) })
	s.tails.Go(func() { s.pingWeb(ctx, conn) })
	err = s.options.Core.Events(ctx, filter, func(batch peer.EventBatch) error {
		if err := wasCutOff(ctx); err != nil {
			return err
		}
		texts, err := s.batches.of(batch).lines()
		for _, text := range texts {
			if err := s.writeWeb(conn, text); err != nil {
				return err
			}
		}
		return err
	})
	if s.draining.Err() != nil {
		err = s.going()
	}
	if lost := wasCutOff(ctx); lost != nil {
		err = lost
	}
	p.denied(err)
	if s.life.Err() != nil {
		return
	}
	code, reason := webEnd(err)
	_ = conn.Close(code, reason)
}

func (s *Server) writeWeb(conn *websocket.Conn, text []byte) error {
	ctx, cancel := context.WithTimeout(s.life, webWrite)
	defer cancel()
	if err := conn.Write(ctx, websocket.MessageText, text); err != nil {
		return &rota.Error{Kind: rota.KindUnavailable, Text: "the connection ended", Cause: err}
	}
	return nil
}

// readWeb answers control frames and notices the end; a consumer that sends
// anything else is told that it may not. Its context outlives a drain: ended, it
// would tear the connection down before the reason is out.
func (s *Server) readWeb(cancel context.CancelFunc, conn *websocket.Conn) {
	defer cancel()
	if _, _, err := conn.Reader(s.life); err == nil {
		_ = conn.Close(websocket.StatusPolicyViolation, "a consumer of events sends nothing")
	}
}

// pingWeb closes a connection whose other end is gone without a word.
func (s *Server) pingWeb(ctx context.Context, conn *websocket.Conn) {
	tick := time.NewTicker(webPing)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		sign, cancel := context.WithTimeout(ctx, webPong)
		err := conn.Ping(sign)
		cancel()
		if err != nil {
			_ = conn.CloseNow()
			return
		}
	}
}

// webEnd returns the close frame for how a stream ended. Codes are those of RFC 6455
// and its registry: 1008 the request is wrong, 1013 try again, 1012 and 1001 go to
// another node, 1011 a fault of ours.
func webEnd(err error) (websocket.StatusCode, string) {
	if err == nil {
		return websocket.StatusNormalClosure, ""
	}
	e := words.FromStatus(err)
	code := websocket.StatusInternalError
	switch e.Kind {
	case rota.KindInvalid, rota.KindNotFound, rota.KindOutOfRange, rota.KindDenied, rota.KindUnauthenticated:
		code = websocket.StatusPolicyViolation
	case rota.KindExhausted:
		code = websocket.StatusTryAgainLater
	case rota.KindUnavailable:
		code = websocket.StatusServiceRestart
	case rota.KindTimeout:
		code = websocket.StatusGoingAway
	}
	reason := e.Kind.String() + ": " + e.Text
	if len(reason) > webReason {
		reason = reason[:webReason]
		for !utf8.ValidString(reason) { // no rune by halves
			reason = reason[:len(reason)-1]
		}
	}
	return code, reason
}

// tailOfQuery reads a filter from an address; unknown names are refused, as a
// misspelled one would select too much.
func tailOfQuery(query url.Values) (rota.EventFilter, error) {
	req := &rotav1.TailRequest{Kinds: query["kind"]}
	for name, values := range query {
		if name == "kind" {
			continue
		}
		if len(values) > 1 {
			return rota.EventFilter{}, rota.Refusef(rota.KindInvalid, name, "%q is given %d times: once is wanted", name, len(values))
		}
		switch value := values[0]; name {
		case "from":
			req.From = value
		case "job":
			req.Job = value
		case "follow":
			if value != "1" && value != "true" && value != "0" && value != "false" {
				return rota.EventFilter{}, rota.Refusef(rota.KindInvalid, name, "follow is %.20q: 1 or 0 is wanted", value)
			}
			req.Follow = value == "1" || value == "true"
		default:
			return rota.EventFilter{}, rota.Refusef(rota.KindInvalid, name, "%.40q is unknown: from, follow, kind and job are taken", name)
		}
	}
	return words.TailFromWire(req)
}
