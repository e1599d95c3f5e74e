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
	// maxStep is how long a stream may stand still: no line comes, or what is sent is not taken.
	maxStep = 20 * time.Second
)

// Pieces is an answer that is sent as it comes.
type Pieces struct {
	Body func(huma.Context)
}

// sent makes an answer of what sends pieces of a media type. What refuses before the first of
// them is a problem; what fails later ends the connection, so that nobody takes a part for the
// whole, unless last turns it into a last piece.
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

// Write sends a piece at once, where its caller may still have it.
func (s *sender) Write(p []byte) (int, error) {
	if s.visit != nil {
		if err := s.visit.Settle(nil); err != nil {
			return 0, err
		}
	}
	_ = s.control.SetWriteDeadline(time.Now().Add(maxStep)) // what has no deadlines needs none
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

// errAnswered is what reads a body further that has its answer; nobody sees it.
var errAnswered = rota.Refusef(rota.KindInternal, "body", "the request has been answered")

// lines reads a body line by line, of which one at a time is kept.
type lines struct {
	from    *body
	control *http.ResponseController
	// number is that of the line that was read last, from 1.
	number int
	// reading is held while a line is read and used. over says that the request is answered:
	// whoever reads on beside it touches nothing of it.
	reading sync.Mutex
	over    atomic.Bool
}

func newLines(ctx huma.Context) *lines {
	_, w := humago.Unwrap(ctx)
	from, _ := ctx.Context().Value(bodyKey{}).(*body)
	return &lines{from: from, control: http.NewResponseController(w)}
}

// end has nobody read from now on, and waits for who does.
func (l *lines) end() {
	l.over.Store(true)
	if !l.reading.TryLock() {
		_ = l.control.SetReadDeadline(time.Unix(1, 0)) // nothing comes any more
		l.reading.Lock()
	}
	l.reading.Unlock()
}

// next has the next line used that is not empty; it returns io.EOF behind the last one.
func (l *lines) next(use func(text []byte) error) error {
	l.reading.Lock()
	defer l.reading.Unlock()
	for {
		if l.over.Load() {
			return errAnswered
		}
		if l.from.used() { // what has arrived takes no time
			_ = l.control.SetReadDeadline(time.Now().Add(maxStep))
			if l.over.Load() { // end may have set another one before
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

// ended is a line that says why a stream ended early.
func ended(err error) json.RawMessage {
	text, _ := json.Marshal(struct { // texts and numbers only
		Error any `json:"error"`
	}{words.Problem(err)})
	return text
}
