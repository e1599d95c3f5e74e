package web

import (
	"context"
	"net/http"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/words"
)

const (
	// socketPing is how often a reader is pinged. socketPong is how long it may take to answer: the core cuts off slow
	// readers, so it is not shorter than that takes.
	socketPing = 20 * time.Second
	socketPong = 30 * time.Second
	// socketReads bounds the bytes that a reader sends, which may be only control frames.
	socketReads = 1 << 10
	// socketReason is the longest text of a close frame (RFC 6455).
	socketReason = 123
)

// socket sends events over a WebSocket: one JSON text per message. It ends with a close frame that gives the reason.
type socket struct {
	conn *websocket.Conn
	// life ends with the server.
	life context.Context
}

// accept answers a request for a WebSocket.
func (s *Site) accept(w http.ResponseWriter, r *http.Request, beside *sync.WaitGroup, ctx context.Context,
	cancel context.CancelCauseFunc) (*socket, error) {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true}) // Hosts checked the origin
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(socketReads)
	c := &socket{conn, s.options.Life}
	beside.Go(func() { c.read(cancel) })
	beside.Go(func() { c.ping(ctx) })
	return c, nil
}

func (c *socket) begin() error { return nil }

func (c *socket) send(batch *Batch) error {
	texts, err := batch.Texts()
	for _, text := range texts {
		if err := c.write(text); err != nil {
			return err
		}
	}
	return err
}

func (c *socket) write(text []byte) error {
	ctx, cancel := context.WithTimeout(c.life, streamWrite)
	defer cancel()
	if err := c.conn.Write(ctx, websocket.MessageText, text); err != nil {
		return gone(err)
	}
	return nil
}

// read answers control frames and detects the end; a reader that sends anything else is rejected. Its context outlives
// a drain: ending it would tear the connection down before the reason is sent.
func (c *socket) read(cancel context.CancelCauseFunc) {
	defer cancel(nil)
	if _, _, err := c.conn.Reader(c.life); err == nil {
		_ = c.conn.Close(websocket.StatusPolicyViolation, "a consumer of events sends nothing")
	}
}

// ping closes a connection whose other end vanished silently.
func (c *socket) ping(ctx context.Context) {
	tick := time.NewTicker(socketPing)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		sign, cancel := context.WithTimeout(ctx, socketPong)
		err := c.conn.Ping(sign)
		cancel()
		if err != nil {
			_ = c.conn.CloseNow()
			return
		}
	}
}

func (c *socket) end(err error, _ bool) {
	defer func() { _ = c.conn.CloseNow() }()
	if c.life.Err() == nil {
		code, reason := closeOf(err)
		_ = c.conn.Close(code, reason)
	}
}

// closeOf returns the close frame for how a stream ended. Codes are those of RFC 6455 and its registry: 1008 invalid
// request, 1013 try again, 1012 and 1001 connect to another node, 1011 internal error.
func closeOf(err error) (websocket.StatusCode, string) {
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
	if len(reason) > socketReason {
		reason = reason[:socketReason]
		for !utf8.ValidString(reason) { // do not split a rune
			reason = reason[:len(reason)-1]
		}
	}
	return code, reason
}
