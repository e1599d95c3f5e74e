package entry

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// field is one field on the wire: a number, or a slice of the input.
type field struct {
	number protowire.Number
	kind   protowire.Type
	value  uint64
	bytes  []byte
}

// nextField removes a field from the front; ok is false for kinds that entries do not use.
func nextField(b *[]byte) (f field, ok bool) {
	// Nearly all fields have a tag of one byte, and a value or length of one byte.
	if list := *b; len(list) >= 2 && list[0]-8 < 0x78 && list[1] < 0x80 {
		f.number, f.kind = protowire.Number(list[0]>>3), protowire.Type(list[0]&7)
		switch n := 2 + int(list[1]); {
		case f.kind == protowire.VarintType:
			f.value, *b = uint64(list[1]), list[2:]
			return f, true
		case f.kind == protowire.BytesType && n <= len(list):
			f.bytes, *b = list[2:n], list[n:]
			return f, true
		}
	}
	return longField(b)
}

// longField is nextField for all fields.
func longField(b *[]byte) (f field, ok bool) {
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

// text returns a string, which must be UTF-8.
func text(f field) (string, bool) { return string(f.bytes), utf8.Valid(f.bytes) }

// word returns a string that many operations share, stored once.
func (d *Decoder) word(f field) (string, bool) {
	last := &d.last[f.number%wordFields]
	if *last == string(f.bytes) {
		return *last, true
	}
	w, ok := d.known(f)
	if ok && len(w) <= maxWordBytes {
		*last = w
	}
	return w, ok
}

// known looks up a word among the cached ones.
func (d *Decoder) known(f field) (string, bool) {
	if w, known := d.words[string(f.bytes)]; known {
		return w, true
	}
	w, ok := text(f)
	if !ok || len(w) > maxWordBytes {
		return w, ok
	}
	if d.words == nil || len(d.words) >= maxWords {
		d.words = make(map[string]string)
	}
	d.words[w] = w
	return w, true
}

func (d *Decoder) more(list []string, f field) ([]string, bool) {
	w, ok := d.word(f)
	return append(list, w), ok
}

// maxWordBytes is the maximum length of a cached word.
const maxWordBytes = 128

// wordFields is greater than the number of any field with words.
const wordFields = 64
