package gossip

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// errGate is wrapped by every error of the gate.
var errGate = errors.New("refused at the gate")

// scanner parses msgpack in bytes that it holds or reads on demand. It rejects a length that exceeds the remaining
// bytes before any memory is allocated for it, which memberlist's decoder does not check.
type scanner struct {
	from io.Reader // nil if held is everything
	held []byte
	at   int
	most int
}

// need returns the next n bytes.
func (s *scanner) need(n int) ([]byte, error) {
	if n > s.most-s.at {
		return nil, fmt.Errorf("%w: %d bytes announced, %d are left", errGate, n, s.most-s.at)
	}
	for short := n - (len(s.held) - s.at); short > 0; short = n - (len(s.held) - s.at) {
		if s.from == nil {
			return nil, fmt.Errorf("%w: cut short", errGate)
		}
		room := make([]byte, min(max(short, minReadAt), s.most-len(s.held), readAtOnce))
		got, err := s.from.Read(room)
		s.held = append(s.held, room[:got]...)
		if err != nil && got < short {
			return nil, err
		}
	}
	s.at += n
	return s.held[s.at-n : s.at], nil
}

// minReadAt and readAtOnce bound the memory allocated for one read: an announced length alone allocates nothing.
const (
	minReadAt  = 512
	readAtOnce = 32 << 10
)

// scanDepth bounds nesting; memberlist's own depth is up to two.
const scanDepth = 4

// value skips one value.
func (s *scanner) value(depth int) error {
	head, err := s.need(1)
	if err != nil {
		return err
	}
	b := head[0]
	switch {
	case b < 0x80, b >= 0xe0, b == 0xc0, b == 0xc2, b == 0xc3: // small integers, nil, booleans
		return nil
	case b < 0x90:
		return s.values(2*int(b&0x0f), depth)
	case b < 0xa0:
		return s.values(int(b&0x0f), depth)
	case b < 0xc0:
		_, err := s.need(int(b & 0x1f))
		return err
	}
	switch b {
	case 0xc4, 0xd9, 0xc5, 0xda, 0xc6, 0xdb: // bytes and strings
		n, err := s.length(b, 0xc4, 0xd9)
		if err == nil {
			_, err = s.need(n)
		}
		return err
	case 0xcc, 0xd0:
		_, err = s.need(1)
	case 0xcd, 0xd1:
		_, err = s.need(2)
	case 0xce, 0xd2, 0xca:
		_, err = s.need(4)
	case 0xcf, 0xd3, 0xcb:
		_, err = s.need(8)
	case 0xdc, 0xdd:
		return s.many(b-0xdc, 1, depth)
	case 0xde, 0xdf:
		return s.many(b-0xde, 2, depth)
	default:
		err = fmt.Errorf("%w: byte %#x", errGate, b)
	}
	return err
}

// length reads the length after the header of a text: of one byte after either of ones, of two after its next, and of
// four after that.
func (s *scanner) length(b byte, ones ...byte) (int, error) {
	for _, one := range ones {
		if b >= one && b <= one+2 {
			return s.number(1 << (b - one))
		}
	}
	return 0, fmt.Errorf("%w: byte %#x instead of a text", errGate, b)
}

// number reads an unsigned number of the given size in bytes.
func (s *scanner) number(bytes int) (int, error) {
	raw, err := s.need(bytes)
	if err != nil {
		return 0, err
	}
	var wide [8]byte
	copy(wide[8-bytes:], raw)
	n := binary.BigEndian.Uint64(wide[:])
	if n > math.MaxInt32 {
		return 0, fmt.Errorf("%w: %d announced", errGate, n)
	}
	return int(n), nil
}

// many skips an array or a map whose count has two bytes, or four if wide is 1.
func (s *scanner) many(wide byte, each, depth int) error {
	count, err := s.number(2 << wide)
	if err != nil {
		return err
	}
	return s.values(each*count, depth)
}

func (s *scanner) values(count, depth int) error {
	if depth >= scanDepth {
		return fmt.Errorf("%w: nested more than %d deep", errGate, scanDepth)
	}
	if count > s.most-s.at {
		return fmt.Errorf("%w: %d values announced, %d bytes are left", errGate, count, s.most-s.at)
	}
	for range count {
		if err := s.value(depth + 1); err != nil {
			return err
		}
	}
	return nil
}

// object skips a map of texts to values, each key once. numbers holds those values that are whole, not negative and not
// large.
func (s *scanner) object() (numbers map[string]int, err error) {
	head, err := s.need(1)
	if err != nil {
		return nil, err
	}
	count := int(head[0] & 0x0f)
	if head[0]&0xf0 != 0x80 { // no message of memberlist has more fields
		return nil, fmt.Errorf("%w: byte %#x instead of a message", errGate, head[0])
	}
	numbers = make(map[string]int, count)
	for range count {
		key, err := s.text()
		if err != nil {
			return nil, err
		}
		if _, twice := numbers[key]; twice {
			return nil, fmt.Errorf("%w: field %q comes twice", errGate, key)
		}
		if numbers[key], err = s.field(); err != nil {
			return nil, err
		}
	}
	return numbers, nil
}

// noNumber marks a value that is not such a number.
const noNumber = -1

// field skips a value, and returns it if it is a number.
func (s *scanner) field() (int, error) {
	head, err := s.need(1)
	if err != nil {
		return 0, err
	}
	switch b := head[0]; {
	case b < 0x80:
		return int(b), nil
	case b >= 0xcc && b <= 0xd3: // unsigned, then signed, of 1, 2, 4 and 8 bytes
		raw, err := s.need(1 << (b & 3))
		if err != nil {
			return 0, err
		}
		var wide [8]byte
		copy(wide[8-len(raw):], raw)
		n := binary.BigEndian.Uint64(wide[:])
		if n > math.MaxInt32 || b >= 0xd0 && raw[0] >= 0x80 {
			return noNumber, nil // an incarnation may have any value
		}
		return int(n), nil
	}
	s.at--
	return noNumber, s.value(1)
}

// text reads a short text.
func (s *scanner) text() (string, error) {
	head, err := s.need(1)
	if err != nil {
		return "", err
	}
	b := head[0]
	n := int(b & 0x1f)
	if b < 0xa0 || b >= 0xc0 {
		if n, err = s.length(b, 0xc4, 0xd9); err != nil {
			return "", err
		}
	}
	raw, err := s.need(n)
	return string(raw), err
}
