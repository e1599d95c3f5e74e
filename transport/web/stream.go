package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/api/rest"
)

const (
	// streamWrite bounds one write to a stream: it is longer than the core waits before it cuts off a slow reader, so
	// that the reason can still arrive.
	streamWrite = 40 * time.Second
	// beginTime bounds how long a stream takes to find its start: as long as a call.
	beginTime = callTime
	// endTime bounds a stuck write once the stream ends.
	endTime = time.Second
)

// stream is a long-lived answer. Each write bounds its own time, as the server's limit is for calls. Only the current
// write is kept in memory.
type stream struct {
	w    http.ResponseWriter
	http *http.ResponseController

	mu sync.Mutex
	// wrote is the time of the last write.
	wrote time.Time
	begun bool
	over  bool
}

func newStream(w http.ResponseWriter) *stream {
	s := &stream{w: w, http: http.NewResponseController(w)}
	s.allow(beginTime + streamWrite)
	return s
}

// allow sets the deadline of the next write; a connection without deadlines needs none.
func (s *stream) allow(most time.Duration) { _ = s.http.SetWriteDeadline(time.Now().Add(most)) }

// begin sends the header, and the bytes that precede everything else.
func (s *stream) begin(mediaType, first string) error {
	h := s.w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("X-Accel-Buffering", "no") // proxies that buffer streams would show nothing
	s.w.WriteHeader(http.StatusOK)
	s.begun = true
	return s.write([]byte(first))
}

// write sends a piece at once.
func (s *stream) write(piece []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.put(piece)
}

// put writes like write; the caller holds mu.
func (s *stream) put(piece []byte) error {
	if s.over {
		return errGone
	}
	s.allow(streamWrite)
	s.wrote = time.Now()
	if len(piece) > 0 {
		if _, err := s.w.Write(piece); err != nil {
			return gone(err)
		}
	}
	if err := s.http.Flush(); err != nil {
		return gone(err)
	}
	return nil
}

var errGone = &rota.Error{Kind: rota.KindUnavailable, Text: "the stream is over"}

func gone(err error) error {
	return &rota.Error{Kind: rota.KindUnavailable, Text: "the connection ended", Cause: err}
}

// beat writes a keep-alive whenever nothing else was written for the given time, until ctx ends. It writes none during
// another write.
func (s *stream) beat(ctx context.Context, every time.Duration, sign []byte) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if !s.mu.TryLock() {
			continue
		}
		if time.Since(s.wrote) >= every/2 {
			_ = s.put(sign) // the next write returns the error, and the connection's end ends ctx
		}
		s.mu.Unlock()
	}
}

// end writes the last piece and stops all further writes; a stuck write is released.
func (s *stream) end(last []byte) {
	if !s.mu.TryLock() {
		s.allow(endTime)
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	if len(last) > 0 {
		_ = s.put(last) // fails if an earlier write failed
	}
	s.over = true
}

// problemText returns a problem as one line of JSON.
func problemText(err error) []byte {
	text, _ := json.Marshal(problemOf(err).Problem) // it has texts and numbers only
	return text
}

// refuseStream rejects a request for a long-lived answer; blocks marks a request for server-sent events. A browser's
// EventSource never reconnects after a status other than 200 (WHATWG HTML 9.2). While the reason is temporary, such as
// a node that starts or shuts down, the browser gets a stream that states why it ends and when to reconnect.
func refuseStream(w http.ResponseWriter, err error, blocks bool) {
	switch kind := rota.KindOf(err); {
	case !blocks, kind != rota.KindUnavailable && kind != rota.KindExhausted && kind != rota.KindTimeout:
		Refuse(w, err, 0)
		return
	}
	pause := time.Second
	if refusal, ok := errors.AsType[*rota.Error](err); ok {
		pause = min(max(pause, refusal.RetryAfter), maxPause)
	}
	out := newStream(w)
	if out.begin(mediaBlocks, fmt.Sprintf("retry: %d\n\n", pause.Milliseconds())) == nil {
		out.end(asBlocks.last(rest.StreamGoing, problemText(err)))
	}
}

// maxPause bounds the reconnect delay that a reader is asked for: it keeps that for as long as it follows.
const maxPause = 30 * time.Second
