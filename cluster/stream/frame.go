package stream

import (
	"errors"
	"fmt"
)

// The kinds of RPC on a raft connection: the byte before each request.
const (
	rpcInstallSnapshot = 2
	rpcKinds           = 5
)

const (
	// frameSmallMax bounds an answer, and the head of a snapshot, in bytes.
	frameSmallMax = 1 << 20
	// frameItemsMax bounds the values in one frame: a single byte can decode to a whole empty entry. 64 entries are
	// about 900 values.
	frameItemsMax = 1 << 16
	// frameDepthMax bounds nesting; raft's own depth is up to four.
	frameDepthMax = 16
)

// errFrame is wrapped by every error of a frameMeter.
var errFrame = errors.New("not a raft frame")

// frameMeter parses the msgpack of one direction of a raft connection, byte by byte and without storing any, and
// rejects data that exceeds a bound. hashicorp/raft decodes without any bound: it held one string of 200 MiB in memory.
// A length that exceeds the bound is rejected as soon as it is announced.
type frameMeter struct {
	answers bool  // the direction of answers: objects not preceded by a kind
	max     int64 // maximum bytes of one frame

	left   int64 // bytes left for the current frame
	items  int   // values left for it
	skip   int64 // bytes to skip
	kind   byte  // of the current request
	inside bool  // within a frame
	stack  []int // values still to come at each level
	need   int   // bytes of a length still to come
	length uint64
	header byte // the header that the length belongs to

	// from is the id that each request must name, empty if none is required; ids counts those that the current one
	// named.
	from string
	ids  int
	text topText

	// streaming is set after the head of a snapshot: the bytes that follow go to disk and end the connection.
	streaming bool
}

// feed processes more bytes.
func (m *frameMeter) feed(p []byte) error {
	for len(p) > 0 && !m.streaming {
		if !m.inside {
			if err := m.begin(p[0]); err != nil {
				return err
			}
			if !m.answers {
				p = p[1:]
			}
			continue
		}
		used := int64(1)
		if m.skip > 0 {
			used = min(m.skip, int64(len(p)))
		}
		if m.left -= used; m.left < 0 {
			return fmt.Errorf("%w: more than %d bytes", errFrame, m.max)
		}
		if m.text.wanted > 0 && m.skip > 0 {
			m.text.take(p[:used])
		}
		if err := m.step(p[0], used); err != nil {
			return err
		}
		if !m.inside && m.from != "" && m.ids != 1 {
			return fmt.Errorf("%w: a request that names %d senders", errFrame, m.ids)
		}
		p = p[used:]
	}
	return nil
}

// begin starts a frame.
func (m *frameMeter) begin(kind byte) error {
	m.left, m.items, m.inside = m.max, frameItemsMax, true
	m.stack = append(m.stack[:0], 1)
	m.ids, m.text = 0, topText{}
	if m.answers {
		return nil
	}
	if m.kind = kind; kind >= rpcKinds {
		return fmt.Errorf("%w: request kind %d", errFrame, kind)
	}
	if kind == rpcInstallSnapshot {
		m.left = min(m.left, frameSmallMax)
	}
	return nil
}

// step processes one byte of structure, or used bytes of content.
func (m *frameMeter) step(b byte, used int64) error {
	switch {
	case m.skip > 0:
		if m.skip -= used; m.skip > 0 {
			return nil
		}
		if err := m.endText(); err != nil {
			return err
		}
		m.valueDone()
		return nil
	case m.need > 0:
		m.length = m.length<<8 | uint64(b)
		if m.need--; m.need == 0 {
			return m.open(m.header, m.length)
		}
		return nil
	}
	if m.items--; m.items < 0 {
		return fmt.Errorf("%w: more than %d values", errFrame, frameItemsMax)
	}
	if err := m.place(b); err != nil {
		return err
	}
	switch {
	case b < 0x80, b >= 0xe0, b == 0xc0, b == 0xc2, b == 0xc3: // small integers, nil, booleans
		m.valueDone()
		return nil
	case b < 0x90:
		return m.open(0xdf, uint64(b&0x0f))
	case b < 0xa0:
		return m.open(0xdd, uint64(b&0x0f))
	case b < 0xc0:
		return m.open(0xdb, uint64(b&0x1f))
	}
	shape := msgpackShapes[b-0xc0]
	if shape == (msgpackShape{}) {
		return fmt.Errorf("%w: byte %#x", errFrame, b)
	}
	if shape.lengthBytes == 0 {
		m.skip = shape.fixed
		return nil
	}
	m.header, m.need, m.length = shape.as, shape.lengthBytes, 0
	return nil
}

// msgpackShape describes the content after a header byte from 0xc0 to 0xdf: a fixed number of bytes of content, or a
// length of lengthBytes bytes for the type of 0xc6 (bytes), 0xc9 (extension), 0xdb (string), 0xdd (array) or 0xdf
// (map).
type msgpackShape struct {
	fixed       int64
	lengthBytes int
	as          byte
}

var msgpackShapes = [32]msgpackShape{
	0x04: {0, 1, 0xc6}, 0x05: {0, 2, 0xc6}, 0x06: {0, 4, 0xc6},
	0x07: {0, 1, 0xc9}, 0x08: {0, 2, 0xc9}, 0x09: {0, 4, 0xc9},
	0x0a: {fixed: 4}, 0x0b: {fixed: 8}, // floats
	0x0c: {fixed: 1}, 0x0d: {fixed: 2}, 0x0e: {fixed: 4}, 0x0f: {fixed: 8}, // unsigned
	0x10: {fixed: 1}, 0x11: {fixed: 2}, 0x12: {fixed: 4}, 0x13: {fixed: 8}, // signed
	0x14: {fixed: 2}, 0x15: {fixed: 3}, 0x16: {fixed: 5}, 0x17: {fixed: 9}, 0x18: {fixed: 17},
	0x19: {0, 1, 0xdb}, 0x1a: {0, 2, 0xdb}, 0x1b: {0, 4, 0xdb},
	0x1c: {0, 2, 0xdd}, 0x1d: {0, 4, 0xdd}, 0x1e: {0, 2, 0xdf}, 0x1f: {0, 4, 0xdf},
}

// open begins a value of a known length.
func (m *frameMeter) open(header byte, length uint64) error {
	if length > uint64(m.left) {
		return fmt.Errorf("%w: a length of %d announced, %d bytes are left", errFrame, length, m.left)
	}
	switch header {
	case 0xdd, 0xdf:
		count := int(length)
		if header == 0xdf {
			count *= 2
		}
		if count > m.items {
			return fmt.Errorf("%w: %d values announced", errFrame, count)
		}
		if len(m.stack) >= frameDepthMax {
			return fmt.Errorf("%w: nested more than %d deep", errFrame, frameDepthMax)
		}
		if count == 0 {
			m.valueDone()
			return nil
		}
		m.stack = append(m.stack, count)
		return nil
	case 0xc9:
		length++ // the extension's type
	}
	if err := m.beginText(length); err != nil {
		return err
	}
	if m.skip = int64(length); length == 0 {
		m.valueDone()
	}
	return nil
}

// valueDone counts a completed value, and those that it completes.
func (m *frameMeter) valueDone() {
	for n := len(m.stack); n > 0; n = len(m.stack) {
		if m.stack[n-1]--; m.stack[n-1] > 0 {
			return
		}
		m.stack = m.stack[:n-1]
	}
	m.inside = false
	m.streaming = !m.answers && m.kind == rpcInstallSnapshot
}
