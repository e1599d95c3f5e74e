package joblog

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
)

// Writer makes lines of the written bytes, and keeps them in a Buffer. It is safe for concurrent use, and accepts all
// bytes: of a line that is too long it keeps the beginning, and notes how much was cut.
type Writer struct {
	mu     sync.Mutex
	buffer Buffer
	// line is the one that has no end yet; over counts the bytes cut of it.
	line []byte
	over uint64
}

// roomForCut is reserved at the end of a line for the note how much of it was cut.
const roomForCut = 64

// Write implements io.Writer. It never fails.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(p)
	for len(p) > 0 {
		at := bytes.IndexByte(p, '\n')
		part := p
		if at >= 0 {
			part = p[:at]
		}
		room := limits.MaxLogLine - roomForCut - len(w.line)
		w.line = append(w.line, part[:min(room, len(part))]...)
		w.over += uint64(max(0, len(part)-room))
		if at < 0 {
			break
		}
		w.end()
		p = p[at+1:]
	}
	return n, nil
}

// end ends the line.
func (w *Writer) end() {
	if w.over > 0 {
		w.line = fmt.Appendf(w.line, " [%d bytes of this line were cut]", w.over)
	}
	w.buffer.Add(append(w.line, '\n'))
	w.line, w.over = w.line[:0], 0
}

// Since is Buffer.Since of the lines that have ended.
func (w *Writer) Since(at uint64) []rota.LogPart {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buffer.Since(at)
}

// Close ends the last line and returns the encoding of the log; nil where nothing was written.
func (w *Writer) Close() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.line) > 0 {
		w.end()
	}
	l := w.buffer.Log()
	return l.Append(nil)
}
