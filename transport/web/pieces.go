package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/words"
)

const (
	// linesType is the media type of a body of lines, each of which is JSON.
	linesType = "application/x-ndjson"
	// maxStep bounds how long a stream may be idle: no line arrives, or the client does not read.
	maxStep = 20 * time.Second
)

// Pieces is an answer that is sent as it is produced.
type Pieces struct {
	Body func(huma.Context)
}

// sent returns an answer that do sends in pieces of a media type. An error before the first piece is answered with a
// problem. A later error ends the connection, so that a partial answer is not mistaken for the whole, unless last turns
// it into a last piece.
func sent(kind string, do func(w *sender) error, last func(w *sender, err error)) *Pieces {
	return &Pieces{func(ctx huma.Context) {
		_, w := humago.Unwrap(ctx)
		visit, _ := ctx.Context().Value(visitKey{}).(Visit)
		s := &sender{w: w, control: http.NewResponseController(w), visit: visit, kind: kind}
		err := do(s)
		if visit != nil {
			err = visit.Settle(err)
		}
		switch {
		case err == nil:
			s.begin()
		case !s.begun:
			Refuse(w, err, 0)
		case last != nil:
			last(s, err)
		default:
			panic(http.ErrAbortHandler)
		}
	}}
}

// sender sends an answer in pieces.
type sender struct {
	w       http.ResponseWriter
	control *http.ResponseController
	visit   Visit
	kind    string
	begun   bool
}

func (s *sender) begin() {
	if !s.begun {
		s.begun = true
		s.w.Header().Set("Content-Type", s.kind)
		s.w.WriteHeader(http.StatusOK)
	}
}

// Write sends a piece at once, while the caller may still receive it.
func (s *sender) Write(p []byte) (int, error) {
	if s.visit != nil {
		if err := s.visit.Settle(nil); err != nil {
			return 0, err
		}
	}
	_ = s.control.SetWriteDeadline(time.Now().Add(maxStep)) // a connection without deadlines needs none
	s.begin()
	n, err := s.w.Write(p)
	if err == nil {
		err = s.control.Flush()
	}
	return n, err
}

// line sends a value as a line.
func (s *sender) line(v any) error {
	var b bytes.Buffer
	if err := write(&b, v); err != nil {
		return err
	}
	_, err := s.Write(b.Bytes())
	return err
}

// errAnswered is the error of reading a body whose request has been answered; no client sees it.
var errAnswered = rota.Refusef(rota.KindInternal, "body", "the request has been answered")

// lines reads a body line by line, keeping one line at a time.
type lines struct {
	from    *body
	control *http.ResponseController
	// number is the number of the line that was read last, from 1.
	number int
	// reading is held while a line is read and used. over is set once the request is answered: a concurrent reader then
	// touches nothing of it.
	reading sync.Mutex
	over    atomic.Bool
}

func newLines(ctx huma.Context) *lines {
	_, w := humago.Unwrap(ctx)
	from, _ := ctx.Context().Value(bodyKey{}).(*body)
	return &lines{from: from, control: http.NewResponseController(w)}
}

// end stops further reads, and waits for a read in progress.
func (l *lines) end() {
	l.over.Store(true)
	if !l.reading.TryLock() {
		_ = l.control.SetReadDeadline(time.Unix(1, 0)) // no further data arrives
		l.reading.Lock()
	}
	l.reading.Unlock()
}

// next calls use with the next line that is not empty; it returns io.EOF after the last one.
func (l *lines) next(use func(text []byte) error) error {
	l.reading.Lock()
	defer l.reading.Unlock()
	for {
		if l.over.Load() {
			return errAnswered
		}
		if l.from.used() { // buffered data needs no deadline
			_ = l.control.SetReadDeadline(time.Now().Add(maxStep))
			if l.over.Load() { // end may have set another deadline before
				return errAnswered
			}
		}
		l.number++
		line, err := l.from.line()
		if len(line) > maxBody {
			return rota.Refusef(rota.KindInvalid, "body", "line %d too long: maximum %d bytes", l.number, maxBody)
		}
		if _, ours := errors.AsType[*rota.Error](err); err != nil && err != io.EOF && !ours {
			return rota.Refusef(rota.KindTimeout, "body", "the body is incomplete, or sent nothing for %s", maxStep)
		}
		if err != nil && err != io.EOF {
			return err
		}
		if text := bytes.TrimSpace(line); len(text) > 0 {
			return use(text)
		}
		if err != nil {
			return err
		}
	}
}

// ended returns a line that states why a stream ended early.
func ended(err error) json.RawMessage {
	text, _ := json.Marshal(struct { // texts and numbers only
		Error any `json:"error"`
	}{words.Problem(err)})
	return text
}
