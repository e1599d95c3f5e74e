package fsm

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// field is one field on the wire: a number, or bytes where they lie.
type field struct {
	number protowire.Number
	kind   protowire.Type
	value  uint64
	bytes  []byte
}

// nextField takes a field off the front; of kinds that entries do not have it takes
// none.
func nextField(b *[]byte) (f field, ok bool) {
	number, kind, n := protowire.ConsumeTag(*b)
	if n < 0 {
		return f, false
	}
	f.number, f.kind = number, kind
	rest := (*b)[n:]
	switch kind {
	case protowire.VarintType:
		f.value, n = protowire.ConsumeVarint(rest)
	case protowire.BytesType:
		f.bytes, n = protowire.ConsumeBytes(rest)
	default:
		return f, false
	}
	if n < 0 {
		return f, false
	}
	*b = rest[n:]
	return f, true
}

// text reads a string, which must be UTF-8.
func text(f field) (string, bool) { return string(f.bytes), utf8.Valid(f.bytes) }

// word reads a string that many operations share: it is kept once.
func (o *opener) word(f field) (string, bool) {
	if w, known := o.words[string(f.bytes)]; known {
		return w, true
	}
	w, ok := text(f)
	if !ok || len(w) > wordBytesMost {
		return w, ok
	}
	if o.words == nil || len(o.words) >= wordsMost {
		o.words = make(map[string]string)
	}
	o.words[w] = w
	return w, true
}

func (o *opener) more(list []string, f field) ([]string, bool) {
	w, ok := o.word(f)
	return append(list, w), ok
}

// wordBytesMost is the length up to which words are kept.
const wordBytesMost = 128
