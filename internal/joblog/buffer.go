package joblog

import (
	"bytes"

	"github.com/rotasched/rota"
	"github.com/rotasched/rota/internal/limits"
)

// Buffer keeps the first and the last lines of a log. The zero Buffer is empty.
type Buffer struct {
	head []byte
	// full means that the head accepts no further lines: the rest is the tail.
	full bool
	// tail[start:] are the last lines; cut counts those between.
	tail               []byte
	start              int
	cutLines, cutBytes uint64
}

// Add adds a line, which ends with a newline and has at most limits.MaxLogLine bytes.
func (b *Buffer) Add(line []byte) {
	if !b.full && len(b.head)+len(line) <= limits.MaxLogHead {
		b.head = append(b.head, line...)
		return
	}
	b.full = true
	for len(b.tail)-b.start+len(line) > limits.MaxLogTail {
		n := bytes.IndexByte(b.tail[b.start:], '\n') + 1
		b.start += n
		b.cutLines++
		b.cutBytes += uint64(n)
	}
	if b.start >= limits.MaxLogHead { // memory stays flat, and few bytes move often
		b.tail = b.tail[:copy(b.tail, b.tail[b.start:])]
		b.start = 0
	}
	b.tail = append(b.tail, line...)
}

// Total is the length of all that was ever added.
func (b *Buffer) Total() uint64 {
	return uint64(len(b.head)) + b.cutBytes + uint64(len(b.tail)-b.start)
}

// Size is about what the buffer takes of memory.
func (b *Buffer) Size() int { return cap(b.head) + cap(b.tail) + 128 }

// Log returns the kept lines. It shares the buffer's bytes.
func (b *Buffer) Log() Log { return Log{b.head, b.tail[b.start:], b.cutLines, b.cutBytes} }

// Since returns the kept lines from a place on, which Total or the End of a part returned. The parts are copies.
func (b *Buffer) Since(at uint64) (parts []rota.LogPart) {
	l := b.Log()
	parts = l.Since(at)
	for i := range parts {
		parts[i].Text = bytes.Clone(parts[i].Text)
	}
	return parts
}

// Take adds what a part has and the buffer has not. Where the part begins beyond the buffer's
// end, what the buffer has of the tail is cut.
func (b *Buffer) Take(p rota.LogPart) {
	total := b.Total()
	if p.End() <= total {
		return
	}
	if p.At > total {
		b.full, b.tail, b.start = true, b.tail[:0], 0
		b.cutBytes = p.At - uint64(len(b.head))
		b.cutLines = max(1, b.cutLines, p.CutLines)
	} else {
		p.Text = p.Text[total-p.At:]
	}
	for len(p.Text) > 0 {
		n := bytes.IndexByte(p.Text, '\n') + 1
		b.Add(p.Text[:n])
		p.Text = p.Text[n:]
	}
}
