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
	// streamWrite bounds one writing to a stream: longer than the core waits before it cuts a
	// slow reader off, so that the reason has a chance to arrive.
	streamWrite = 40 * time.Second
	// beginTime is what a stream gets to find where it begins: as much as a call.
	beginTime = callTime
	// endTime is what a writing that is stuck gets once the stream ends.
	endTime = time.Second
)

// stream is an answer that goes on. Writing bounds its own time, as the server's is for calls;
// nothing waits in memory but what is being written.
type stream struct {
	w    http.ResponseWriter
	http *http.ResponseController

	mu sync.Mutex
	// wrote is when something was written last.
	wrote time.Time
	begun bool
	over  bool
}

func newStream(w http.ResponseWriter) *stream {
	s := &stream{w: w, http: http.NewResponseController(w)}
	s.allow(beginTime + streamWrite)
	return s
}

// allow gives the next writing so much time; a connection without deadlines needs none.
func (s *stream) allow(most time.Duration) { _ = s.http.SetWriteDeadline(time.Now().Add(most)) }

// begin sends the header, and what comes before all else.
func (s *stream) begin(mediaType, first string) error {
	h := s.w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("X-Accel-Buffering", "no") // proxies that hold back what goes on would show nothing
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

// put is write for who holds mu.
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

// beat writes a sign of life whenever nothing else was written for so long, until ctx ends. One
// that a writing is under way in needs none.
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
			_ = s.put(sign) // whoever writes next meets the error, and the connection's end ends ctx
		}
		s.mu.Unlock()
	}
}

// end writes the last, and lets nobody write any more; whoever is stuck in a writing is freed.
func (s *stream) end(last []byte) {
	if !s.mu.TryLock() {
		s.allow(endTime)
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	if len(last) > 0 {
		_ = s.put(last) // it fails where one before did
	}
	s.over = true
}

// problemText returns a problem in JSON, in one line.
func problemText(err error) []byte {
	text, _ := json.Marshal(problemOf(err).Problem) // it has texts and numbers only
	return text
}

// refuseStream refuses a request for an answer that goes on; blocks says that server-sent events were asked for. A
// browser's EventSource never connects again after another status than 200 (WHATWG HTML 9.2): while the reason passes,
// such as a node that starts or goes, it gets a stream that says why it ends and when to come again.
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

// maxPause bounds what a reader is asked to wait: it keeps that for as long as it follows.
const maxPause = 30 * time.Second
