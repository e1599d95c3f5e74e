package words

import (
	"errors"
	"unicode/utf8"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/rotasched/rota"
)

// errWire is the error for a message whose bytes are not protobuf.
var errWire = errors.New("a message cannot be decoded")

// field is one field of a message: value for a number, bytes for a text or a message. Fields of other kinds, which our
// messages do not have, set only kind.
type field struct {
	number protowire.Number
	kind   protowire.Type
	value  uint64
	bytes  []byte
}

// nextField reads one field and returns the bytes after it. The field's bytes have no spare capacity, so that an append
// cannot overwrite the next field.
func nextField(b []byte) (f field, rest []byte, err error) {
	number, kind, n := protowire.ConsumeTag(b)
	if n < 0 || number > protowire.MaxValidNumber { // ConsumeTag accepts it, and proto.Unmarshal does not
		return f, nil, errWire
	}
	f.number, f.kind, b = number, kind, b[n:]
	switch kind {
	case protowire.VarintType:
		f.value, n = protowire.ConsumeVarint(b)
	case protowire.BytesType:
		f.bytes, n = protowire.ConsumeBytes(b)
		f.bytes = f.bytes[:len(f.bytes):len(f.bytes)]
	default:
		n = protowire.ConsumeFieldValue(number, kind, b)
	}
	if n < 0 {
		return f, nil, errWire
	}
	return f, b[n:], nil
}

// textOfBytes returns a string on the same memory, which must not change.
func textOfBytes[T ~string](to *T, b []byte) error {
	if !utf8.Valid(b) {
		return errWire
	}
	if *to = ""; len(b) > 0 {
		*to = T(unsafe.String(unsafe.SliceData(b), len(b)))
	}
	return nil
}

func appendText[T ~string](b []byte, number protowire.Number, s T) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), clean(string(s)))
}

func appendBytes(b []byte, number protowire.Number, v []byte) []byte {
	if len(v) == 0 {
		return b
	}
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), v)
}

func appendNumber[T ~int32 | ~int64 | ~uint64 | ~uint8](b []byte, number protowire.Number, v T) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), uint64(v))
}

// appendSet also writes zero, where it does not mean unset.
func appendSet[T ~int32 | ~int64 | ~uint64 | ~uint8](b []byte, number protowire.Number, v T) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), uint64(v))
}

func appendYes(b []byte, number protowire.Number, yes bool) []byte {
	if !yes {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), 1)
}

func appendTexts(b []byte, number protowire.Number, list []string) []byte {
	for _, s := range list { // an empty one counts
		b = protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), clean(s))
	}
	return b
}

func appendPairs(b []byte, number protowire.Number, pairs map[string]string) []byte {
	for k, v := range pairs {
		var at int
		b, at = openMessage(b, number)
		b = closeMessage(appendText(appendText(b, 1, k), 2, v), at)
	}
	return b
}

func appendLimits(b []byte, number protowire.Number, limits map[string]int64) []byte {
	for k, v := range limits {
		var at int
		b, at = openMessage(b, number)
		b = closeMessage(appendNumber(appendText(b, 1, k), 2, v), at)
	}
	return b
}

func appendToken(b []byte, number protowire.Number, t rota.Token) []byte {
	if t.IsZero() {
		return b
	}
	var room [41]byte
	return appendBytes(b, number, writeToken(room[:0], t))
}

// lengthRoom is the space that openMessage leaves for a length: most nested messages have 128 to 16,383 bytes.
const lengthRoom = 2

// openMessage begins a nested message; closeMessage, with its starting offset, ends it.
func openMessage(b []byte, number protowire.Number) (out []byte, at int) {
	b = protowire.AppendTag(b, number, protowire.BytesType)
	return append(b, 0, 0), len(b)
}

func closeMessage(b []byte, at int) []byte {
	n := len(b) - at - lengthRoom
	switch size := protowire.SizeVarint(uint64(n)); {
	case size < lengthRoom:
		copy(b[at+size:], b[at+lengthRoom:])
		b = b[:at+size+n]
	case size > lengthRoom:
		b = append(b, make([]byte, size-lengthRoom)...)
		copy(b[at+size:], b[at+lengthRoom:at+lengthRoom+n])
	}
	protowire.AppendVarint(b[at:at], uint64(n))
	return b
}
